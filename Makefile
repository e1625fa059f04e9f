# SPDX-License-Identifier: Apache-2.0
# Copyright the ringproof authors.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help
# Where chaos, gauge and canaries put their reports; out/TIME when it is empty.
OUT :=
GO := go
FUZZTIME := 20s
FLAGS = --world local $(if $(OUT),--out $(OUT))

.PHONY: help build test check chaos gauge canaries etcd etcd-test golden fuzz clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

build: ## bin/ringproof and bin/ringadm
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/ringproof ./cmd/ringadm

test: build etcd-test ## every test, and what was skipped and why; with CI=true only a missing Docker may skip one
	@mkdir -p out
	$(GO) test -v -timeout 30m ./... 2>&1 | tee out/test.log | awk -f .ci/tally.awk

check: ## formatting, vet, the rules and the short tests: under a minute
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) test -short ./...

chaos: build ## the shipped scenarios on real etcd; the verdict is the exit
	bin/ringproof run $(FLAGS)

gauge: build ## every mutant of the reference must be caught by its check
	bin/ringproof gauge $(FLAGS)

canaries: build ## so must each known bug of etcd, and the release that mended it must pass
	bin/ringproof gauge --canaries $(FLAGS)

etcd: build ## build the etcd releases that the scenarios run
	bin/ringproof etcd install v3.5.35 v3.6.16 v3.7.3

etcd-test: build
	bin/ringproof etcd install v3.6.16

golden: ## rewrite what tests compare with; read the diff
	RINGPROOF_GOLDEN=1 $(GO) test ./scenarios ./reports ./cmd/ringproof
	$(GO) test ./reference/ring ./reference/launcher -rewrite

fuzz: ## each fuzz target for 20 seconds
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | while IFS=: read -r file target; do \
		(set -x; $(GO) test "$$(dirname "$$file")" -run '^$$' -fuzz "^$${target#func }\$$" -fuzztime $(FUZZTIME) </dev/null); \
	done

clean: ## what killed runs left behind, bin and out
	if [ -x bin/ringproof ]; then bin/ringproof clean; fi
	rm -rf bin out
