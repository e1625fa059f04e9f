// A module of its own that knows nothing of ringproof, as yours is.
module example.com/go-launcher

go 1.26.0
