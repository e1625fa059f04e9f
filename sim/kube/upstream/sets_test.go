// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package upstream

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/controller/history"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/sim/kube"
)

// TestSets draws a set, its pods, claims and revisions, and demands that the model
// does what Kubernetes does: the same writes, the same status, the same refusal.
// What is done to pods at once has no order.
func TestSets(t *testing.T) {
	revisions := known(t)
	done, rolled, refused := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		set := draw(t)
		theirs, ours := set.upstream(t, revisions), set.model(revisions)
		require.Equal(t, theirs, ours, "\n%s", set.describe())
		done += len(theirs.writes)
		if theirs.err != "" {
			refused++
		}
		if strings.Contains(strings.Join(theirs.writes, " "), "delete") {
			rolled++
		}
	})
	require.Positive(t, done, "nothing was ever done")
	require.Positive(t, rolled, "no pod was ever deleted")
	require.Positive(t, refused, "no claim was ever in the way")
}

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// The images of the templates that a set can have had.
	images = []string{"a", "b", "c"}
)

// drawn is a set as both see it, but for the bytes of its revisions.
type drawn struct {
	set       *appsv1.StatefulSet
	pods      []*corev1.Pod
	claims    map[string]*corev1.PersistentVolumeClaim
	revisions []string // images, the oldest first
}

func draw(t *rapid.T) drawn {
	d := drawn{set: drawSet(t), claims: map[string]*corev1.PersistentVolumeClaim{}}
	d.revisions = rapid.SliceOfNDistinct(rapid.SampledFrom(images), 0, 3, rapid.ID).Draw(t, "revisions")
	if len(d.revisions) > 0 && rapid.Bool().Draw(t, "has current") {
		d.set.Status.CurrentRevision = "web-" + rapid.SampledFrom(d.revisions).Draw(t, "current")
	}
	d.set.Status.CurrentReplicas = rapid.Int32Range(0, 4).Draw(t, "current replicas")
	for n := range 7 {
		if rapid.Bool().Draw(t, "pod") {
			d.pods = append(d.pods, drawPod(t, n, slices.Concat(d.revisions, []string{"forgotten"})))
		}
		if rapid.Bool().Draw(t, "claim") {
			d.claims[fmt.Sprintf("data-web-%d", n)] = drawClaim(t, n)
		}
	}
	return d
}

func drawSet(t *rapid.T) *appsv1.StatefulSet {
	set := bare(rapid.SampledFrom(images).Draw(t, "image"))
	set.Spec.Replicas = pointer(rapid.Int32Range(0, 5).Draw(t, "replicas"))
	set.Spec.PodManagementPolicy = rapid.SampledFrom([]appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}).Draw(t, "policy")
	set.Spec.MinReadySeconds = rapid.SampledFrom([]int32{0, 0, 10}).Draw(t, "min ready")
	set.Spec.RevisionHistoryLimit = pointer(rapid.Int32Range(0, 2).Draw(t, "history"))
	set.Generation = rapid.Int64Range(1, 3).Draw(t, "generation")
	set.Status.ObservedGeneration = rapid.Int64Range(0, 3).Draw(t, "observed")
	if rapid.IntRange(0, 4).Draw(t, "ordinals") == 0 {
		set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 2}
	}
	if rapid.IntRange(0, 9).Draw(t, "deleted") == 0 {
		set.DeletionTimestamp = &metav1.Time{Time: epoch}
	}
	if rapid.Bool().Draw(t, "on delete") {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		return set
	}
	set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: pointer(rapid.Int32Range(0, 4).Draw(t, "partition"))}
	if rapid.Bool().Draw(t, "max unavailable") {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = pointer(intstr.FromInt32(rapid.Int32Range(1, 3).Draw(t, "at once")))
	}
	return set
}

// bare is a set as the API server completes it.
func bare(image string) *appsv1.StatefulSet {
	app := map[string]string{"app": "web"}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", UID: "set", Generation: 1},
		Spec: appsv1.StatefulSetSpec{
			Replicas: pointer(int32(3)), ServiceName: "web", RevisionHistoryLimit: pointer(int32(10)),
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "c", Image: image}},
					Volumes:    []corev1.Volume{{Name: "tmp"}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"of": "data"}}}},
		},
	}
}

func drawPod(t *rapid.T, n int, revisions []string) *corev1.Pod {
	name := fmt.Sprintf("web-%d", n)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Labels: map[string]string{
		"app": "web", appsv1.StatefulSetPodNameLabel: name,
		appsv1.StatefulSetRevisionLabel: "web-" + rapid.SampledFrom(revisions).Draw(t, "revision"),
	}}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name}}}}
	if rapid.IntRange(0, 9).Draw(t, "renamed") == 0 {
		delete(pod.Labels, appsv1.StatefulSetPodNameLabel)
	}
	pod.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded}).Draw(t, "phase")
	if rapid.IntRange(0, 2).Draw(t, "ready") > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(epoch.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "since")) * time.Second))}}
	}
	if rapid.IntRange(0, 3).Draw(t, "terminating") == 0 {
		pod.DeletionTimestamp = &metav1.Time{Time: epoch}
	}
	return pod
}

func drawClaim(t *rapid.T, n int) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("data-web-%d", n)}}
	if rapid.IntRange(0, 3).Draw(t, "claim terminating") == 0 {
		claim.DeletionTimestamp = &metav1.Time{Time: epoch}
	}
	return claim
}

func (d drawn) describe() string {
	lines := []string{fmt.Sprintf("set of %s, %d replicas, %s, %s, of revision %q, revisions %q", d.set.Spec.Template.Spec.Containers[0].Image, *d.set.Spec.Replicas,
		d.set.Spec.PodManagementPolicy, d.set.Spec.UpdateStrategy.Type, d.set.Status.CurrentRevision, d.revisions)}
	for _, pod := range d.pods {
		lines = append(lines, fmt.Sprintf("%s %s of %s, ready %v, terminating %v", pod.Name, pod.Status.Phase, pod.Labels[appsv1.StatefulSetRevisionLabel], len(pod.Status.Conditions) > 0, pod.DeletionTimestamp != nil))
	}
	for _, name := range slices.Sorted(maps.Keys(d.claims)) {
		lines = append(lines, fmt.Sprintf("claim %s, terminating %v", name, d.claims[name].DeletionTimestamp != nil))
	}
	return strings.Join(lines, "\n")
}

// outcome is what was done, in words that both can be compared by.
type outcome struct {
	writes []string // sorted
	status string   // "" if it stays
	err    string
}

func conclude(writes []string, status *appsv1.StatefulSetStatus, err error) outcome {
	sort.Strings(writes)
	o := outcome{writes: writes}
	if status != nil {
		o.status = fmt.Sprintf("observed %d, %d replicas, %d ready, %d available, %d current of %s, %d updated of %s", status.ObservedGeneration, status.Replicas,
			status.ReadyReplicas, status.AvailableReplicas, status.CurrentReplicas, status.CurrentRevision, status.UpdatedReplicas, status.UpdateRevision)
	}
	if err != nil {
		o.err = "refused"
	}
	return o
}

// podText is all of a pod that the set says.
func podText(pod *corev1.Pod) string {
	image := "none"
	if len(pod.Spec.Containers) > 0 {
		image = pod.Spec.Containers[0].Image
	}
	return fmt.Sprintf("pod %s image %s labels %v volumes %v host %s.%s owners %d generate %s", pod.Name, image, pod.Labels, pod.Spec.Volumes,
		pod.Spec.Hostname, pod.Spec.Subdomain, len(pod.OwnerReferences), pod.GenerateName)
}

func claimText(claim *corev1.PersistentVolumeClaim) string {
	return fmt.Sprintf("claim %s labels %v", claim.Name, claim.Labels)
}

// known makes the revisions of all templates, as both would.
func known(t *testing.T) map[string]both {
	all := map[string]both{}
	for _, image := range images {
		var b both
		for _, w := range (kube.Set{Object: bare(image), Now: epoch}).Step().Writes {
			if r, ok := w.Object.(*appsv1.ControllerRevision); ok {
				b.ours = r
			}
		}
		kept := &keeper{}
		d := drawn{set: bare(image)}
		_, err := control(kept).UpdateStatefulSet(t.Context(), d.set, nil, epoch)
		require.NoError(t, err)
		b.theirs = kept.created
		require.NotNil(t, b.ours)
		require.NotNil(t, b.theirs)
		all[image] = both{named(b.ours, image), named(b.theirs, image)}
	}
	return all
}

// both are a revision as the model writes it, and as Kubernetes does.
type both struct{ ours, theirs *appsv1.ControllerRevision }

func named(r *appsv1.ControllerRevision, image string) *appsv1.ControllerRevision {
	r = r.DeepCopy()
	r.Name = "web-" + image
	return r
}

func numbered(r *appsv1.ControllerRevision, n int) *appsv1.ControllerRevision {
	r = r.DeepCopy()
	r.Revision = int64(n + 1)
	return r
}

// model is what the model does. It names a new revision by its hash; here all are
// named by their image.
func (d drawn) model(revisions map[string]both) outcome {
	set := kube.Set{Object: d.set.DeepCopy(), Claims: d.claims, Now: epoch}
	for n, image := range d.revisions {
		set.Revisions = append(set.Revisions, numbered(revisions[image].ours, n))
	}
	for _, pod := range d.pods {
		set.Pods = append(set.Pods, pod.DeepCopy())
	}
	step := set.Step()
	rename := func(text string) string { return text }
	var writes []string
	for _, w := range step.Writes {
		var text string
		switch o := w.Object.(type) {
		case *corev1.Pod:
			text = podText(o)
			if w.Verb == kube.Remove {
				text = "pod " + o.Name
			}
		case *corev1.PersistentVolumeClaim:
			text = claimText(o)
		case *appsv1.ControllerRevision:
			text = fmt.Sprintf("revision %s", o.Name)
			if w.Verb == kube.Create {
				made := strings.NewReplacer(o.Name, "web-"+d.set.Spec.Template.Spec.Containers[0].Image)
				rename = made.Replace
			}
			if w.Verb != kube.Remove {
				text += fmt.Sprintf(" number %d", o.Revision)
			}
		}
		writes = append(writes, string(w.Verb)+" "+text)
	}
	for n := range writes {
		writes[n] = rename(writes[n])
	}
	o := conclude(writes, step.Status, step.Err)
	o.status = rename(o.status)
	return o
}

// upstream is what Kubernetes does.
func (d drawn) upstream(t *rapid.T, revisions map[string]both) outcome {
	kept := &keeper{claims: d.claims, image: d.set.Spec.Template.Spec.Containers[0].Image}
	for n, image := range d.revisions {
		kept.revisions = append(kept.revisions, numbered(revisions[image].theirs, n))
	}
	var pods []*corev1.Pod
	for _, pod := range d.pods {
		pods = append(pods, pod.DeepCopy())
	}
	_, err := control(kept).UpdateStatefulSet(context.Background(), d.set.DeepCopy(), pods, epoch)
	return conclude(kept.writes, kept.status, err)
}

func control(kept *keeper) statefulset.StatefulSetControlInterface {
	return statefulset.NewDefaultStatefulSetControl(statefulset.NewStatefulPodControlFromManager(kept, &record.FakeRecorder{}), kept, kept)
}

// keeper is the API server and the caches that Kubernetes's controller asks; it
// notes what is written, and lets all of it succeed.
type keeper struct {
	mu        sync.Mutex
	claims    map[string]*corev1.PersistentVolumeClaim
	revisions []*appsv1.ControllerRevision
	image     string
	writes    []string
	status    *appsv1.StatefulSetStatus
	created   *appsv1.ControllerRevision
	history.Interface
}

func (k *keeper) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes = append(k.writes, fmt.Sprintf(format, args...))
}

func (k *keeper) CreatePod(_ context.Context, pod *corev1.Pod, _ *appsv1.StatefulSet) error {
	k.note("create %s", podText(pod))
	return nil
}

func (k *keeper) GetPod(_, name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

func (k *keeper) UpdatePod(pod *corev1.Pod, _ *appsv1.StatefulSet) error {
	k.note("update %s", podText(pod))
	return nil
}

func (k *keeper) DeletePod(pod *corev1.Pod) error {
	k.note("delete pod %s", pod.Name)
	return nil
}

func (k *keeper) CreateClaim(claim *corev1.PersistentVolumeClaim, _ *appsv1.StatefulSet) error {
	k.note("create %s", claimText(claim))
	return nil
}

func (k *keeper) GetClaim(_, name string) (*corev1.PersistentVolumeClaim, error) {
	if claim := k.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name)
}

func (k *keeper) UpdateClaim(claim *corev1.PersistentVolumeClaim, _ *appsv1.StatefulSet) error {
	k.note("update %s", claimText(claim))
	return nil
}

func (k *keeper) UpdateStatefulSetStatus(_ context.Context, _ *appsv1.StatefulSet, status *appsv1.StatefulSetStatus) error {
	k.status = status
	return nil
}

func (k *keeper) ListControllerRevisions(metav1.Object, schema.GroupVersionKind, labels.Selector) ([]*appsv1.ControllerRevision, error) {
	return slices.Clone(k.revisions), nil
}

func (k *keeper) CreateControllerRevision(_ metav1.Object, r *appsv1.ControllerRevision, _ *int32) (*appsv1.ControllerRevision, error) {
	k.created = named(r, k.image)
	k.note("create revision %s number %d", k.created.Name, r.Revision)
	return k.created, nil
}

func (k *keeper) UpdateControllerRevision(r *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	r = r.DeepCopy()
	r.Revision = number
	k.note("update revision %s number %d", r.Name, number)
	return r, nil
}

func (k *keeper) DeleteControllerRevision(r *appsv1.ControllerRevision) error {
	k.note("delete revision %s", r.Name)
	return nil
}

func pointer[T any](v T) *T { return &v }
