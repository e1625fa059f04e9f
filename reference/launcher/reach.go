// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
)

// Reach opens the ring for a person at one of its machines, with the credentials
// and the word of which ring it is that the agent left on the disk. The caller
// closes it.
func Reach(h host.Host, endpoints []string) (*admin.Ring, error) {
	secure, err := h.Disk().Exists(pkiDir + "/client.crt")
	if err != nil {
		return nil, fmt.Errorf("looking for this machine's certificates: %w", err)
	}
	r := &admin.Ring{Host: h, Cluster: ClusterID(h.Disk().Read)}
	r.Use(endpoints...)
	for _, endpoint := range endpoints {
		switch tls := strings.HasPrefix(endpoint, "https://"); {
		case tls && r.Secure == nil:
			if r.Secure, err = Credentials(h.Disk().Read); err != nil {
				return nil, fmt.Errorf("no client certificate in %s: %w; name the data filesystem of a machine of the ring with --data", h.Disk().Path(""), err)
			}
		case !tls && secure:
			return nil, fmt.Errorf("%s speaks without TLS, and the ring of this machine does not: write https://, or, if another ring is meant, name the data filesystem of one of its machines with --data", endpoint)
		}
	}
	return r, nil
}

// ListAt asks the endpoints for the ring's membership, with what the agent left on
// the disk.
func ListAt(ctx context.Context, h host.Host, endpoints []string) func() (Listing, error) {
	return func() (Listing, error) {
		opened, err := Reach(h, endpoints)
		if err != nil {
			return Listing{}, err
		}
		defer opened.Close()
		list, err := opened.List(ctx)
		if err != nil {
			return Listing{}, err
		}
		l := Listing{Cluster: list.Header.ClusterId}
		for _, m := range list.Members {
			l.Members = append(l.Members, m.ID)
		}
		return l, nil
	}
}
