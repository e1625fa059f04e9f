// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

const (
	release = needs.Release
	inside  = "RINGADM_PODS" // set in the process that has its own names of hosts
)

// TestRingOfPods runs a ring of real etcd processes under the simulated API server: each
// pod is a launcher at a loopback address, and its DNS name is in a hosts file that only
// this test's process sees. It bootstraps three members, grows to five, shrinks to three, and
// loses a volume with its node.
func TestRingOfPods(t *testing.T) {
	needs.RealTime(t)
	if os.Getenv(inside) == "" {
		apart(t)
		return
	}
	k := newKubelet(t)
	require.NoError(t, k.Create(t.Context(), newRing(3)))
	k.until("three members vote", k.isSteadyWith(3))
	initialMembers := k.disks()

	k.resize(5)
	k.until("five members vote", k.isSteadyWith(5))
	k.resize(3)
	k.until("three members vote, and there are three pods", func(r *v1alpha1.EtcdRing) bool {
		return k.isSteadyWith(3)(r) && len(k.pods()) == 3
	})
	require.Equal(t, initialMembers, k.disks(), "the ring that was grown and shrunk is another")

	k.loseNodeOf("r-1")
	k.until("another member is in the place of the lost one", func(r *v1alpha1.EtcdRing) bool {
		now := k.disks()
		return k.isSteadyWith(3)(r) && now["r-1"] != initialMembers["r-1"]
	})
	now := k.disks()
	require.Equal(t, initialMembers["r-0"], now["r-0"])
	require.Equal(t, initialMembers["r-2"], now["r-2"])
}

// apart runs the test in a process with a hosts file of its own.
func apart(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRingOfPods$", "-test.v", "-test.timeout=8m")
	cmd.Env = append(os.Environ(), inside+"=1", "GODEBUG=netdns=go")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if to := os.Getenv("RINGADM_PODS_LOG"); to != "" {
		require.NoError(t, os.WriteFile(to, out, 0o600))
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		needs.Lacking(t, "this machine gives no process a file system of its own: "+err.Error())
	}
	require.NoError(t, err, "%s", out)
	t.Log(string(out))
}

// nameHosts has the pods' names mean loopback addresses in this process. Each means the
// address that its peers' connections come from too: etcd looks that up.
func nameHosts(t *testing.T) {
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n")
	names := kube.Names{Namespace: "n", Ring: "r"}
	for i := range kube.MostSlots {
		fmt.Fprintf(&hosts, "%s %s\n127.0.0.1 %s\n", addressOf(i), names.Address(names.Slot(i)), names.Address(names.Slot(i)))
	}
	file := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(file, []byte(hosts.String()), 0o600))
	require.NoError(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	require.NoError(t, syscall.Mount(file, "/etc/hosts", "", syscall.MS_BIND, ""))
}

func addressOf(ordinal int) string { return fmt.Sprintf("127.37.%d.%d", os.Getpid()%250+1, ordinal+1) }

// locked is an API server for more than one goroutine.
type locked struct {
	client.Client
	mu *sync.Mutex
}

func (l locked) do(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f()
}

func (l locked) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return l.do(func() error { return l.Client.Get(ctx, key, o, opts...) })
}

func (l locked) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	return l.do(func() error { return l.Client.List(ctx, o, opts...) })
}

func (l locked) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return l.do(func() error { return l.Client.Create(ctx, o, opts...) })
}

func (l locked) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return l.do(func() error { return l.Client.Update(ctx, o, opts...) })
}

func (l locked) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return l.do(func() error { return l.Client.Delete(ctx, o, opts...) })
}

func (l locked) SubResource(name string) client.SubResourceClient {
	return lockedPart{l.Client.SubResource(name), l}
}

type lockedPart struct {
	client.SubResourceClient
	of locked
}

func (p lockedPart) Create(ctx context.Context, o, part client.Object, opts ...client.SubResourceCreateOption) error {
	return p.of.do(func() error { return p.SubResourceClient.Create(ctx, o, part, opts...) })
}

// kubelet is all nodes' kubelets, the binder of volumes and the scheduler: slot i is on
// node i, until that is lost.
type kubelet struct {
	*cluster
	dir  string
	etcd string
	mu   sync.Mutex
	runs map[types.UID]*run
	node map[string]string // slot → where its next pod goes
}

// run is a pod whose container runs.
type run struct {
	slot   string
	cancel context.CancelFunc
	done   chan struct{}
	host   podHost
}

func newKubelet(t *testing.T) *kubelet {
	nameHosts(t)
	k := &kubelet{cluster: newCluster(t), dir: t.TempDir(), etcd: needs.Etcd(t).Etcd, runs: map[types.UID]*run{}, node: map[string]string{}}
	k.Client = locked{k.server.Client(), &k.mu}
	h := host.NewReal("controller", t.TempDir(), t.TempDir(), testLog{t})
	k.reconciler = New(Config{Client: k.Client, Live: k.Client, Host: h, Image: "ringadm:test", ReplaceAfter: 5 * time.Second, Next: ring.Next, Do: do})
	for i := range kube.MostSlots + 1 {
		k.addNode(fmt.Sprintf("node-%d", i))
	}
	t.Cleanup(func() {
		for _, r := range k.runs { // order: all are ended
			r.end()
		}
	})
	return k
}

// testLog prints what happened when the test fails.
type testLog struct{ t *testing.T }

func (l testLog) Write(text []byte) (int, error) { fmt.Print(string(text)); return len(text), nil }

func (k *kubelet) addNode(name string) {
	require.NoError(k.t, k.Create(k.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}))
}

// until reconciles and runs pods until the ring is as wanted.
func (k *kubelet) until(what string, wanted func(*v1alpha1.EtcdRing) bool) {
	k.t.Helper()
	var r *v1alpha1.EtcdRing
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		k.reconcileLocked()
		k.runPods()
		r = &v1alpha1.EtcdRing{}
		require.NoError(k.t, k.Get(k.t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, r))
		if wanted(r) {
			return
		}
	}
	for _, r := range k.runs { // order: for a person
		k.t.Log(r.slot, r.host.Process().LastWords())
	}
	require.Fail(k.t, "never: "+what, "%+v", r.Status)
}

func (k *kubelet) reconcileLocked() {
	_, err := k.reconciler.Reconcile(k.t.Context(), request())
	require.NoError(k.t, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	for wrote := true; wrote; {
		wrote, err = k.server.Reconcile()
		require.NoError(k.t, err)
	}
}

func (k *kubelet) pods() []corev1.Pod {
	all := &corev1.PodList{}
	require.NoError(k.t, k.List(k.t.Context(), all))
	return all.Items
}

func (k *kubelet) isSteadyWith(voters int32) func(*v1alpha1.EtcdRing) bool {
	return func(r *v1alpha1.EtcdRing) bool {
		for _, c := range r.Status.Conditions {
			if c.Type == v1alpha1.Progressing && c.Reason == "Steady" && c.ObservedGeneration == r.Generation {
				return r.Status.Voters == voters
			}
		}
		return false
	}
}

// disks are the members' disks, by slot.
func (k *kubelet) disks() map[string]string {
	r := &v1alpha1.EtcdRing{}
	require.NoError(k.t, k.Get(k.t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, r))
	all := map[string]string{}
	for _, m := range r.Status.Members {
		all[m.Pod] = m.Disk
	}
	return all
}

func (k *kubelet) resize(size int32) {
	r := &v1alpha1.EtcdRing{}
	require.NoError(k.t, k.Get(k.t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, r))
	r.Spec.ClusterSize = size
	require.NoError(k.t, k.Update(k.t.Context(), r))
}

// loseNodeOf takes a slot's node away, with what runs there and its volume. Nobody ends
// its pod: its object stays until somebody deletes it by force.
func (k *kubelet) loseNodeOf(slot string) {
	pod := &corev1.Pod{}
	require.NoError(k.t, k.Get(k.t.Context(), client.ObjectKey{Namespace: "n", Name: slot}, pod))
	r := k.runs[pod.UID]
	r.end()
	r.cancel = nil
	require.NoError(k.t, k.Delete(k.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}))
	k.node[slot] = fmt.Sprintf("node-%d", kube.MostSlots)
}

// runPods does what kubelets do.
func (k *kubelet) runPods() {
	there := map[types.UID]bool{}
	for _, pod := range k.pods() {
		r := k.runs[pod.UID]
		switch {
		case r != nil && r.cancel == nil: // its node is gone
		case pod.DeletionTimestamp != nil:
			if r != nil {
				r.end()
			}
			require.NoError(k.t, k.Delete(k.t.Context(), &pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
			continue
		case r == nil:
			k.start(&pod)
		default:
			k.probe(r, &pod)
		}
		there[pod.UID] = true
	}
	for uid, r := range k.runs { // order: each by itself
		if !there[uid] {
			r.end()
			delete(k.runs, uid)
		}
	}
}

// start binds the pod's claim, runs its init container, and then its launcher.
func (k *kubelet) start(pod *corev1.Pod) {
	volume, ok := k.bind(pod)
	if !ok {
		return
	}
	ordinal, _ := kube.Names{Namespace: "n", Ring: "r"}.Ordinal(pod.Name)
	real := host.NewReal(pod.Name, filepath.Join(k.dir, volume), filepath.Join(k.dir, "run-"+string(pod.UID)), testLog{k.t})
	real.Plain = true
	h := podHost{real, addressOf(ordinal)}
	found, err := kube.Find(h, pod.Name)
	require.NoError(k.t, err)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: kube.InitContainer, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: `{"disk":"` + found.Disk + `"}`, FinishedAt: metav1.NewTime(epoch)}}}}
	require.NoError(k.t, k.Status().Update(k.t.Context(), pod))
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{slot: pod.Name, cancel: cancel, done: make(chan struct{}), host: h}
	k.runs[pod.UID] = r
	go r.turns(ctx, k.newLauncher(pod.Name, h, found))
}

// probe has the pod be ready while its etcd serves. One that is ready before any etcd runs is
// taken for a member of a ring whose records are gone.
func (k *kubelet) probe(r *run, pod *corev1.Pod) {
	ready := corev1.ConditionFalse
	answer, err := http.Get(fmt.Sprintf("http://%s:%d/readyz?exclude=linearizable_read", r.host.address, kube.HealthPort))
	if err == nil {
		_ = answer.Body.Close()
	}
	if err == nil && answer.StatusCode == http.StatusOK {
		ready = corev1.ConditionTrue
	}
	if len(pod.Status.Conditions) == 1 && pod.Status.Conditions[0].Status == ready {
		return
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	require.NoError(k.t, k.Status().Update(k.t.Context(), pod))
}

// bind gives the pod a node, and its claim a volume there.
func (k *kubelet) bind(pod *corev1.Pod) (volume string, ok bool) {
	claim := &corev1.PersistentVolumeClaim{}
	err := k.Get(k.t.Context(), client.ObjectKey{Namespace: "n", Name: "data-" + pod.Name}, claim)
	if err != nil || claim.DeletionTimestamp != nil {
		return "", false
	}
	node := k.node[pod.Name]
	if node == "" {
		node = "node-" + strings.TrimPrefix(pod.Name, "r-")
	}
	if claim.Spec.VolumeName == "" {
		claim.Spec.VolumeName = "pv-" + string(claim.UID)
		require.NoError(k.t, k.Create(k.t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}, Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}}))
		require.NoError(k.t, k.Update(k.t.Context(), claim))
		claim.Status.Phase = corev1.ClaimBound
		require.NoError(k.t, k.Status().Update(k.t.Context(), claim))
	}
	pod.Spec.NodeName = node
	require.NoError(k.t, k.Update(k.t.Context(), pod))
	return claim.Spec.VolumeName, true
}

func (k *kubelet) newLauncher(slot string, h podHost, found kube.Evidence) *launcher.Launcher {
	names := kube.Names{Namespace: "n", Ring: "r"}
	ordinal, _ := names.Ordinal(slot)
	pki := filepath.Join(k.dir, "pki", slot)
	return launcher.NewLauncher(h, &host.Recorder{Host: h}, launcher.Config{
		Machine: slot, Address: names.Address(slot), Binaries: map[ring.Version]string{release: k.etcd}, Named: found.Disk,
		Source: &kube.Source{API: k.Client, Names: names, Version: release, Pod: slot}, Decide: launcher.Decide, Do: do,
		Issued: &launcher.Issued{Dir: pki, Read: func(name string) ([]byte, error) {
			secret := &corev1.Secret{}
			if err := k.Get(context.Background(), client.ObjectKey{Namespace: "n", Name: names.Certificates(ordinal)}, secret); err != nil {
				return nil, err
			}
			return secret.Data[name], mount(pki, secret)
		}},
	})
}

// mount puts a Secret's files in place one by one and whole, as a kubelet does: an etcd that
// starts meanwhile and finds an authority's file empty trusts nobody for as long as it runs.
func mount(dir string, secret *corev1.Secret) error {
	err := os.MkdirAll(dir, 0o700)
	for _, file := range certificateFiles {
		path := filepath.Join(dir, file)
		err = errors.Join(err, os.WriteFile(path+".new", secret.Data[file], 0o600), os.Rename(path+".new", path))
	}
	return err
}

func (r *run) turns(ctx context.Context, l *launcher.Launcher) {
	defer close(r.done)
	for ctx.Err() == nil {
		if err := l.Alone(ctx); err != nil && ctx.Err() == nil {
			fmt.Println(r.slot, err)
		}
		_ = r.host.Sleep(ctx, 150*time.Millisecond)
	}
}

// end ends the container at once.
func (r *run) end() {
	if r.cancel == nil {
		return
	}
	r.cancel()
	<-r.done
	_ = r.host.Process().Stop(context.Background(), 0)
}

// podHost is a pod whose etcd listens at an address of its own.
type podHost struct {
	*host.Real
	address string
}

func (h podHost) Process() host.Process { return podProcess{h.Real.Process(), h.address} }

type podProcess struct {
	host.Process
	address string
}

func (p podProcess) Start(ctx context.Context, args []string) error {
	own := append([]string{}, args...)
	for i := range own {
		own[i] = strings.NewReplacer("://0.0.0.0:", "://"+p.address+":", "//127.0.0.1:", "//"+p.address+":").Replace(own[i])
	}
	return p.Process.Start(ctx, own)
}
