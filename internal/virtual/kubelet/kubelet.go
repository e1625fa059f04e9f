// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

// Package kubelet is a model of the kubelet, for nodes of a world in virtual time. To the
// API server it is one: it registers its node, renews the lease and tells the status of
// its pods. A container is a process of the world with a root directory of its own, at
// the pod's address.
//
// It does what a ring can tell from the outside, with the kubelet's own times: init
// containers, probes, back-off, termination messages, a pod's grace and how it ended, mounted
// Secrets that lag, tokens. It has no cgroups, users, logs or exec by the API, or eviction,
// and it does not find containers again that a kubelet before it started: those end.
package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/trial"
)

// Options are a node.
type Options struct {
	Node       string         `json:"node"`
	Machine    byte           `json:"machine"`         // its number in the world
	Pods       []byte         `json:"pods"`            // the numbers that its pods may have
	Kubeconfig string         `json:"kubeconfig"`      // path
	Dir        string         `json:"dir"`             // for what it keeps of its pods
	Images     []image.Image  `json:"images"`          // that it can run
	Server     netip.AddrPort `json:"server"`          // the API server, as pods are told
	Proxy      *Proxy         `json:"proxy,omitempty"` // where some are told that it is; nil: nowhere else
	Names      netip.Addr     `json:"names"`           // their name server
	Shared     string         `json:"shared"`          // a directory that all containers have, see [trial.PodsDir]; "", or none there: they have none
}

// Proxy is what the containers of an image reach in the API server's place.
type Proxy struct {
	Image string         `json:"image"`
	At    netip.AddrPort `json:"at"`
}

// Line is something that a container printed, as the kubelet prints it: one line of JSON.
type Line struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Text      string `json:"text"`
}

// kubelet is one life of it.
type kubelet struct {
	Options
	api    kubernetes.Interface
	orders *lockstep.Orders

	reported time.Time // when the node's status was told last

	mu    sync.Mutex
	out   io.Writer
	pods  map[types.UID]*pod
	order []types.UID // of the pods, by when each was heard of
	lacks []string    // what pods were asked to have that it has not
	taken map[byte]bool
	last  int // index of the number given last
}

// Run is the kubelet, until ctx ends. What containers print it prints to out, as [Line]s.
func Run(ctx context.Context, o Options, out io.Writer) error {
	if err := complainInto(filepath.Join(o.Dir, "kubelet.log")); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100 // the kubelet's own
	k := &kubelet{Options: o, out: out, pods: map[types.UID]*pod{}, taken: map[byte]bool{}}
	if k.api, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if k.orders, err = lockstep.Order(ctx); err != nil {
		return err
	}
	if err := k.sweep(); err != nil {
		return fmt.Errorf("sweeping out what is left of containers: %w", err)
	}
	k.until(ctx, "registering the node", k.register)
	go k.watch(ctx)
	go k.every(ctx, statusPeriod, "telling the node's status", k.tellNode)
	k.every(ctx, leasePeriod, "renewing the node's lease", k.renew)
	return nil
}

// share are the directories that all containers have, by where.
func (k *kubelet) share() (map[string]string, error) {
	if _, err := os.Stat(k.Shared); k.Shared == "" || err != nil {
		return nil, nil
	}
	own := filepath.Join(k.Shared, k.Node)
	return map[string]string{trial.PodsAll: k.Shared, trial.PodsOwn: own}, os.MkdirAll(own, 0o755)
}

// sweep ends what a kubelet before this one left: processes, and the mounts of roots.
func (k *kubelet) sweep() error {
	for _, m := range k.Pods {
		if err := k.killAll(m); err != nil {
			return err
		}
	}
	return unmountBelow(k.Dir)
}

// killAll kills whatever runs at the number of a pod.
func (k *kubelet) killAll(machine byte) error {
	pids, _ := lockstep.Running(machine)
	return k.orders.Do(lockstep.Deed{Do: lockstep.DoSignal, Machines: []byte{machine}, Pids: pids, Signal: 9})
}

// killThose kills what runs at the number of a pod in the root directory of a container, whoever has
// started it: what the first process has started knows nothing of the kubelet's environment.
func (k *kubelet) killThose(machine byte, root string) error {
	pids, table := lockstep.Running(machine)
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		at, err := os.Readlink(filepath.Join(table, strconv.Itoa(pid), "root"))
		return err != nil || at != root
	})
	return k.orders.Do(lockstep.Deed{Do: lockstep.DoSignal, Machines: []byte{machine}, Pids: pids, Signal: 9})
}

// watch hears of the node's pods.
func (k *kubelet) watch(ctx context.Context) {
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(k.api.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.OneTermEqualSelector("spec.nodeName", k.Node)),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { k.heard(o.(*corev1.Pod)) },
			UpdateFunc: func(_, o any) { k.heard(o.(*corev1.Pod)) },
			DeleteFunc: k.missed,
		},
	})
	informer.RunWithContext(ctx)
}

// heard is told of a pod as it is now.
func (k *kubelet) heard(o *corev1.Pod) {
	k.mu.Lock()
	p := k.pods[o.UID]
	if p == nil && (o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed) {
		k.mu.Unlock()
		return
	}
	if p == nil {
		p = newPod(k, o)
		k.pods[o.UID] = p
		k.order = append(k.order, o.UID)
		go p.live()
	}
	k.mu.Unlock()
	if err := beyond(o.Spec); err != nil {
		k.complain("looking at the pod "+o.Name, err)
	}
	// The control plane says that pods of a silent node aren't ready: who is back says otherwise.
	if !equality.Semantic.DeepEqual(p.status(o.Status), o.Status) {
		p.touch()
	}
	p.update(o)
	if o.DeletionTimestamp != nil && o.DeletionGracePeriodSeconds != nil {
		p.end(time.Duration(*o.DeletionGracePeriodSeconds) * time.Second)
	}
}

// beyond says what of a pod nothing here heeds; nil: all of it is, for all that is known.
func beyond(spec corev1.PodSpec) error {
	switch {
	case spec.HostNetwork:
		return fmt.Errorf("%w hostNetwork", errLacks)
	case spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace:
		return fmt.Errorf("%w shareProcessNamespace", errLacks)
	case len(spec.EphemeralContainers) > 0:
		return fmt.Errorf("%w ephemeral containers", errLacks)
	}
	return nil
}

// missed is told of a pod that is no more: it was deleted by force, if it still runs.
func (k *kubelet) missed(o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	gone, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	p := k.pods[gone.UID]
	k.mu.Unlock()
	if p != nil {
		p.end(0)
	}
}

// take gives a number to a pod: the next that is free, so that an address is used again
// as late as can be.
func (k *kubelet) take() (byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range k.Pods {
		k.last = (k.last + 1) % len(k.Pods)
		if m := k.Pods[k.last]; !k.taken[m] {
			k.taken[m] = true
			return m, nil
		}
	}
	return 0, fmt.Errorf("node %s has no address left for a pod: it has %d", k.Node, len(k.Pods))
}

// release forgets a pod.
func (k *kubelet) release(p *pod) {
	k.mu.Lock()
	delete(k.pods, p.object.UID)
	delete(k.taken, p.machine)
	k.order = slices.DeleteFunc(k.order, func(u types.UID) bool { return u == p.object.UID })
	k.mu.Unlock()
	k.note()
}

func (k *kubelet) print(l Line) {
	text, err := json.Marshal(l)
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.out.Write(append(text, '\n')) // nobody may read it any more
}

// complainInto has whatever this process complains of written to a file, and what Go's
// runtime prints when it ends badly.
func complainInto(name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Dup3(int(file.Fd()), 2, 0)
}

// errLacks marks what pods may be asked to have, and the model has not: what comes of such a pod says
// nothing of whoever made it.
var errLacks = errors.New("the model kubelet has no")

// complain says what went wrong, for whoever looks into a run.
func (k *kubelet) complain(what string, err error) {
	if errors.Is(err, errLacks) {
		k.lack(err.Error())
	}
	fmt.Fprintf(os.Stderr, "%s %s: %v\n", time.Now().UTC().Format("15:04:05.000"), what, err)
}

// until tries, once a second, until it went well or ctx has ended.
func (k *kubelet) until(ctx context.Context, what string, try func(context.Context) error) {
	for ctx.Err() == nil {
		err := try(ctx)
		if err == nil {
			return
		}
		k.complain(what, err)
		pause(ctx, time.Second)
	}
}

// every does something at once, and then again and again.
func (k *kubelet) every(ctx context.Context, period time.Duration, what string, do func(context.Context) error) {
	for ctx.Err() == nil {
		k.until(ctx, what, do)
		pause(ctx, period)
	}
}

// pause returns after so long, or when ctx has ended.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// State is what runs on a node, for whoever injects a fault there.
type State struct {
	Pods  []Running `json:"pods"`
	Lacks []string  `json:"lacks,omitempty"` // what pods were asked to have that no node of the model has
}

// Running is a pod that has an address.
type Running struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Host      string            `json:"host,omitempty"` // its DNS name, if a Service gives it one
	Labels    map[string]string `json:"labels,omitempty"`
	Machine   byte              `json:"machine"`
	Dir       string            `json:"dir"`              // what the kubelet keeps of it
	Volume    string            `json:"volume,omitempty"` // the directory of its claim
	Mounts    []string          `json:"mounts,omitempty"` // where containers have that, as the node sees it
	Mains     map[string]int    `json:"mains"`            // pids of its containers' first processes
}

const stateFile = "state.json"

// lack notes what the model hasn't got.
func (k *kubelet) lack(what string) {
	k.mu.Lock()
	known := slices.Contains(k.lacks, what)
	if !known {
		k.lacks = append(k.lacks, what)
	}
	k.mu.Unlock()
	if !known {
		k.note()
	}
}

// note writes what runs on the node.
func (k *kubelet) note() {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := State{Pods: []Running{}, Lacks: k.lacks}
	for _, uid := range k.order {
		if r, ok := k.pods[uid].running(); ok {
			s.Pods = append(s.Pods, r)
		}
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = replace(filepath.Join(k.Dir, stateFile), text)
	}
	if err != nil {
		k.complain("noting what runs", err)
	}
}

// Read reads what runs on the node whose kubelet has this directory. Without a file
// nothing does.
func Read(dir string) (s State, err error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if os.IsNotExist(err) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// replace writes a file at once.
func replace(file string, text []byte) error {
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// below reports whether a path is one of the directory's, or it itself.
func below(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
