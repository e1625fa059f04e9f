# SPDX-License-Identifier: Apache-2.0
# Copyright the ringproof authors.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
# One way to compile for everything here: each other compiles all of Kubernetes's client once more.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)
.DEFAULT_GOAL := help
# Where chaos, mutants and known-bugs put their reports; out/TIME when it is empty.
OUT :=
GO := go
FUZZTIME := 20s
CONTROLLER_GEN := v0.23.0
# How often a cell in real time is run that doesn't pass.
ATTEMPTS := 3
# Which releases make fidelity plays the scripts on.
RELEASES := v3.6.16,v3.5.35,v3.7.3
REPORT = $(or $(OUT),out/chaos)

.PHONY: help build images test trials test-realtime test-properties test-kind trials-kind upstream manifests check vet staticcheck vet-elsewhere chaos kubernetes explore sweep mutants known-bugs gauge canaries fidelity found bench etcd etcd-test golden fuzz clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

build: ## bin/ringproof and bin/ringadm
	$(GO) build -o bin/ ./cmd/ringproof ./cmd/ringadm

images: build ## container images of ringadm and etcd, in out/images
	bin/ringproof images v3.6.16

test: build etcd-test ## every test that a busy machine can't change, and what was skipped and why
	@mkdir -p out
	$(GO) test -v -timeout 30m ./... 2>&1 | tee out/test.log | awk -f .ci/tally.awk
	$(GO) -C examples/tiny test -count=1 ./...

trials: ## what a busy machine can change: real rings in real time, known bugs, a cluster; or PARTS="NAME …"
	.ci/trials $(PARTS)

# holding WORDS are the packages with a test that has them.
holding = $(shell grep -rlE --include='*_test.go' --exclude-dir=upstream --exclude-dir=examples '$(1)' . | xargs -n 1 dirname | sort -u)

test-realtime fidelity: export RINGPROOF_TRIALS := 1

test-realtime: build etcd-test
	@mkdir -p out
	$(GO) test -v -p 1 -count=1 -timeout 30m $(filter-out ./sim/fidelity,$(call holding,needs\.RealTime|RINGPROOF_TRIALS)) 2>&1 | tee out/realtime.log | awk -f .ci/tally.awk

test-properties:
	CI= $(GO) test -count=1 -timeout 30m $(call holding,pgregory\.net/rapid)

test-kind: ## what needs a Kubernetes cluster: its own, in Docker
	RINGPROOF_KIND=1 $(GO) test -p 1 -count=1 -timeout 25m ./internal/kind ./sim/kube/fidelity ./config -parallel 100 -run 'Kind|Interrupted'

trials-kind: ## a cluster of its own, in Docker: those tests, and what scenarios on Kubernetes can be had there
	.ci/trials kind kind-1 kind-2 kind-3 kind-4

upstream: ## the model of StatefulSets against Kubernetes's own controller, ten thousand times
	cd sim/kube/upstream && $(GO) vet . && $(GO) test -count=1 . -rapid.checks=10000

check: vet staticcheck ## formatting, vet, staticcheck, the rules and the short tests
	$(GO) test -short -timeout 30m ./...
	$(GO) -C examples/tiny test ./...

vet:
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted"; exit 1; }
	$(GO) vet ./...
	@# As anybody has it who builds upon this: from outside.
	$(GO) -C examples/tiny vet ./...
	$(GO) -C examples/etcd-operator vet ./...
	$(GO) -C examples/go-launcher vet ./...
	@# What the oracle requires is seen here, and not first in make upstream.
	$(GO) -C sim/kube/upstream list -m all >/dev/null

staticcheck: ## what staticcheck says, in the release that tools/go.mod pins
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

vet-elsewhere: ## that all of it compiles on macOS and Windows, where sim runs
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=windows GOARCH=amd64 $(GO) vet ./...

# The core of what a ring on Kubernetes goes through. What is built for it the first time
# takes some ten minutes, so it comes last.
KUBERNETES = run --world virtual $(patsubst %,--run '%',kube-create kube-volume-deleted[victim=leader] kube-scale kube-enable kube-upgrade[size=3])

# Real etcd is looked at in virtual time, where a busy machine can't change what happens; on a
# host that can't have that, in real time.
VIRTUAL = $(shell bin/ringproof doctor | grep '^ok  virtual time ')
REAL = $(if $(VIRTUAL),--world virtual,--world local --attempts $(ATTEMPTS))

chaos: build ## every scenario simulated, a search, a sweep, a look at real etcd, and one at Kubernetes; the verdict is the exit
	@failed=0; virtual=$(if $(VIRTUAL),yes); \
	for part in "run --out $(REPORT)/sim" \
		"explore --runs 200 --out $(REPORT)/explore" \
		"sweep lifecycle --out $(REPORT)/sweep" \
		"run $(REAL) --selector suite!=kubernetes --first --out $(REPORT)/etcd"; do \
		echo "== ringproof $$part"; bin/ringproof $$part || failed=1; \
	done; \
	if [ -n "$$virtual" ]; then \
		echo "== ringproof run, on Kubernetes"; bin/ringproof $(KUBERNETES) --out $(REPORT)/kubernetes || failed=1; \
	else echo "skipped: kubernetes: virtual time can't be had here: ringproof doctor says why"; fi; \
	exit $$failed

kubernetes: build ## rings on Kubernetes, its real control plane, in virtual time
	bin/ringproof $(KUBERNETES) --out $(or $(OUT),out/kubernetes)

explore: build ## ten thousand plans, each twice in two processes
	bin/ringproof explore --runs 10000 --verify-determinism $(if $(OUT),--out $(OUT))

sweep: build ## every effect and decision of a ring's life, none left out
	bin/ringproof sweep lifecycle --full $(if $(OUT),--out $(OUT))

mutants: build ## every mutant must be killed by its check, in the simulated world, and each check be the only one to notice some
	bin/ringproof mutate --disarm $(if $(OUT),--out $(OUT))

known-bugs: build ## so must each known bug of etcd, and the release that fixed it must pass
	bin/ringproof mutate --known-bugs --seeds 3 $(REAL) $(if $(OUT),--out $(OUT))

# By their names of the release before.
gauge: mutants
canaries: known-bugs

found: build ## what each mutant costs to find, as list mutants prints it
	@mkdir -p out
	bin/ringproof mutate --search --json >out/found.json
	mv out/found.json internal/subject/found.json

fidelity: build ## the same scripts on simulated and on real etcd: who agrees, who differs
	bin/ringproof etcd install v3.5.35 v3.6.16 v3.7.3
	@mkdir -p out
	RINGPROOF_RELEASES=$(RELEASES) $(GO) test -count=1 -v -p 1 -timeout 90m ./sim/fidelity ./sim/kube/fidelity -run 'TestSimulated|TestReleases|TestModel|TestInVirtualTime|TestDrawn' 2>&1 | tee out/fidelity.log | awk -v also='fidelity: [^ ]+ +[0-9]+ agree' -f .ci/tally.awk

bench: build ## how fast the simulated world is
	bin/ringproof bench sim

etcd: build ## build the etcd releases that the scenarios run
	bin/ringproof etcd install v3.5.35 v3.6.16 v3.7.3

etcd-test: build
	bin/ringproof etcd install v3.6.16

golden: ## rewrite what tests compare with; read the diff
	RINGPROOF_GOLDEN=1 $(GO) test ./scenarios ./reports ./harness/cli ./cmd/ringproof
	$(GO) test ./reference/ring ./reference/launcher -rewrite

manifests: ## rewrite the CRDs, and what is generated of the API's types
	$(GO) run sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLER_GEN) object:headerFile=.ci/licence.go.txt crd paths=./reference/api/... output:crd:dir=config/crd

fuzz: ## each fuzz target for 20 seconds
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | while IFS=: read -r file target; do \
		(set -x; $(GO) test "$$(dirname "$$file")" -run '^$$' -fuzz "^$${target#func }\$$" -fuzztime $(FUZZTIME) </dev/null); \
	done

clean: ## what killed runs left behind, bin and out
	if [ -x bin/ringproof ]; then bin/ringproof clean; fi
	rm -rf bin out
