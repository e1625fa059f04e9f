// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ringproof/ringproof/internal/kind"
	"github.com/ringproof/ringproof/internal/kind/keeper"
	"github.com/ringproof/ringproof/internal/kubectl"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/trial"
)

// node is a worker of the cluster. What is asked of its volume and its address is about
// those of the member's pod on it: a ring has one at most on a node.
type node struct {
	lab       *Lab
	name      string
	container string       // and the name of its Node
	disk      string       // the directory of this host with its volumes
	pods      netip.Prefix // their addresses

	mu      sync.Mutex
	on      bool
	frozen  bool
	addr    netip.Addr
	asks    *asks
	seen    map[string]int64  // how much of the logs of its pods was told
	places  map[string]string // of volumes on the node, by the uids of the pods that had them
	last    kubectl.Member    // that was here
	linked  string            // the uid of the pod whose files the run's directory leads to
	dns     string            // of that
	blocked [][]string        // rules of iptables
	losing  [][]string        // those by which some packets are lost
	heard   []keeper.Heard    // by its keepers before this one
}

var (
	_ local.Host    = (*node)(nil)
	_ local.Slotted = (*node)(nil)
	_ local.Kept    = (*node)(nil)
	_ local.Reached = (*node)(nil)
)

// docker runs it, and returns what it printed.
func docker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("docker %s: %w: %s", args[0], err, strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// boot learns where the node is, and has a keeper there.
func (n *node) boot(ctx context.Context) error {
	at, err := docker(ctx, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", n.container)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(at)
	if err != nil {
		return fmt.Errorf("the address of %s: %w", n.container, err)
	}
	asks, err := ask(n.container, n.lab.Keeper, n.hear)
	if err != nil {
		return err
	}
	n.mark(func() { n.addr, n.asks = addr, asks })
	if n.name == front { // whose pods are none of the run's, and whose disk is that of all
		_, err = asks.do(keeper.Order{Do: keeper.DoDisk})
		return err
	}
	n.mu.Lock()
	seen := maps.Clone(n.seen)
	n.mu.Unlock()
	_, err = asks.do(keeper.Order{Do: keeper.DoLogs, Seen: seen})
	return err
}

func (n *node) mark(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// hear takes what the keeper tells by itself.
func (n *node) hear(s keeper.Said) {
	switch {
	case s.Line != nil:
		n.mark(func() { n.seen[s.Line.File] = s.Line.Seen })
		n.lab.hear(n.name, *s.Line)
	case s.Lost > 0:
		n.lab.waited(s.Lost)
	case s.Part != nil:
		_ = n.keep(*s.Part) // without it that log is not known whole, and what rests on it is untold
	}
}

// dir is the run's directory of the node.
func (n *node) dir() string { return filepath.Join(n.lab.Shared(), n.name) }

// keep adds to the copy of a log that a pod keeps in a volume of its own.
func (n *node) keep(p keeper.Part) error {
	file := filepath.Join(n.dir(), "pods", p.Pod, "volumes", p.Path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	how := os.O_CREATE | os.O_WRONLY
	if p.At == 0 {
		how |= os.O_TRUNC
	}
	f, err := os.OpenFile(file, how, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p.Bytes, p.At)
	return errors.Join(err, f.Close())
}

func (n *node) ask(o keeper.Order) (keeper.Said, error) {
	n.mu.Lock()
	asks, can := n.asks, n.on && !n.frozen
	n.mu.Unlock()
	if !can {
		return keeper.Said{}, fmt.Errorf("machine %s is off or frozen", n.name)
	}
	return asks.do(o)
}

// On reports whether the node has power.
func (n *node) On() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.on
}

// member is the pod of a member on the node; nil: there is none.
func (n *node) member() *corev1.Pod { return n.lab.member(n.container, n.lab.Members) }

// leave ends the keeper. What it is about to tell is heard: the node isn't locked meanwhile.
func (n *node) leave() {
	n.mu.Lock()
	asks, answers := n.asks, n.on && !n.frozen
	n.mu.Unlock()
	if asks != nil {
		asks.end(answers)
	}
}

// whole reports whether the node is as it was when it came up.
func (n *node) whole() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.on && !n.frozen && len(n.blocked) == 0
}

// Slot is what the member's pod is called, and its DNS name.
func (n *node) Slot() (name, host string, here bool) {
	p := n.member()
	n.mu.Lock()
	defer n.mu.Unlock()
	if p != nil {
		n.last, n.dns = kubectl.Member{Namespace: p.Namespace, Name: p.Name}, ""
		if p.Spec.Hostname != "" && p.Spec.Subdomain != "" {
			n.dns = fmt.Sprintf("%s.%s.%s.svc", p.Spec.Hostname, p.Spec.Subdomain, p.Namespace)
		}
		n.link(string(p.UID))
	}
	return n.last.Name, n.dns, p != nil
}

// link has the run's directory of the node lead to what is known of its member's pod, as a
// kubelet in virtual time does. The node is locked.
func (n *node) link(uid string) {
	if n.linked == uid {
		return
	}
	link := filepath.Join(n.dir(), trial.MemberDir)
	_ = os.Remove(link)
	if os.MkdirAll(n.dir(), 0o755) == nil && os.Symlink(filepath.Join("pods", uid), link) == nil {
		n.linked = uid
	}
}

// Addr is the address of the member's pod, or the node's own where there is none.
func (n *node) Addr() netip.Addr {
	if p := n.member(); p != nil {
		if at, err := netip.ParseAddr(p.Status.PodIP); err == nil {
			return at
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// DataDir is the volume of the member's pod. Without one it is a place where nothing is.
func (n *node) DataDir() string {
	p := n.member()
	if p == nil {
		return "/none"
	}
	place := n.lab.place(p)
	n.mu.Lock()
	defer n.mu.Unlock()
	if place != "" {
		n.places[string(p.UID)] = place
	}
	if at, known := n.places[string(p.UID)]; known { // though the volume is deleted by now
		return at
	}
	return "/none"
}

// DataRoot is where this host has it.
func (n *node) DataRoot() string {
	return n.Volume(n.DataDir())
}

// Volume is where this host has what is at a path of a volume on the node.
func (n *node) Volume(path string) string {
	below, found := strings.CutPrefix(path, kind.VolumesAt+"/")
	if !found {
		return filepath.Join(n.disk, "none")
	}
	return filepath.Join(n.disk, below)
}

// Start is nobody's: kubelets start what runs here.
func (n *node) Start(context.Context, machines.Command) error {
	return fmt.Errorf("starting a command on node %s: %w", n.name, errors.ErrUnsupported)
}

// Wait has nothing to wait for.
func (n *node) Wait(context.Context, string) (machines.Exit, error) {
	return machines.Exit{}, fmt.Errorf("waiting for a command on node %s: %w", n.name, errors.ErrUnsupported)
}

// Processes lists what runs on the node, its pods' and its own.
func (n *node) Processes() ([]machines.Process, error) {
	said, err := n.ask(keeper.Order{Do: keeper.DoList})
	if err != nil {
		return nil, err
	}
	uid := ""
	if p := n.member(); p != nil {
		uid = string(p.UID)
	}
	return n.described(said.Processes, uid), nil
}

// described are processes as a world knows them: those of the member's pod bear the tag of an
// agent, and the first one of each container leads.
func (n *node) described(all []keeper.Process, member string) (found []machines.Process) {
	for _, p := range all {
		q := machines.Process{PID: p.PID, Exe: path.Base(p.Exe), Args: p.Args, State: p.State, File: n.lab.program(p.Digest)}
		if member != "" && p.Pod == member {
			q.Tag, q.Leads = local.AgentTag, p.First
		}
		found = append(found, q)
	}
	return found
}

// program is the file of this host that is the same as a program in a node; "": none is known.
func (l *Lab) program(digest string) string {
	for _, r := range l.Releases { // order: none is the same as another
		if digest != "" && r.Digests["etcd"] == digest {
			return r.Etcd
		}
	}
	return ""
}

// Environ is what a process has in its environment.
func (n *node) Environ(p machines.Process) ([]string, error) {
	said, err := n.ask(keeper.Order{Do: keeper.DoEnviron, Pids: []int{p.PID}})
	return said.Texts, err
}

// signal signals those that are hit.
func (n *node) signal(which string, sig syscall.Signal, hit func(keeper.Process) bool) (machines.Evidence, error) {
	said, err := n.ask(keeper.Order{Do: keeper.DoList})
	if err != nil {
		return machines.Evidence{}, err
	}
	all := slices.DeleteFunc(said.Processes, func(p keeper.Process) bool { return !hit(p) })
	return n.signalled(which, sig, n.described(all, ""))
}

func (n *node) signalled(which string, sig syscall.Signal, all []machines.Process) (machines.Evidence, error) {
	if len(all) == 0 {
		return machines.Evidence{}, fmt.Errorf("signal %v did not land: no process %s runs on machine %s", sig, which, n.name)
	}
	o := keeper.Order{Do: keeper.DoSignal, Signal: sig}
	for _, p := range all {
		o.Pids = append(o.Pids, p.PID)
	}
	if _, err := n.ask(o); err != nil {
		return machines.Evidence{}, err
	}
	return machines.Evidence{What: fmt.Sprintf("signal %v on machine %s", sig, n.name), Detail: machines.Became(sig) + ": " + machines.Roll(all), Processes: all}, nil
}

// SignalAny signals every process that is hit.
func (n *node) SignalAny(which string, sig syscall.Signal, hit func(machines.Process) bool) (machines.Evidence, error) {
	all, err := n.Processes()
	if err != nil {
		return machines.Evidence{}, err
	}
	return n.signalled(which, sig, slices.DeleteFunc(all, func(p machines.Process) bool { return !hit(p) }))
}

// Signal signals what bears the tag.
func (n *node) Signal(tag string, sig syscall.Signal) (machines.Evidence, error) {
	return n.SignalAny("tagged "+tag, sig, func(p machines.Process) bool { return p.Tag == tag })
}

// SignalExe signals every process of a program.
func (n *node) SignalExe(program string, sig syscall.Signal) (machines.Evidence, error) {
	return n.SignalAny("of program "+program, sig, func(p machines.Process) bool { return p.Exe == program || path.Base(p.Args[0]) == program })
}

// SignalKubelet signals the kubelet, and nothing that it started.
func (n *node) SignalKubelet(sig syscall.Signal) (machines.Evidence, error) {
	return n.SignalExe("kubelet", sig)
}

// Freeze stops everything on the node. Connections stay open, as with a hung machine.
func (n *node) Freeze() (machines.Evidence, error) {
	if _, err := docker(context.Background(), "pause", n.container); err != nil {
		return machines.Evidence{}, err
	}
	n.mark(func() { n.frozen = true })
	return machines.Evidence{What: "freeze of machine " + n.name, Detail: "the container " + n.container + " is paused"}, nil
}

// Thaw lets everything on the node go on.
func (n *node) Thaw() (machines.Evidence, error) {
	n.mu.Lock()
	frozen := n.frozen
	n.mu.Unlock()
	if !frozen { // but processes were stopped one by one, and may have ended since
		return n.SignalAny("at all", syscall.SIGCONT, func(machines.Process) bool { return true })
	}
	if _, err := docker(context.Background(), "unpause", n.container); err != nil {
		return machines.Evidence{}, err
	}
	n.mark(func() { n.frozen = false })
	return machines.Evidence{What: "machine " + n.name, Detail: "the container " + n.container + " runs again"}, nil
}

// PowerOff ends every process on the node at once.
func (n *node) PowerOff() (machines.Evidence, error) {
	all, err := n.Processes()
	if err != nil {
		return machines.Evidence{}, err
	}
	n.mark(func() { n.on = false })
	if said, err := n.asks.do(keeper.Order{Do: keeper.DoHeard}); err == nil {
		n.mark(func() { n.heard = append(n.heard, said.Heard...) })
	}
	if _, err := docker(context.Background(), "kill", n.container); err != nil {
		return machines.Evidence{}, err
	}
	hit := slices.DeleteFunc(all, func(p machines.Process) bool { return p.Tag != local.AgentTag })
	return machines.Evidence{What: "power loss of machine " + n.name, Detail: fmt.Sprintf("dead: %d processes, of the member %s", len(all), machines.Roll(hit)), Processes: hit}, nil
}

// PowerOn gives the node power: it boots, and its kubelet goes on.
func (n *node) PowerOn(ctx context.Context) (machines.Evidence, error) {
	if n.On() {
		return machines.Evidence{}, fmt.Errorf("refused to power on machine %s: it is on", n.name)
	}
	if _, err := docker(ctx, "start", n.container); err != nil {
		return machines.Evidence{}, err
	}
	if err := n.boot(ctx); err != nil {
		return machines.Evidence{}, err
	}
	n.mark(func() { n.on, n.blocked = true, nil })
	return machines.Evidence{What: "power on", Detail: "the container " + n.container + " was started"}, nil
}

// nodeDeleted is when the Node of a lost machine is deleted, as a cloud's controller does
// that finds no machine for it.
const nodeDeleted = 10 * time.Second

// Destroy takes the node away for good. Its volumes stay where whoever judges the run reads
// them, and where no pod can come.
func (n *node) Destroy() (machines.Evidence, error) {
	n.DataDir() // is known for good
	n.mark(func() { n.on = false })
	if _, err := docker(context.Background(), "rm", "--force", "--volumes", n.container); err != nil {
		return machines.Evidence{}, err
	}
	time.AfterFunc(nodeDeleted, func() { _ = n.lab.api.Forget(context.Background(), n.container) })
	return machines.Evidence{What: "loss of node " + n.name, Detail: fmt.Sprintf("the container %s is removed; its Node goes in %v", n.container, nodeDeleted)}, nil
}

// SwapVolume wipes the volume under its claim, and kills those that hold it.
func (n *node) SwapVolume(_ context.Context, directories ...string) (machines.Evidence, error) {
	e, err := n.wipe("", "it holds no file")
	for _, d := range directories {
		err = errors.Join(err, os.MkdirAll(filepath.Join(n.DataRoot(), d), 0o777))
	}
	return e, err
}

// LoseDirectory removes one directory from the volume, and kills those that hold it.
func (n *node) LoseDirectory(directory string) (machines.Evidence, error) {
	return n.wipe(directory, "of what it held, "+directory+" is gone")
}

func (n *node) wipe(directory, how string) (machines.Evidence, error) {
	p := n.member()
	if p == nil {
		return machines.Evidence{}, fmt.Errorf("no pod on node %s has a volume", n.name)
	}
	if _, err := n.ask(keeper.Order{Do: keeper.DoWipe, Pod: string(p.UID), Path: path.Join(n.DataDir(), directory)}); err != nil {
		return machines.Evidence{}, fmt.Errorf("wiping the volume of %s: %w", p.Name, err)
	}
	return machines.Evidence{What: "loss of the volume of " + p.Name + " on node " + n.name, Detail: how}, nil
}

func (n *node) cannot(what string) error {
	return fmt.Errorf("%s of node %s: %w", what, n.name, errors.ErrUnsupported)
}

// Unmount is nothing that a cluster suffers: its volumes are Kubernetes's to mount.
func (n *node) Unmount(context.Context) (machines.Evidence, error) {
	return machines.Evidence{}, n.cannot("unmounting a volume")
}

// Mount has nothing to mount.
func (n *node) Mount(context.Context) error { return nil }

// FillVolume is refused: the volumes of nodes are directories of this host, which would be
// full.
func (n *node) FillVolume() (machines.Evidence, error) {
	return machines.Evidence{}, n.cannot("filling a volume")
}

// FreeVolume has nothing to free.
func (n *node) FreeVolume() (machines.Evidence, error) {
	return machines.Evidence{}, n.cannot("freeing a volume")
}

// Block drops what pods of the others' nodes send to pods here.
func (n *node) Block(t machines.Traffic, from ...netip.Addr) (machines.Evidence, error) {
	n.lab.mu.Lock()
	others := slices.Clone(n.lab.nodes)
	n.lab.mu.Unlock()
	for _, other := range others {
		if !slices.ContainsFunc(from, other.has) {
			continue
		}
		for _, rule := range dropping(other.pods, t) {
			if err := n.rule("-I", rule); err != nil {
				return machines.Evidence{}, err
			}
			n.mark(func() { n.blocked = append(n.blocked, rule) })
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return machines.Evidence{What: "partition of machine " + n.name, Detail: fmt.Sprintf("dropped is %v", n.blocked)}, nil
}

// dropping are the rules of iptables that drop traffic from pods.
func dropping(from netip.Prefix, t machines.Traffic) [][]string {
	source, port := []string{"-s", from.String()}, strconv.Itoa(int(t.Port))
	switch {
	case t.Port == 0:
		return [][]string{source}
	case t.But:
		return [][]string{append(source, "-p", "tcp", "!", "--sport", port, "!", "--dport", port)}
	}
	return [][]string{append(slices.Clip(source), "-p", "tcp", "--sport", port), append(slices.Clip(source), "-p", "tcp", "--dport", port)}
}

// has reports whether an address is the node's, or one of its pods'.
func (n *node) has(at netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return at == n.addr || n.pods.Contains(at)
}

func (n *node) rule(verb string, rule []string) error {
	return n.lab.Run(n.container, "iptables", slices.Concat([]string{"-w", verb, "FORWARD"}, rule, []string{"-j", "DROP"})...)
}

// Unblock lets everybody through.
func (n *node) Unblock(context.Context) (machines.Evidence, error) {
	n.mu.Lock()
	blocked, on := n.blocked, n.on
	n.blocked = nil
	n.mu.Unlock()
	var errs []error
	for _, rule := range blocked {
		if on {
			errs = append(errs, n.rule("-D", rule))
		}
	}
	return machines.Evidence{What: "machine " + n.name, Detail: "nothing is dropped"}, errors.Join(errs...)
}

// Lose drops so many of 100 packets that go between pods here and those of the others' nodes; 0 ends it.
func (n *node) Lose(percent int) (machines.Evidence, error) {
	n.lab.mu.Lock()
	others := slices.Clone(n.lab.nodes)
	n.lab.mu.Unlock()
	n.mu.Lock()
	before, on := n.losing, n.on
	n.losing = nil
	n.mu.Unlock()
	e := machines.Evidence{What: "loss of packets on machine " + n.name, Detail: fmt.Sprintf("%d of 100", percent)}
	var errs []error
	for _, rule := range before {
		if on {
			errs = append(errs, n.rule("-D", rule))
		}
	}
	for _, other := range others {
		if other == n || percent == 0 {
			continue
		}
		for _, way := range []string{"-s", "-d"} {
			rule := []string{way, other.pods.String(), "-m", "statistic", "--mode", "random", "--probability", fmt.Sprintf("0.%02d", percent)}
			errs = append(errs, n.rule("-I", rule))
			n.mark(func() { n.losing = append(n.losing, rule) })
		}
	}
	return e, errors.Join(errs...)
}

// Reach dials an address of a pod: the node passes it on.
func (n *node) Reach(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	at := n.addr
	n.mu.Unlock()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(at.String(), strconv.Itoa(keeper.Port)))
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(c, address); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// DialContext dials as a program on the node would.
func (n *node) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	return n.Reach(ctx, address)
}

// LastMember is the member that is on the node, or was last.
func (n *node) LastMember() (kubectl.Member, error) {
	n.Slot() // so that it is known whose pod is here
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.Name == "" {
		return n.last, fmt.Errorf("no member was on node %s", n.name)
	}
	return n.last, nil
}

// Node is what the cluster calls the node.
func (n *node) Node() string { return n.container }
