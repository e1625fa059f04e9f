// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof/internal/lockstep"
)

// probes asks the container's probes while it lives: the startup probe until it succeeds,
// and the others from then on. Once its pod is to end whether it is ready is all that is
// asked (StopLivenessAndStartup in k8s.io/kubernetes/pkg/kubelet/prober).
func (c *container) probes(living context.Context) {
	began := time.Now()
	running, end := context.WithCancel(living)
	defer end()
	defer context.AfterFunc(c.ctx, end)()
	if p := c.spec.StartupProbe; p != nil {
		if !c.untilStarted(running, p) {
			return
		}
		c.change(func() { c.started, c.ready = true, c.spec.ReadinessProbe == nil })
	}
	if p := c.spec.ReadinessProbe; p != nil {
		go c.watchProbe(living, p, began, func(ok bool) {
			if living.Err() == nil {
				c.change(func() { c.ready = ok })
			}
		})
	}
	if p := c.spec.LivenessProbe; p != nil {
		c.watchProbe(running, p, began, func(ok bool) {
			if !ok && running.Err() == nil {
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
	for failed := int32(0); living.Err() == nil; pause(living, period(p)) {
		switch c.ask(living, p) {
		case well:
			return true
		case sick:
			failed++
		}
		if failed == cmp.Or(p.FailureThreshold, 3) {
			c.unhealthy(p)
			return false
		}
	}
	return false
}

func period(p *corev1.Probe) time.Duration {
	return time.Duration(cmp.Or(p.PeriodSeconds, 10)) * time.Second
}

// watchProbe asks a probe again and again, from its delay after the container's start on,
// and tells when it has changed its mind, which takes as many answers as its thresholds say.
// What was no answer counts for nothing.
func (c *container) watchProbe(living context.Context, p *corev1.Probe, began time.Time, tell func(ok bool)) {
	pause(living, time.Until(began.Add(time.Duration(p.InitialDelaySeconds)*time.Second)))
	told, last, run := answer(""), answer(""), int32(0)
	for ; living.Err() == nil; pause(living, period(p)) {
		now := c.ask(living, p)
		if now == unknown {
			continue
		}
		if now != last {
			run = 0
		}
		last = now
		run++
		least := cmp.Or(p.FailureThreshold, 3)
		if now == well {
			least = cmp.Or(p.SuccessThreshold, 1)
		}
		if run >= least && told != now {
			told = now
			tell(now == well)
		}
	}
}

// answer is a probe's.
type answer string

// The answers. Of a program that can't be started the kubelet learns nothing, and throws
// that away: a liveness probe by a shell that the image lacks ends no container
// (k8s.io/kubernetes/pkg/kubelet/prober).
const (
	well    answer = "well"
	sick    answer = "sick"
	unknown answer = "unknown"
)

// errNotAsked says that a probe could not be asked at all.
var errNotAsked = errors.New("not asked")

// ask asks a probe once.
func (c *container) ask(living context.Context, p *corev1.Probe) answer {
	ctx, cancel := context.WithTimeout(living, time.Duration(cmp.Or(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	switch err := c.handle(ctx, p.ProbeHandler); {
	case err == nil:
		return well
	case errors.Is(err, errNotAsked):
		c.pod.k.complain(fmt.Sprintf("asking a probe of %s in pod %s", c.spec.Name, c.pod), err)
		return unknown
	}
	return sick
}

// handle does what a probe, or a hook, says.
func (c *container) handle(ctx context.Context, h corev1.ProbeHandler) error {
	switch {
	case h.Exec != nil:
		return c.exec(ctx, h.Exec.Command)
	case h.HTTPGet != nil:
		return c.get(ctx, h.HTTPGet)
	case h.GRPC != nil:
		return c.call(ctx, h.GRPC)
	case h.TCPSocket != nil:
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.at(h.TCPSocket.Port.String()))
		if err == nil {
			conn.Close()
		}
		return err
	}
	return fmt.Errorf("%w: %w such probe or hook", errNotAsked, errLacks)
}

// call asks gRPC's own service for health.
func (c *container) call(ctx context.Context, what *corev1.GRPCAction) error {
	conn, err := grpc.NewClient(c.at(strconv.Itoa(int(what.Port))), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAsked, err)
	}
	defer conn.Close()
	says, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: ptr.Deref(what.Service, "")})
	if err == nil && says.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = errors.New(says.GetStatus().String())
	}
	return err
}

// exec runs a program in the container.
func (c *container) exec(ctx context.Context, words []string) error {
	cmd := c.program(c.root, words)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errNotAsked, err)
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

// get asks a page. Of who answers nothing is asked: a probe takes any certificate.
func (c *container) get(ctx context.Context, what *corev1.HTTPGetAction) error {
	at := c.at(what.Port.String())
	if what.Host != "" {
		_, port, _ := net.SplitHostPort(at)
		at = net.JoinHostPort(what.Host, port)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ToLower(cmp.Or(string(what.Scheme), "http"))+"://"+at+what.Path, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAsked, err)
	}
	for _, h := range what.HTTPHeaders {
		request.Header.Add(h.Name, h.Value)
	}
	request.Host = request.Header.Get("Host") // "": where it is asked
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("%s", answer.Status)
	}
	return nil
}
