// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ringproof/ringproof/internal/lockstep"
)

// probes asks the container's probes while it lives: the startup probe until it succeeds,
// and the others from then on.
func (c *container) probes(living context.Context) {
	if p := c.spec.StartupProbe; p != nil {
		if !c.untilStarted(living, p) {
			return
		}
		c.change(func() { c.started, c.ready = true, c.spec.ReadinessProbe == nil })
	}
	if p := c.spec.ReadinessProbe; p != nil {
		go c.watchProbe(living, p, func(ok bool) {
			if living.Err() == nil {
				c.change(func() { c.ready = ok })
			}
		})
	}
	if p := c.spec.LivenessProbe; p != nil {
		c.watchProbe(living, p, func(ok bool) {
			if !ok && living.Err() == nil {
				c.unhealthy(p)
			}
		})
	}
}

// unhealthy ends the program for what a probe said, and it is then started again.
func (c *container) unhealthy(p *corev1.Probe) {
	c.pod.mu.Lock()
	cmd := c.cmd
	c.pod.mu.Unlock()
	c.stop(cmd, graceOf(p.TerminationGracePeriodSeconds, c.pod.object.Spec.TerminationGracePeriodSeconds))
}

// graceOf is the first grace that is given: the probe's, or the pod's.
func graceOf(all ...*int64) time.Duration {
	for _, seconds := range all {
		if seconds != nil {
			return time.Duration(*seconds) * time.Second
		}
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// untilStarted reports whether the startup probe succeeded. One that fails too often ends
// the program.
func (c *container) untilStarted(living context.Context, p *corev1.Probe) bool {
	pause(living, time.Duration(p.InitialDelaySeconds)*time.Second)
	for failed := int32(0); living.Err() == nil; {
		err := c.ask(living, p)
		if err == nil {
			return true
		}
		if failed++; failed == cmp.Or(p.FailureThreshold, 3) {
			c.unhealthy(p)
			return false
		}
		pause(living, period(p))
	}
	return false
}

func period(p *corev1.Probe) time.Duration {
	return time.Duration(cmp.Or(p.PeriodSeconds, 10)) * time.Second
}

// watchProbe asks a probe again and again, and tells when it has changed its mind, which
// takes as many answers as its thresholds say.
func (c *container) watchProbe(living context.Context, p *corev1.Probe, tell func(ok bool)) {
	pause(living, time.Duration(p.InitialDelaySeconds)*time.Second)
	told, decided, run := false, false, int32(0)
	for last := false; living.Err() == nil; pause(living, period(p)) {
		ok := c.ask(living, p) == nil
		if ok != last {
			run = 0
		}
		last = ok
		run++
		least := cmp.Or(p.FailureThreshold, 3)
		if ok {
			least = cmp.Or(p.SuccessThreshold, 1)
		}
		if run >= least && (!decided || told != ok) {
			told, decided = ok, true
			tell(ok)
		}
	}
}

// ask asks a probe once.
func (c *container) ask(living context.Context, p *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(living, time.Duration(cmp.Or(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	return c.handle(ctx, p.ProbeHandler)
}

// handle does what a probe, or a hook, says.
func (c *container) handle(ctx context.Context, h corev1.ProbeHandler) error {
	switch {
	case h.Exec != nil:
		return c.exec(ctx, h.Exec.Command)
	case h.HTTPGet != nil:
		return c.get(ctx, h.HTTPGet)
	case h.TCPSocket != nil:
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.at(h.TCPSocket.Port.String()))
		if err == nil {
			conn.Close()
		}
		return err
	}
	return errors.New("a probe of this kind isn't modelled")
}

// exec runs a program in the container.
func (c *container) exec(ctx context.Context, words []string) error {
	cmd := c.program(c.root, words)
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	return cmd.Wait()
}

// at is a port of the pod's, by number or name.
func (c *container) at(port string) string {
	for _, p := range c.spec.Ports {
		if p.Name == port {
			port = fmt.Sprint(p.ContainerPort)
		}
	}
	return net.JoinHostPort(lockstep.Address(c.pod.machine).String(), port)
}

func (c *container) get(ctx context.Context, what *corev1.HTTPGetAction) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ToLower(cmp.Or(string(what.Scheme), "http"))+"://"+c.at(what.Port.String())+what.Path, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("%s", answer.Status)
	}
	return nil
}
