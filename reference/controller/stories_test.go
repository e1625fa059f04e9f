// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// TestStories plays what ground decides. When a decision changes, run
// go test ./reference/controller -rewrite and read the diff.
//
//	ground size=3 [replicas=N] [unread] [unfounded]   N slots are there; the list can't be read; no ring was bootstrapped
//	       [set=V] [from=V] [asks=V]                  pods are made with a release; were before; what spec.version says
//	       [edits]                                    the spec asks for other resources than the set's pods have
//	       [budget=N]                                 so many pods are to stay ready; none: as many as must
//	  node NAME [dark=DURATION]                        a node, not ready for so long
//	  slot N [member|learner] [WORDS...]               a slot, with a member in the list
//	    pod=NODE, pending, ending, ready               its pod
//	    claim=bound|unbound|lost|ending|foreign         its claim; somebody else has made it
//	    volume=NODE|any|gone                           which node reaches its volume
//	    static                                        its pod has no launcher
//	    runs=V, told=V                                the release of its pod; that its member's record says
//	    heard                                         its member served a turn ago
//	    check=running|done|unpulled|broken            how its node's try of spec.version goes
//	    edited, stuck, coming[=DURATION]              its pod was made before an edit of the spec; it runs nothing; nothing yet, so long
//	    pulls=REPOSITORY                              where its pod has the image from
//	    misplaced, misplaced=before|runs               its container found another disk than init; before init ran again; and runs again
//
// Patience with nodes is a minute.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			require.Equal(t, "ground", d.Cmd)
			return tellGround(ground(parseSeen(t, d), epoch, time.Minute))
		})
	})
}

func tellGround(g Ground) string {
	var b strings.Builder
	for _, c := range g.Changes {
		fmt.Fprintf(&b, "%s  # %s\n", c, c.Why)
		if budget, is := c.Object.(*policyv1.PodDisruptionBudget); is && c.Verb == Update {
			fmt.Fprintf(&b, "to stay ready: %d\n", budget.Spec.MinAvailable.IntValue())
		}
		if set, is := c.Object.(*appsv1.StatefulSet); is && strings.HasSuffix(c.Why, otherPods) {
			made, _ := madeOf(set)
			fmt.Fprintf(&b, "pods are made with: %s, launchers %v, an upgrade from %q\n", made.Version, made.Launchers, made.From)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(g.Lost)) {
		fmt.Fprintf(&b, "lost: %s: %s\n", slot, g.Lost[slot])
	}
	for _, slot := range slices.Sorted(maps.Keys(g.Dark)) {
		fmt.Fprintf(&b, "dark: %s: %s\n", slot, g.Dark[slot])
	}
	for _, wait := range g.Waits {
		fmt.Fprintf(&b, "waits: %s\n", wait)
	}
	for _, slot := range slices.Sorted(maps.Keys(g.Ending)) {
		if g.Ending[slot] {
			fmt.Fprintf(&b, "ending: %s\n", slot)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(g.Rolls)) {
		fmt.Fprintf(&b, "rolls: %s: %s\n", slot, g.Rolls[slot])
	}
	if g.course.refused != "" {
		fmt.Fprintf(&b, "refused: %s\n", g.course.refused)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func parseSeen(t *testing.T, d *datadriven.TestData) Seen {
	size, replicas := 3, 0
	d.ScanArgs(t, "size", &size)
	replicas = size
	d.MaybeScanArgs(t, "replicas", &replicas)
	r := newRing(int32(size))
	s := Seen{Ring: r, Image: "ringadm:test", View: &admin.View{ClusterID: 7}, Quiet: map[string]time.Duration{}}
	runs := "v3.6.16"
	d.MaybeScanArgs(t, "set", &runs)
	r.Spec.Features.EtcdLauncher = ptr.To(!d.HasArg("static"))
	s.Identity = &store.Identity{Token: "t", Static: d.HasArg("static") || d.HasArg("adopts")}
	s.Set, s.Budget = s.set(ring.Version(runs)), budget(r)
	if d.HasArg("adopts") {
		before := Seen{Ring: r.DeepCopy(), Image: s.Image, Identity: s.Identity}
		before.Ring.Spec.Features.EtcdLauncher = ptr.To(false)
		s.Set = before.set(ring.Version(runs))
	}
	if d.HasArg("from") {
		var from string
		d.ScanArgs(t, "from", &from)
		s.Set.Annotations[kube.FromAnnotation] = from
	}
	d.MaybeScanArgs(t, "asks", &r.Spec.Version)
	r.Spec.Paused = d.HasArg("paused")
	if d.HasArg("edits") {
		r.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	s.Set.Spec.Replicas = ptr.To(int32(replicas))
	s.Set.Annotations[kube.SlotsAnnotation] = strconv.Itoa(replicas)
	s.Set.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Hour))
	if d.HasArg("nudged") {
		var ago string
		d.ScanArgs(t, "nudged", &ago)
		since, err := time.ParseDuration(ago)
		require.NoError(t, err)
		s.Set.Annotations[kube.NudgedAnnotation] = epoch.Add(-since).Format(time.RFC3339)
	}
	s.Set.Annotations[kube.BootstrappedAnnotation] = "t"
	if d.HasArg("unfounded") {
		s.Identity, s.View = nil, nil
		delete(s.Set.Annotations, kube.BootstrappedAnnotation)
	}
	for i := range kube.MostSlots {
		s.Slots = append(s.Slots, Slot{Name: fmt.Sprintf("r-%d", i), Ordinal: i})
	}
	for line := range strings.Lines(d.Input) {
		s.line(t, strings.Fields(line))
	}
	if d.HasArg("unread") {
		s.View = nil
	}
	if s.View != nil {
		least, _ := s.leastReady()
		d.MaybeScanArgs(t, "budget", &least)
		s.Budget.Spec.MinAvailable.IntVal = int32(least)
	}
	return s
}

func (s *Seen) line(t *testing.T, words []string) {
	switch words[0] {
	case "node":
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: words[1], Labels: map[string]string{corev1.LabelHostname: words[1]}}}
		for _, word := range words[2:] {
			dark, err := time.ParseDuration(strings.TrimPrefix(word, "dark="))
			require.NoError(t, err)
			s.Quiet[n.Name] = dark
		}
		s.Nodes = append(s.Nodes, n)
	case "slot":
		at := int(words[1][0] - '0')
		for _, word := range words[2:] {
			s.word(t, &s.Slots[at], word)
		}
	default:
		require.Fail(t, "no such line", words)
	}
}

func (s *Seen) word(t *testing.T, slot *Slot, word string) {
	name, value, _ := strings.Cut(word, "=")
	uid := types.UID(fmt.Sprintf("%s-of-%s", name, slot.Name))
	about := func(o string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "n", Name: o, UID: uid} }
	switch name {
	case "member":
		url := namesOf(s.Ring).PeerURL(slot.Name, ring.TLS)
		s.View.Members = append(s.View.Members, &etcdserverpb.Member{ID: uint64(slot.Ordinal) + 1, Name: slot.Name, PeerURLs: []string{url}})
	case "learner":
		s.word(t, slot, "member")
		s.View.Members[len(s.View.Members)-1].IsLearner = true
	case "told":
		s.View.Bindings = merge(s.View.Bindings, ring.ID(slot.Ordinal)+1, admin.Binding{Machine: slot.Name, Disk: "d", Release: ring.Version(value)})
	case "static":
		before := Seen{Ring: s.Ring.DeepCopy(), Image: s.Image, Identity: &store.Identity{Static: true}}
		before.Ring.Spec.Features.EtcdLauncher = ptr.To(false)
		slot.Pod.Spec.Containers = before.set(s.version()).Spec.Template.Spec.Containers
	case "heard":
		s.Heard = merge(s.Heard, slot.Name, true)
	case "runs":
		slot.Pod.Spec.Containers = s.set(ring.Version(value)).Spec.Template.Spec.Containers
	case "pulls":
		slot.Pod.Spec.Containers[0].Image = value + ":" + string(slot.release())
	case "check":
		slot.Check = releaseCheck(s.Ring, *slot, s.imageOf(s.asked()))
		slot.Check.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Second))
		slot.Check.Status = checkStatuses[value]
	case "pod", "pending":
		slot.Pod = &corev1.Pod{ObjectMeta: about(slot.Name), Spec: corev1.PodSpec{NodeName: value}}
	case "edited":
		slot.Pod.Annotations = map[string]string{kube.AskedAnnotation: "before"}
	case "stuck":
		slot.Pod.Status.Phase = corev1.PodPending
		slot.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	case "coming":
		slot.Pod.Status.Phase = corev1.PodPending
		slot.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
		if value != "" {
			since, err := time.ParseDuration(value)
			require.NoError(t, err)
			s.Quiet[coming(slot.Pod)] = since
		}
	case "ending":
		slot.Pod.DeletionTimestamp = ptr.To(metav1.NewTime(epoch))
	case "ready":
		slot.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	case "misplaced":
		slot.misplace(value)
	case "claim":
		slot.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: about("data-" + slot.Name)}
		slot.Claim.Labels = namesOf(s.Ring).Labels(kube.MemberPart)
		slot.Claim.Spec.VolumeName = "pv-" + slot.Name
		slot.Claim.Status.Phase = map[string]corev1.PersistentVolumeClaimPhase{"bound": corev1.ClaimBound, "ending": corev1.ClaimBound, "foreign": corev1.ClaimBound, "lost": corev1.ClaimLost, "unbound": corev1.ClaimPending}[value]
		switch value {
		case "unbound":
			slot.Claim.Spec.VolumeName = ""
		case "foreign":
			slot.Claim.Labels = nil
		case "ending":
			slot.Claim.DeletionTimestamp = ptr.To(metav1.NewTime(epoch))
		}
	case "volume":
		slot.Volume = volumeOn(slot.Name, value)
	default:
		require.Fail(t, "no such word", word)
	}
}

var checkStatuses = map[string]corev1.PodStatus{
	"running":  {Phase: corev1.PodRunning},
	"done":     {Phase: corev1.PodSucceeded},
	"unpulled": {Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}},
	"broken":   {Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 132, Message: "illegal instruction\n"}}}}},
}

func merge[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[k] = v
	return m
}

func volumeOn(slot, node string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + slot}}
	switch node {
	case "gone":
		return nil
	case "any":
		return v
	}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
	return v
}

func (s *Slot) misplace(how string) {
	ran, ended := epoch, epoch.Add(time.Second)
	if how == "before" {
		ran, ended = ended, ran
	}
	s.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: kube.InitContainer, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(ran)}}}}
	s.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: kube.MemberContainer, LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: kube.MisplacedMessage + "d1, and is none", FinishedAt: metav1.NewTime(ended)}}}}
	if how == "runs" {
		s.Pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
	}
}

// TestNothingThatLivesIsDeleted: whatever is seen, no slot that a member of the list lives
// on is cleared, none while the list can't be read, and there are slots for all of them.
func TestNothingThatLivesIsDeleted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSeen(t)
		held, listed := s.held()
		for _, c := range ground(s, epoch, time.Minute).Changes {
			at := slices.IndexFunc(s.Slots, func(slot Slot) bool {
				return c.Object.GetName() == slot.Name || c.Object.GetName() == "data-"+slot.Name
			})
			if strings.HasSuffix(c.Object.GetName(), "-release-check") {
				continue
			}
			if at >= 0 && c.Kind == "pod" && s.takenBackAt(at) {
				continue
			}
			if c.Verb == Delete && (at < 0 || held[at] || !listed) {
				t.Fatalf("%s, and slot %d is held: %v, listed: %v", c, at, held, listed)
			}
			if set, ok := c.Object.(*appsv1.StatefulSet); ok {
				for i, holds := range held {
					if n := *set.Spec.Replicas; n < s.Ring.Spec.ClusterSize || holds && int(n) <= i || !listed && n < *s.Set.Spec.Replicas {
						t.Fatalf("%d slots, held: %v, listed: %v", n, held, listed)
					}
				}
			}
		}
	})
}

// takenBackAt reports whether the pod of a slot may go although a member may be there: it
// doesn't serve, with a release that was taken back, or is now, as others haven't got it.
func (s Seen) takenBackAt(at int) bool {
	slot, to := s.Slots[at], s.version()
	others := slices.ContainsFunc(s.Slots, func(x Slot) bool { return x.release() == s.from() })
	if others && s.asked() == s.from() {
		to = s.from()
	}
	return s.from() == to && !slot.ready() && slot.release().Compare(to) > 0
}

// drawSeen draws slots in any state, the possible and the others.
func drawSeen(t *rapid.T) Seen {
	r := newRing(rapid.SampledFrom([]int32{3, 5, 7, 9}).Draw(t, "size"))
	s := Seen{Ring: r, Image: "ringadm:test", View: &admin.View{ClusterID: 7}, Identity: &store.Identity{Token: "t"}, Quiet: map[string]time.Duration{}}
	release := rapid.SampledFrom([]ring.Version{"v3.5.35", "v3.6.16", "v3.6.17", "v3.7.3"})
	s.Identity.Static = rapid.Bool().Draw(t, "static")
	launchers := func(on bool) *bool { return ptr.To(!s.Identity.Static || on) }
	r.Spec.Features.EtcdLauncher = launchers(rapid.Bool().Draw(t, "set has launchers"))
	s.Set = s.set(release.Draw(t, "set"))
	r.Spec.Features.EtcdLauncher = launchers(rapid.Bool().Draw(t, "launchers are asked for"))
	if rapid.Bool().Draw(t, "upgraded") {
		s.Set.Annotations[kube.FromAnnotation] = string(release.Draw(t, "from"))
	}
	r.Spec.Version = string(release.Draw(t, "asked")[1:])
	s.Set.Spec.Replicas = ptr.To(rapid.Int32Range(0, 9).Draw(t, "replicas"))
	for i := range 3 {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprintf("node-%d", i)}}}
		if rapid.Bool().Draw(t, "dark") {
			s.Quiet[n.Name] = 2 * time.Minute
		}
		s.Nodes = append(s.Nodes, n)
	}
	node := rapid.SampledFrom([]string{"node-0", "node-1", "node-2", "node-gone"})
	for i := range kube.MostSlots {
		slot := Slot{Name: fmt.Sprintf("r-%d", i), Ordinal: i}
		about := metav1.ObjectMeta{Namespace: "n", Name: slot.Name, UID: "u"}
		if rapid.Bool().Draw(t, "pod") {
			like := Seen{Ring: r.DeepCopy(), Identity: s.Identity}
			like.Ring.Spec.Features.EtcdLauncher = launchers(rapid.Bool().Draw(t, "has a launcher"))
			slot.Pod = &corev1.Pod{ObjectMeta: about, Spec: corev1.PodSpec{NodeName: node.Draw(t, "node"), Containers: like.set(release.Draw(t, "runs")).Spec.Template.Spec.Containers}}
			if rapid.Bool().Draw(t, "ready") {
				slot.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			if check := rapid.SampledFrom([]string{"", "done", "running", "broken"}).Draw(t, "check"); check != "" {
				slot.Check = releaseCheck(r, slot, s.imageOf(s.asked()))
				slot.Check.Status = checkStatuses[check]
			}
			if rapid.Bool().Draw(t, "ending") {
				slot.Pod.DeletionTimestamp = ptr.To(metav1.NewTime(epoch))
			}
		}
		if rapid.Bool().Draw(t, "claim") {
			about.Name = "data-" + slot.Name
			slot.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: about, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: rapid.SampledFrom([]string{"", "pv"}).Draw(t, "bound")}}
			slot.Volume = volumeOn(slot.Name, rapid.SampledFrom([]string{"gone", "any", "node-0", "node-1", "node-gone"}).Draw(t, "volume"))
		}
		if rapid.Bool().Draw(t, "member") {
			s.View.Members = append(s.View.Members, &etcdserverpb.Member{ID: uint64(i) + 1, PeerURLs: []string{namesOf(r).PeerURL(slot.Name, ring.TLS)}})
		}
		s.Slots = append(s.Slots, slot)
	}
	if rapid.Bool().Draw(t, "unread") {
		s.View = nil
	}
	return s
}
