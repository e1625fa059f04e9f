// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package config_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/kind"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
)

const etcdVersion = "3.6.16"

// trial is one ring on a cluster of its own.
type trial struct {
	*testing.T
	cluster *kind.Cluster
	client.Client
	names kube.Names
	audit string
}

// TestKindRing deploys the controller as a user does, and asks it for a ring: made,
// grown, shrunk, and mended after one of its volumes is lost, while clients write. Of
// the pods only the one whose volume was lost may be another afterwards.
func TestKindRing(t *testing.T) {
	if os.Getenv("RINGPROOF_KIND") == "" {
		t.Skip("SKIPPED: a cluster in Docker takes minutes: make test-kind")
	}
	if out, err := exec.CommandContext(t.Context(), "docker", "version").CombinedOutput(); err != nil {
		t.Skip("SKIPPED: no Docker engine answers: " + strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "; "))
	}
	x := begin(t)
	x.kubectl("apply", "-k", "default")
	x.kubectl("-n", "ringadm-system", "rollout", "status", "deployment/ringadm-controller", "--timeout=2m")
	x.kubectl("create", "namespace", x.names.Namespace)
	require.NoError(t, x.Create(t.Context(), ringOf(x.names)))
	x.took("a ring of three", x.whole(3))

	w := x.write()
	x.resize(5)
	x.resize(3)
	x.loseVolume(w)
	x.lookAfter()
	w.stop()
	w.allThere(x.T)
	x.deleteRing()

	x.names.Ring = "s"
	x.enable()
	x.deleteRing()
	x.judgeRights()
}

// enable has a ring that begins without launchers given some, while clients write. Each
// pod is made anew once, with its volume.
func (x *trial) enable() {
	r := ringOf(x.names)
	r.Spec.Features.EtcdLauncher = ptr.To(false)
	require.NoError(x, x.Create(x.Context(), r))
	x.took("a ring of three without launchers", x.whole(3))
	claims := func() (all []string) {
		for slot := range x.pods() {
			claim, err := x.claimOf(slot)
			require.NoError(x, err)
			all = append(all, string(claim.UID))
		}
		slices.Sort(all)
		return all
	}
	before := claims()

	w := x.write()
	r, err := x.ring()
	require.NoError(x, err)
	require.Equal(x, v1alpha1.Plain, r.Status.TLSPhase)
	next := r.DeepCopy()
	next.Spec.Features.EtcdLauncher = ptr.To(true)
	require.NoError(x, x.Patch(x.Context(), next, client.MergeFrom(r)))
	x.took("launchers, and peers that speak TLS", x.until("peers speak TLS alone", func() error {
		r, err := x.ring()
		if err == nil && r.Status.TLSPhase != v1alpha1.Strict {
			err = fmt.Errorf("the phase is %s: %v", r.Status.TLSPhase, r.Status.Conditions)
		}
		return err
	}))
	x.whole(3)
	w.stop()
	w.allThere(x.T)
	assert.Equal(x, before, claims(), "a claim was replaced")
	r, err = x.ring()
	require.NoError(x, err)
	r.Spec.Features.EtcdLauncher = ptr.To(false)
	assert.ErrorContains(x, x.Update(x.Context(), r), "can't be disabled once it is on")
}

// lookAfter has the helpers run in a pod, where they find what they need in the environment, while
// clients write.
func (x *trial) lookAfter() {
	helper := func(args ...string) string {
		args = append([]string{"--kubeconfig", x.cluster.Kubeconfig, "-n", x.names.Namespace, "exec", x.names.Slot(0), "-c", "etcd", "--", "/opt/ringadm/ringadm"}, args...)
		out, err := exec.CommandContext(x.Context(), "kubectl", args...).Output()
		require.NoError(x, err, args)
		return string(out)
	}
	assert.Equal(x, "the ring takes writes\n", helper("is-running"))
	backup := helper("snapshot", "-")
	require.Greater(x, len(backup), sha256.Size)
	sum := sha256.Sum256([]byte(backup[:len(backup)-sha256.Size]))
	assert.Equal(x, string(sum[:]), backup[len(backup)-sha256.Size:], "a backup ends in the sum of what is before")
	assert.Len(x, strings.Split(strings.TrimSpace(helper("defrag")), "\n"), 3, "each member once")
	x.whole(3)
}

// begin brings a cluster up that has the images.
func begin(t *testing.T) *trial {
	log.SetLogger(logr.Discard()) // else controller-runtime complains that nobody did
	_, err := exec.LookPath("kubectl")
	require.NoError(t, err, "kubectl applies config/default, as a user does")
	dir := t.TempDir()
	archives := images(t, dir)
	x := &trial{T: t, names: kube.Names{Namespace: "rings", Ring: "r"}, audit: filepath.Join(dir, "audit")}
	x.cluster, err = kind.Up(t.Context(), kind.Options{Dir: dir, Workers: 4, Disks: filepath.Join(dir, "disks"), Grace: 12 * time.Second, Audit: x.audit,
		Log: func(line string) { t.Log(line) }})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			x.describe()
		}
		require.NoError(t, x.cluster.Close())
	})
	for _, file := range archives {
		require.NoError(t, x.cluster.Load(file))
	}
	reached, err := clientcmd.BuildConfigFromFlags("", x.cluster.Kubeconfig)
	require.NoError(t, err)
	known := runtime.NewScheme()
	require.NoError(t, errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)))
	x.Client, err = client.New(reached, client.Options{Scheme: known})
	require.NoError(t, err)
	return x
}

// images builds ringadm and a release of etcd, and makes images of them.
func images(t *testing.T, dir string) []string {
	ringadm := filepath.Join(dir, "ringadm")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", ringadm, "../cmd/ringadm")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	cache, err := etcdbin.DefaultCache()
	require.NoError(t, err)
	etcd, err := cache.InstallTools(t.Context(), "v"+etcdVersion, func(line string) { t.Log(line) })
	require.NoError(t, err)
	var files []string
	for _, i := range []image.Image{image.Ringadm(image.RingadmName, ringadm),
		image.Etcd(image.EtcdRepository+":v"+etcdVersion, etcd.Etcd, etcd.Etcdctl, etcd.Etcdutl)} {
		file := filepath.Join(dir, i.File())
		_, err := i.Write(file)
		require.NoError(t, err)
		files = append(files, file)
	}
	return files
}

// ringOf asks for a ring of three. Five members need five nodes, and one of those is
// the control plane's.
func ringOf(n kube.Names) *v1alpha1.EtcdRing {
	return &v1alpha1.EtcdRing{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Ring}, Spec: v1alpha1.EtcdRingSpec{
		ClusterSize: 3, Version: etcdVersion,
		Storage:    v1alpha1.Storage{StorageClassName: ptr.To(kind.StorageClass), Size: resource.MustParse("1Gi")},
		Scheduling: v1alpha1.Scheduling{Tolerations: []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}}}}}
}

func (x *trial) kubectl(args ...string) string {
	x.Helper()
	out, err := x.tryKubectl(args...)
	require.NoError(x, err, "kubectl %s: %s", strings.Join(args, " "), out)
	return out
}

func (x *trial) tryKubectl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.Context()), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig", x.cluster.Kubeconfig}, args...)...).CombinedOutput()
	return string(out), err
}

// describe logs what a person would look at first.
func (x *trial) describe() {
	for _, look := range []string{"get pods,pvc,pv -A -o wide", "-n rings get etcdrings -o yaml", "get events -A --sort-by=.lastTimestamp",
		"-n ringadm-system logs deployment/ringadm-controller --all-pods --tail=60", "-n rings logs -l etcd.ringproof.dev/ring=r --tail=15 --prefix"} {
		out, err := x.tryKubectl(strings.Fields(look)...)
		x.Logf("kubectl %s (%v)\n%s", look, err, out)
	}
}

// patience is how long a change of a ring may take on two busy cores.
const patience = 4 * time.Minute

// until waits for what it is told of by nil, and returns how long that took.
func (x *trial) until(what string, done func() error) time.Duration {
	x.Helper()
	began := time.Now()
	for {
		err := done()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			require.NoError(x, err, "%s within %s", what, patience)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

func (x *trial) took(what string, d time.Duration) { x.Logf("took %.1fs: %s", d.Seconds(), what) }

func (x *trial) ring() (*v1alpha1.EtcdRing, error) {
	r := &v1alpha1.EtcdRing{}
	return r, x.Get(x.Context(), client.ObjectKey{Namespace: x.names.Namespace, Name: x.names.Ring}, r)
}

// whole waits until the ring says that it is what was asked for, and its pods agree.
func (x *trial) whole(size int) time.Duration {
	x.Helper()
	return x.until(fmt.Sprintf("a whole ring of %d", size), func() error {
		r, err := x.ring()
		if err != nil {
			return err
		}
		for kind, want := range map[string]metav1.ConditionStatus{v1alpha1.Available: metav1.ConditionTrue, v1alpha1.Progressing: metav1.ConditionFalse,
			v1alpha1.Degraded: metav1.ConditionFalse, v1alpha1.Halted: metav1.ConditionFalse} {
			i := slices.IndexFunc(r.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind && c.ObservedGeneration == r.Generation })
			if i < 0 || r.Status.Conditions[i].Status != want {
				return fmt.Errorf("%s isn't %s: %v", kind, want, r.Status.Conditions)
			}
		}
		if int(r.Status.Voters) != size || len(r.Status.Members) != size {
			return fmt.Errorf("%d voters of %v", r.Status.Voters, r.Status.Members)
		}
		// A pod that is being deleted isn't ready, and is still there.
		if ready, all := x.ready(), len(x.pods()); len(ready) != size || all != size {
			return fmt.Errorf("ready are %v of %d pods", ready, all)
		}
		return nil
	})
}

// life is what of a pod must not change where no fault hit it.
type life struct {
	uid      string
	restarts int32
}

func (x *trial) pods() map[string]corev1.Pod {
	x.Helper()
	list, all := &corev1.PodList{}, map[string]corev1.Pod{}
	require.NoError(x, x.List(x.Context(), list, client.InNamespace(x.names.Namespace), client.MatchingLabels{kube.RingLabel: x.names.Ring}))
	for _, p := range list.Items {
		all[p.Name] = p
	}
	return all
}

func (x *trial) ready() (names []string) {
	for name, p := range x.pods() {
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (x *trial) lives() map[string]life {
	all := map[string]life{}
	for name, p := range x.pods() {
		l := life{uid: string(p.UID)}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			l.restarts += c.RestartCount
		}
		all[name] = l
	}
	return all
}

// resize asks for another size, and wants the pods that stay to be the same.
func (x *trial) resize(size int32) {
	before := x.lives()
	r, err := x.ring()
	require.NoError(x, err)
	next := r.DeepCopy()
	next.Spec.ClusterSize = size
	require.NoError(x, x.Patch(x.Context(), next, client.MergeFrom(r)))
	x.took(fmt.Sprintf("%d members become %d", r.Spec.ClusterSize, size), x.whole(int(size)))
	for name, now := range x.lives() {
		if was, there := before[name]; there {
			assert.Equal(x, was, now, "%s was replaced or restarted", name)
		}
	}
}

// loseVolume takes a follower's volume away for good: the object, and what was on it.
func (x *trial) loseVolume(w *writers) {
	victim := x.follower()
	before := x.lives()
	claim, volume := x.volumeOf(victim)
	began := time.Now()
	w.mark()
	require.NoError(x, x.Delete(x.Context(), volume))
	require.NoError(x, x.Patch(x.Context(), volume, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	require.NoError(x, x.cluster.Run(x.pods()[victim].Spec.NodeName, "rm", "-rf", pathOf(volume)))
	x.Logf("lost: the volume %s of %s", volume.Name, victim)
	x.until(victim+" has another pod on another volume", func() error {
		if next := x.lives()[victim]; next.uid == "" || next.uid == before[victim].uid {
			return errors.New("the pod is the same")
		}
		if next, _ := x.claimOf(victim); next == nil || next.UID == claim.UID || next.Status.Phase != corev1.ClaimBound {
			return errors.New("the claim is the same, or not bound")
		}
		return nil
	})
	x.whole(3)
	x.took("from the loss of "+victim+"'s volume to full strength", time.Since(began))
	x.Logf("the longest time without an acknowledged write: %s", w.gap().Round(time.Millisecond))
	after := x.lives()
	assert.Len(x, after, 3)
	for name, was := range before {
		if name == victim {
			assert.Zero(x, after[name].restarts, "the new %s restarted", name)
			continue
		}
		assert.Equal(x, was, after[name], "%s was replaced or restarted, and no fault hit it", name)
	}
}

// follower is a slot whose member doesn't lead, on a worker.
func (x *trial) follower() string {
	r, err := x.ring()
	require.NoError(x, err)
	for _, m := range r.Status.Members {
		if m.Role == "Follower" && strings.Contains(x.pods()[m.Pod].Spec.NodeName, "worker") {
			return m.Pod
		}
	}
	require.Fail(x, "no follower runs on a worker", "%v", r.Status.Members)
	return ""
}

func (x *trial) claimOf(slot string) (*corev1.PersistentVolumeClaim, error) {
	c := &corev1.PersistentVolumeClaim{}
	if err := x.Get(x.Context(), client.ObjectKey{Namespace: x.names.Namespace, Name: kube.DiskVolume + "-" + slot}, c); err != nil {
		return nil, err
	}
	return c, nil
}

func (x *trial) volumeOf(slot string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	c, err := x.claimOf(slot)
	require.NoError(x, err)
	v := &corev1.PersistentVolume{}
	require.NoError(x, x.Get(x.Context(), client.ObjectKey{Name: c.Spec.VolumeName}, v))
	return c, v
}

func pathOf(v *corev1.PersistentVolume) string {
	if v.Spec.HostPath != nil {
		return v.Spec.HostPath.Path
	}
	return v.Spec.Local.Path
}

// deleteRing wants nothing of a ring to be left that keeps nothing.
func (x *trial) deleteRing() {
	r, err := x.ring()
	require.NoError(x, err)
	require.NoError(x, x.Delete(x.Context(), r))
	x.took("to delete the ring", x.until("nothing of the ring is left", func() error {
		if left := x.left(); len(left) > 0 {
			return fmt.Errorf("left: %s", strings.Join(left, ", "))
		}
		return nil
	}))
}

// left are the objects that carry the ring's label.
func (x *trial) left() (all []string) {
	for _, list := range []client.ObjectList{&v1alpha1.EtcdRingList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{},
		&corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{}} {
		require.NoError(x, x.List(x.Context(), list, client.InNamespace(x.names.Namespace), client.HasLabels{kube.RingLabel}))
		objects, err := json.Marshal(list)
		require.NoError(x, err)
		var found struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		require.NoError(x, json.Unmarshal(objects, &found))
		for _, o := range found.Items {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1."), "List")+" "+o.Metadata.Name)
		}
	}
	return all
}

// request is a line of the API server's audit log.
type request struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef *struct{ Resource, Subresource, APIGroup, Name string }

	ResponseStatus struct{ Code int }
}

func (r request) deed() deed {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return did(r.Verb, r.ObjectRef.APIGroup, resource)
}

// judgeRights compares what the controller and the launchers asked of the API server
// with what they may: nothing was refused, and nothing is granted that nobody used.
func (x *trial) judgeRights() {
	used := map[string]map[deed]bool{}
	for r := range x.requests() {
		if r.ObjectRef == nil {
			continue // discovery, which everybody may do
		}
		assert.NotEqual(x, 403, r.ResponseStatus.Code, "%s may not %s %s", r.User.Username, r.deed(), r.ObjectRef.Name)
		if used[r.User.Username] == nil {
			used[r.User.Username] = map[deed]bool{}
		}
		used[r.User.Username][r.deed()] = true
	}
	controller := used["system:serviceaccount:ringadm-system:ringadm-controller"]
	require.NotEmpty(x, controller, "the API server logged nothing of the controller")
	for _, d := range granted(slices.Concat(rules(x.T, "ClusterRole"), rules(x.T, "Role"))) {
		// A server that knows how sends what there is at the beginning of a watch; any other
		// is asked for a list first.
		resource, lists := strings.CutPrefix(string(d), "list ")
		if unusedAnywhere[d] == "" && !(lists && controller[deed("watch "+resource)]) {
			assert.True(x, controller[d], "%s is granted to the controller, and it never did it", d)
		}
	}
	launchers := used["system:serviceaccount:"+x.names.Namespace+":"+x.names.Set()]
	assert.Equal(x, map[deed]bool{"get etcd.ringproof.dev/etcdrings": true, "get /configmaps": true}, launchers, "what launchers asked for")
}

// requests reads the audit log.
func (x *trial) requests() func(yield func(request) bool) {
	return func(yield func(request) bool) {
		file, err := os.Open(filepath.Join(x.audit, "audit.log"))
		require.NoError(x, err)
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r request
			if json.Unmarshal(lines.Bytes(), &r) != nil {
				continue // the last line is being written
			}
			if !yield(r) {
				return
			}
		}
		require.NoError(x, lines.Err())
	}
}
