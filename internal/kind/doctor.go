// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Capability is something that kind needs of a host.
type Capability struct {
	Name   string
	OK     bool
	Detail string
	Fix    string // what to do when it is not OK
	Untold bool   // it is not known: the trial took too long
}

// answer is what the docker command said.
type answer struct {
	ok   bool
	late bool
	text string
}

// asked is how long Docker may take to answer a question about itself.
const asked = 10 * time.Second

func docker(ctx context.Context, args ...string) answer {
	ctx, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	text, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil && text == "" {
		text = err.Error()
	}
	return answer{ok: err == nil, late: ctx.Err() != nil, text: text}
}

// Doctor tries what a kind cluster needs beside Docker: the image of its nodes, and
// enough inotify instances, of which a cluster of five nodes takes 79.
func Doctor(ctx context.Context) []Capability {
	return []Capability{nodeImage(ctx), inotify()}
}

func nodeImage(ctx context.Context) Capability {
	name := image("")
	if name == "" {
		return Capability{Name: "kind image", OK: true, Detail: "kind's own, pulled when it is first needed"}
	}
	said := docker(ctx, "image", "inspect", "--format", "{{.Id}}", name)
	found := Capability{Name: "kind image", OK: said.ok, Untold: said.late, Detail: name,
		Fix: "docker pull " + name + ", or unset RINGPROOF_KIND_IMAGE"}
	if !said.ok {
		found.Detail += ": " + said.text
	}
	return found
}

// instances is how many inotify instances two clusters of five nodes need, and
// what else a developer runs.
const instances = 512

func inotify() Capability {
	const path = "/proc/sys/fs/inotify/max_user_instances"
	found := Capability{Name: "inotify", Fix: fmt.Sprintf("sysctl -w fs.inotify.max_user_instances=%d", 2*instances)}
	text, err := os.ReadFile(path)
	if err != nil {
		found.Detail = err.Error()
		return found
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		found.Detail = err.Error()
		return found
	}
	found.OK, found.Detail = limit >= instances, fmt.Sprintf("%d instances a user", limit)
	return found
}
