// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package trial is what the worlds of real processes and the automation on trial in them
// know of each other. It is below both.
package trial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ringproof/ringproof"
)

// Subject is the automation on trial, as processes: ringproof's own, whose seams are
// decorated, or a stranger's, of which a file says how it is run. A world asks it
// what differs between them, and never who it is.
type Subject interface {
	// Etcd is where the etcd of a machine is found.
	Etcd() Etcd
	// Stop is how an agent is told to end.
	Stop() Stop
	// Supports says why the step can't be done with the subject; nil: it can.
	Supports(ringproof.Step) error
	// Seed prepares what the machines meet in.
	Seed(ctx context.Context, site Site, run Run) error
	// Agent is what to keep running on a machine; nothing, where somebody else keeps it
	// running.
	Agent(Machine) Program
	// Inject sets what one step does at the subject's own seams on a machine, in
	// the place of what that step set before. A step that sets nothing takes its
	// fault away.
	Inject(f ringproof.Seams, machine string) error
	// Ask carries out an operation. An error that wraps ErrRefused says that
	// the subject refused it.
	Ask(ctx context.Context, op ringproof.Op, targets []string, run Run) (string, error)
	// Reset empties the disk of a machine as its operator would, asking the machine
	// endpoint for the ring's members; "": all of them.
	Reset(ctx context.Context, m Machine, endpoint string, run Run) (string, error)
	// Snapshot writes what the ring holds into a file that isn't there yet.
	Snapshot(ctx context.Context, file string, run Run) (string, error)
	// Hear turns a line of an agent's output into an event.
	Hear(line string) (ringproof.Event, bool)
	// Credentials are those of a client of the ring; nil: plain.
	Credentials(context.Context) (*tls.Config, error)
}

// Keeper is a subject whose machines meet in a store.
type Keeper interface {
	// LoseStore takes out of the store what a store-lost doesn't leave in it, and says how much that was.
	LoseStore(ctx context.Context, s ringproof.Step) (string, error)
	// GiveStoreBack puts back what a step took out, unless another still holds the store empty.
	GiveStoreBack(step string) error
}

// ErrRefused says that the subject refused an operation.
var ErrRefused = fmt.Errorf("%w by the subject", ringproof.ErrRefused)

// Run runs on a machine, until it ends, the program that is made for it, and returns
// what it printed; "" is the first machine that is on. One that fails is a [Failure].
type Run func(machine string, program func(Machine) Program) (string, error)

// Program is a command line, and what it has in its environment besides the run's.
type Program struct {
	Args []string
	Env  []string
}

// Environment is all that the program has in it.
func (p Program) Environment() []string { return append(os.Environ(), p.Env...) }

// Failure is how a program ended that did not succeed.
type Failure struct {
	Program string
	Code    int // -1: a signal ended it
	Said    string
}

func (f Failure) Error() string {
	if f.Code < 0 {
		return fmt.Sprintf("%s was killed: %s", f.Program, f.Said)
	}
	return fmt.Sprintf("%s ended with exit code %d: %s", f.Program, f.Code, f.Said)
}

// Etcd is where the etcd of a machine is found: its process, its disk and its ports
// are the subject's choice.
type Etcd struct {
	Program string                  // what its executable is called
	Dir     string                  // its data directory, below the machine's data filesystem
	Client  int                     // the port at which it serves clients
	Peer    int                     // the port at which its peers reach it
	Output  func(run string) string // the file with what it prints, by the machine's directory
}

// UsualEtcd is an etcd on its usual ports, whose agent passes on what it prints.
func UsualEtcd() Etcd {
	return Etcd{Program: "etcd", Dir: "etcd", Client: 2379, Peer: 2380,
		Output: func(run string) string { return filepath.Join(run, AgentOutput) }}
}

// AgentOutput is the file in a machine's directory with what its agent printed.
const AgentOutput = "agent.log"

// Stop is how an init system ends an agent.
type Stop struct {
	Signal syscall.Signal
	Grace  time.Duration // for this long it is waited for, and then killed
}

// UsualStop is what systemd does, with a shorter patience.
func UsualStop() Stop { return Stop{Signal: syscall.SIGTERM, Grace: 30 * time.Second} }

// Site is what a subject is told before it is started.
type Site struct {
	Plan     ringproof.Plan
	Dir      string // seen by the run and every machine alike
	Machines []Machine
	// Kubeconfig is the path of an administrator's, where machines are nodes of a cluster.
	Kubeconfig string
	// Volume is where the run has what is at a path of a volume on a node, by the name that the
	// cluster has for it.
	Volume func(node, path string) (string, error)
}

// Machine is where an agent runs.
type Machine struct {
	Name    string            // its host name
	Address string            // what the others reach it by: an IP address, or its name
	DataDir string            // its data filesystem, as it sees it
	Plain   bool              // DataDir is a directory, and no filesystem of its own
	Run     string            // a directory that outlives its volume
	DryRun  bool              // the agent is to change nothing
	Etcd    map[string]string // paths of its etcd binaries, by version
	Etcdctl map[string]string // and of its etcdctls
}

// Way makes the subject of one plan: ringadm is the path of the program to put on trial,
// mutants are the names of the mistakes planted in it.
type Way func(ringadm string, mutants []string) (Subject, error)

// Imaged is a subject in pods whose image runs another program than the one that ships.
type Imaged interface {
	// Image is the program that the image runs in the place of ringadm, for a plan. It may be
	// kept in the directory, which is there.
	Image(plan ringproof.Plan, ringadm, dir string) (string, error)
}

// MemberDir is what the directory of a run has of a node's: where the volumes of the pod of a
// member are found that are no claim's (volumes), and what its containers print (output).
const MemberDir = "member"

// PodsDir is what a subject in pods makes of the directory that it is given, where it tells
// those in its pods something beside the cluster, or has them tell it: all containers have it
// as PodsAll, and what is in it for their node, a directory of the node's name, as PodsOwn.
const (
	PodsDir = "pods"
	PodsAll = "/ringproof/all"
	PodsOwn = "/ringproof/own"
)

// Selecting is a subject in pods, beside which a cluster may have others that keep data.
type Selecting interface {
	// Selector is the label selector of the pods that run a member; "": those with a claim.
	Selector() string
}

// Members selects the pods of the subject that run a member, of those with a claim.
func Members(s Subject) (labels.Selector, error) {
	selecting, ok := s.(Selecting)
	if !ok {
		return labels.Everything(), nil
	}
	return labels.Parse(selecting.Selector())
}

// Shipped is a subject in pods that has images of its own.
type Shipped interface {
	// Image is what its own is called, and where its program is in it.
	Image() (name, program string)
	// EtcdImage is what its pods call the image of a release of etcd.
	EtcdImage(version string) string
}

// Proxying is a subject in pods that stands between its own image and the API server, where
// a plan has faults at its seams.
type Proxying interface {
	// Proxy answers what the pods of its image ask the API server, which is next.
	Proxy(next http.Handler, pods Pods) http.Handler
}

// Pods are the pods of a cluster, by their addresses.
type Pods interface {
	// Kill kills what runs in the pod.
	Kill(at netip.Addr) error
	// Tell has the line heard, as one that the pod printed.
	Tell(at netip.Addr, line string)
}

// InPods is a subject on Kubernetes.
type InPods struct {
	// Make makes the subject of one plan, with the mutants of these names planted.
	Make func(mutants []string) (Subject, error)
	// Runs says why it can't make the plan's ring; nil: it can.
	Runs func(ringproof.Plan) error
}

// Asked is a subject whose ring an object asks for.
type Asked interface {
	// Withdraw deletes it, and names it; how is what becomes of what it owns, see [Cascade].
	Withdraw(ctx context.Context, how string) (object string, err error)
	// Renew makes it anew, as it asked when it was withdrawn.
	Renew(context.Context) error
}

// Deletable is a subject in pods whose ring can be deleted for good.
type Deletable interface {
	// Delete deletes what asks for it, as kubectl delete does, and waits for nothing.
	Delete(context.Context) error
	// Left names the objects of the ring's that are there still, as kubectl does.
	Left(context.Context) ([]string, error)
}

// Comparing is a subject in pods that knows what the object which asks for its ring is to come to.
type Comparing interface {
	// Unlike names what of the ring's objects is otherwise than was asked for, as "pod r-1 without …".
	Unlike(context.Context) ([]string, error)
}

// Keeping is a subject in pods that keeps in the cluster what can't be made again of what is asked.
type Keeping interface {
	// Forget deletes it, and returns the names of the objects.
	Forget(context.Context) (gone []string, err error)
}

// Controlled is a subject whose controller runs in pods.
type Controlled interface {
	// Deployment keeps them.
	Deployment() types.NamespacedName
	// Controller is the pod of it that acts.
	Controller(context.Context) (namespace, name string, err error)
}

// Reporting is a subject that says how its ring fares where people and alerts read it.
type Reporting interface {
	// Status is what it says now; At is left to who asks.
	Status(context.Context) (ringproof.Status, error)
	// Empty has it say nothing, and returns the fields that it said something in.
	Empty(context.Context) (before string, err error)
}
