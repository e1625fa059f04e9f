// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ringproof/ringproof/internal/image"
)

// faulty is how many nodes of a cluster scripts may stop or cut off. All pods that don't say where they
// are to run may be on these too.
const faulty = 2

// nodes are those on which the pods of scripts run. The first is 1.
type nodes interface {
	// Called is what a node is called.
	Called(worker int) string
	// Class is the StorageClass of its disks.
	Class() string
	// Do breaks or mends a node.
	Do(ctx context.Context, worker int, deed string) error
}

// deeds are what can be done to a node: to its kubelet alone, or to the whole machine.
const (
	kubeletStops = "kubelet-stops" // and what it started runs on
	kubeletGoes  = "kubelet-goes-on"
	powerGoes    = "power-goes"
	powerComes   = "power-comes-back"
)

// actor is the image that containers of scripts run.
const actor = "ringproof.dev/actor:dev"

// actorImage is the image of a program that was built of internal/actor.
func actorImage(program string) image.Image {
	return image.Image{Name: actor, Programs: map[string]string{"/actor": program}, Entrypoint: []string{"/actor"}}
}

// buildActor builds the program for a real node.
func buildActor(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "actor")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../../internal/actor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	told, err := build.CombinedOutput()
	require.NoError(t, err, "%s", told)
	return program
}

// playAll plays what scripts say of a cluster in which pods run: all at once, as most of
// the time they wait, but for those that break its nodes.
func playAll(t *testing.T, new func(t *testing.T, path string) api) {
	for _, of := range []string{"kubelet", "network", "volumes"} {
		t.Run(of, func(t *testing.T) {
			scripts(t, filepath.Join("cluster", of), func(t *testing.T, path string) {
				t.Parallel()
				play(t, path, new(t, path))
			})
		})
	}
	scripts(t, "cluster/nodes", func(t *testing.T, path string) { play(t, path, new(t, path)) })
}

// named has the names of the nodes in the place of worker1 and its like, and that of the
// StorageClass in the place of CLASS.
func (s *stage) named(text string) string {
	if all, ok := s.api.(nodes); ok {
		text = strings.ReplaceAll(text, "CLASS", all.Class())
		for n := range faulty {
			text = strings.ReplaceAll(text, fmt.Sprintf("worker%d", n+1), all.Called(n+1))
		}
	}
	return text
}

// worker breaks or mends a node.
func (s *stage) worker(d *datadriven.TestData) (string, error) {
	all, ok := s.api.(nodes)
	if !ok {
		return "", errors.New("nothing runs on this API server's nodes")
	}
	n, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil {
		return "", err
	}
	return "", all.Do(s.ctx, n, d.CmdArgs[1].Key)
}

// await waits until each line of its input is in the summary of an object, and prints
// that: when it is so no earlier than from= and within=, and stays so for a moment, as what
// stands together is written one after another. With only, nothing else of it is printed,
// where the kubelet tells one of two things, as it comes.
func (s *stage) await(d *datadriven.TestData) (string, error) {
	from, err := span(d, "from")
	if err != nil {
		return "", err
	}
	within, err := span(d, "within")
	if err != nil {
		return "", err
	}
	began, wanted := time.Now(), strings.Split(strings.TrimSpace(d.Input), "\n")
	for before := ""; ; {
		now, err := s.summary(d)
		took := time.Since(began).Round(time.Second)
		switch so := now == before && contains(now, wanted); {
		case err != nil:
			return "", err
		case so && took < from:
			return fmt.Sprintf("after %s already\n%s", took, now), nil
		case so && d.HasArg("only"):
			return "so it is\n", nil
		case so:
			return now, nil
		case took > within:
			return fmt.Sprintf("not within %s\n%s", within, now), nil
		}
		before = now
		s.Elapse(moment)
	}
}

// moment is how long what is awaited must stay.
const moment = 300 * time.Millisecond

func span(d *datadriven.TestData, key string) (time.Duration, error) {
	text := option(d, key)
	if text == "" {
		return 0, nil
	}
	return time.ParseDuration(text)
}

// contains reports whether each of the lines is part of one of the text's.
func contains(text string, lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool {
		return !slices.ContainsFunc(strings.Split(text, "\n"), func(of string) bool { return strings.Contains(of, line) })
	})
}

// summary is what a script may see of an object whose state a cluster tells.
func (s *stage) summary(d *datadriven.TestData) (string, error) {
	o, err := s.find(d)
	if apierrors.IsNotFound(err) {
		return "gone\n", nil
	}
	if err != nil {
		return "", err
	}
	var lines []string
	switch o := o.(type) {
	case *corev1.Pod:
		lines = podLines(o)
	case *corev1.Node:
		lines = nodeLines(o)
	case *corev1.Endpoints: //lint:ignore SA1019 a Service's have its name, and say what its slices say
		lines = endpointLines(o)
	case *corev1.PersistentVolumeClaim:
		lines = claimLines(o)
	default:
		return "", fmt.Errorf("nothing is known of the state of a %T", o)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

func podLines(p *corev1.Pod) []string {
	lines := []string{"phase " + string(p.Status.Phase)}
	if p.Status.Reason != "" {
		lines[0] += " " + p.Status.Reason
	}
	if p.DeletionTimestamp != nil {
		lines[0] += fmt.Sprintf(", terminating in %d s", *p.DeletionGracePeriodSeconds)
	}
	var are []string
	for _, c := range p.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			are = append(are, string(c.Type))
		}
	}
	slices.Sort(are)
	lines = append(lines, strings.TrimSpace("is "+strings.Join(are, " ")))
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		lines = append(lines, containerLine(c))
	}
	return lines
}

func containerLine(c corev1.ContainerStatus) string {
	line := c.Name + ": " + stateOf(c.State)
	if c.Started != nil && *c.Started {
		line += ", started"
	}
	if c.Ready {
		line += ", ready"
	}
	if c.RestartCount > 0 {
		line += fmt.Sprintf(", restarts %d", c.RestartCount)
	}
	if c.LastTerminationState.Terminated != nil {
		line += ", last " + stateOf(c.LastTerminationState)
	}
	return line
}

func stateOf(s corev1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		return "waiting, " + s.Waiting.Reason
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		text := fmt.Sprintf("ended %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
		if m := s.Terminated.Message; m != "" && s.Terminated.Reason != "StartError" && s.Terminated.Reason != "ContainerCannotRun" {
			text += fmt.Sprintf(" %q", short(m))
		}
		return text
	}
	return "unknown"
}

// short is a text that is read: the middle of a long one is left out.
func short(text string) string {
	if len(text) <= 100 {
		return text
	}
	return fmt.Sprintf("%s… %d bytes", text[:20], len(text))
}

func nodeLines(n *corev1.Node) []string {
	var lines []string
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			lines = append(lines, "ready "+string(c.Status))
		}
	}
	var taints []string
	for _, t := range n.Spec.Taints {
		taints = append(taints, "taint "+t.Key+" "+string(t.Effect))
	}
	slices.Sort(taints)
	return append(lines, taints...)
}

func claimLines(c *corev1.PersistentVolumeClaim) []string {
	if c.DeletionTimestamp != nil {
		return []string{fmt.Sprintf("phase %s, terminating", c.Status.Phase)}
	}
	return []string{"phase " + string(c.Status.Phase)}
}

//lint:ignore SA1019 as above
func endpointLines(e *corev1.Endpoints) []string {
	lines := []string{}
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			lines = append(lines, "ready "+nameOf(a))
		}
		for _, a := range s.NotReadyAddresses {
			lines = append(lines, "not ready "+nameOf(a))
		}
	}
	if len(lines) == 0 {
		return []string{"none"}
	}
	slices.Sort(lines)
	return lines
}

func nameOf(a corev1.EndpointAddress) string {
	if a.TargetRef == nil {
		return "nobody"
	}
	return a.TargetRef.Name
}
