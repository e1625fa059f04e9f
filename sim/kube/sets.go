// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Set is what the StatefulSet controller sees of one set.
type Set struct {
	Object    *appsv1.StatefulSet // with the server's defaults
	Pods      []*corev1.Pod       // that it controls, in any order
	Claims    map[string]*corev1.PersistentVolumeClaim
	Revisions []*appsv1.ControllerRevision
	Now       time.Time
}

// Verb is what is done to an object.
type Verb string

// What the controller does to pods, claims and revisions.
const (
	Create  Verb = "create"
	Replace Verb = "update"
	Remove  Verb = "delete"
)

// Write is one request to the API server.
type Write struct {
	Verb   Verb
	Object Object
}

// String is the write as kubectl would say it: "create pod etcd-0".
func (w Write) String() string { return fmt.Sprintf("%s %s", w.Verb, w.Object.GetName()) }

// Step is what the controller does after one look at a set. The writes are sent in
// this order, until one is refused.
type Step struct {
	Writes []Write
	Status *appsv1.StatefulSetStatus // nil if it stays as it is
	Err    error                     // why it can't go on: it tries again, later each time
}

// Step is one sync of the StatefulSet controller of Kubernetes 1.36, in which pods
// of a Parallel set are handled in the order of their ordinals. Claims are retained:
// a set that asks for another policy is refused.
func (s Set) Step() Step {
	if policy := s.Object.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil &&
		(policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType || policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType) {
		return Step{Err: errors.New("a StatefulSet whose claims are deleted with it isn't modelled")}
	}
	y := &setSync{Set: s, ordered: s.Object.Spec.PodManagementPolicy != appsv1.ParallelPodManagement}
	y.findRevisions()
	y.sort()
	status := y.count(s.Pods)
	if s.Object.DeletionTimestamp == nil {
		y.step.Err = y.converge()
		status = y.count(append(slices.Clone(y.replicas), y.condemned...))
		status.CurrentReplicas -= y.rolled
	}
	y.conclude(status)
	y.forgetRevisions()
	return y.step
}

// setSync is a step in the making.
type setSync struct {
	Set
	ordered         bool // one pod after the other, each when those before it are ready
	current, update *appsv1.ControllerRevision
	replicas        []*corev1.Pod // by ordinal; one that isn't there yet has no phase
	condemned       []*corev1.Pod // outside the ordinals, the highest first
	rolled          int32         // pods deleted for an update
	step            Step
}

func (y *setSync) write(verb Verb, o Object) { y.step.Writes = append(y.step.Writes, Write{verb, o}) }

func (y *setSync) first() int {
	if ordinals := y.Object.Spec.Ordinals; ordinals != nil {
		return int(ordinals.Start)
	}
	return 0
}

func (y *setSync) wanted() int { return int(*y.Object.Spec.Replicas) }

// ordinal is the number at the end of a pod's name, or -1.
func ordinal(pod *corev1.Pod) int {
	at := strings.LastIndexByte(pod.Name, '-')
	n, err := strconv.ParseInt(pod.Name[at+1:], 10, 32)
	if at < 0 || err != nil || pod.Name[at+1] < '0' {
		return -1
	}
	return int(n)
}

// sort tells the pods that are to be from those that are to go, and makes those
// that are missing.
func (y *setSync) sort() {
	y.replicas = make([]*corev1.Pod, y.wanted())
	for _, pod := range y.Pods {
		switch at := ordinal(pod) - y.first(); {
		case ordinal(pod) < 0:
		case at >= 0 && at < len(y.replicas):
			y.replicas[at] = pod
		default:
			y.condemned = append(y.condemned, pod)
		}
	}
	for at, pod := range y.replicas {
		if pod == nil {
			y.replicas[at] = y.newPod(y.first() + at)
		}
	}
	slices.SortStableFunc(y.condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinal(b), ordinal(a)) })
}

// errWait says that nothing more is done before something comes about by itself.
var errWait = errors.New("wait")

// converge brings the pods nearer to what is asked for.
func (y *setSync) converge() error {
	err := y.each(y.replicas, y.keep)
	if err == nil {
		err = y.each(y.condemned, y.condemn)
	}
	switch {
	case errors.Is(err, errWait):
		return nil
	case err != nil:
		return err
	}
	y.roll()
	return nil
}

// each does something to pods one by one until it has to wait, or, of a Parallel
// set, to ever more at once: 1, 2, 4, …; an error ends it after those at once.
func (y *setSync) each(pods []*corev1.Pod, do func(*corev1.Pod) error) error {
	if y.ordered {
		for _, pod := range pods {
			if err := do(pod); err != nil {
				return err
			}
		}
		return nil
	}
	for batch := 1; len(pods) > 0; batch *= 2 {
		now := pods[:min(batch, len(pods))]
		pods = pods[len(now):]
		var failed []error
		for _, pod := range now {
			if err := do(pod); err != nil && !errors.Is(err, errWait) {
				failed = append(failed, err)
			}
		}
		if len(failed) > 0 {
			return errors.Join(failed...)
		}
	}
	return nil
}

// keep makes one pod that is to be as it is to be.
func (y *setSync) keep(pod *corev1.Pod) error {
	if over(pod) { // another follows when it is gone
		if pod.DeletionTimestamp == nil {
			y.write(Remove, pod)
		}
		return errWait
	}
	if pod.Status.Phase == "" {
		if err := y.claim(pod); err != nil {
			return err
		}
		y.write(Create, pod)
		return y.whenOrdered(true)
	}
	if pod.Status.Phase == corev1.PodPending {
		if err := y.claim(pod); err != nil {
			return err
		}
	}
	if err := y.whenOrdered(pod.DeletionTimestamp != nil || !ready(pod) || !y.available(pod)); err != nil {
		return err
	}
	if pod.Labels[appsv1.StatefulSetPodNameLabel] != pod.Name {
		named := pod.DeepCopy()
		name(named, pod.Name, ordinal(pod))
		y.write(Replace, named)
	}
	return nil
}

// whenOrdered is errWait if the set is ordered and there is reason to wait.
func (y *setSync) whenOrdered(wait bool) error {
	if y.ordered && wait {
		return errWait
	}
	return nil
}

// claim makes the claims of a pod that aren't there. One that is being deleted
// keeps the pod from being made.
func (y *setSync) claim(pod *corev1.Pod) error {
	var failed []error
	for _, template := range y.Object.Spec.VolumeClaimTemplates {
		wanted := y.newClaim(&template, ordinal(pod))
		switch there := y.Claims[wanted.Name]; {
		case there == nil:
			y.write(Create, wanted)
		case there.DeletionTimestamp != nil:
			failed = append(failed, fmt.Errorf("pvc %s is being deleted", wanted.Name))
		}
	}
	return errors.Join(failed...)
}

// condemn deletes one pod that is to go. Of an ordered set, none goes while another
// is not available, unless it is the first of those.
func (y *setSync) condemn(pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return y.whenOrdered(true)
	}
	if err := y.whenOrdered((!ready(pod) || !y.available(pod)) && pod != y.firstUnavailable()); err != nil {
		return err
	}
	y.write(Remove, pod)
	return errWait
}

// firstUnavailable is the first pod that is to be and isn't available, or else the
// lowest of the condemned.
func (y *setSync) firstUnavailable() *corev1.Pod {
	for _, pod := range y.replicas {
		if y.unavailable(pod) {
			return pod
		}
	}
	for _, pod := range slices.Backward(y.condemned) {
		if y.unavailable(pod) {
			return pod
		}
	}
	return nil
}

// roll deletes the highest pod of another template than the newest, if all above it
// are available. (maxUnavailable is behind a gate that is off by default.)
func (y *setSync) roll() {
	strategy := y.Object.Spec.UpdateStrategy
	if strategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return
	}
	from := 0
	if rolling := strategy.RollingUpdate; rolling != nil {
		from = int(*rolling.Partition)
	}
	for at := len(y.replicas) - 1; at >= from; at-- {
		pod := y.replicas[at]
		switch {
		case revisionOf(pod) != y.update.Name && pod.DeletionTimestamp == nil:
			y.write(Remove, pod)
			y.rolled++
			return
		case y.unavailable(pod):
			return
		}
	}
}

// count is the status as far as it counts pods.
func (y *setSync) count(pods []*corev1.Pod) *appsv1.StatefulSetStatus {
	status := &appsv1.StatefulSetStatus{}
	for _, pod := range pods {
		created := pod.Status.Phase != ""
		ready := ready(pod)
		add(&status.Replicas, created)
		add(&status.ReadyReplicas, ready)
		add(&status.AvailableReplicas, ready && y.available(pod))
		lives := created && pod.DeletionTimestamp == nil
		add(&status.CurrentReplicas, lives && revisionOf(pod) == y.current.Name)
		add(&status.UpdatedReplicas, lives && revisionOf(pod) == y.update.Name)
	}
	return status
}

func add(to *int32, one bool) {
	if one {
		*to++
	}
}

// conclude completes the status, and writes it if it says anything new.
func (y *setSync) conclude(status *appsv1.StatefulSetStatus) {
	set, was := y.Object, y.Object.Status
	status.ObservedGeneration = set.Generation
	status.CurrentRevision, status.UpdateRevision = y.current.Name, y.update.Name
	status.CollisionCount = new(int32)
	if was.CollisionCount != nil {
		*status.CollisionCount = *was.CollisionCount
	}
	wanted := *set.Spec.Replicas
	if set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		status.UpdatedReplicas == wanted && status.ReadyReplicas == wanted && status.Replicas == wanted {
		status.CurrentReplicas, status.CurrentRevision = status.UpdatedReplicas, status.UpdateRevision
	}
	if counts(status) != counts(&was) || status.ObservedGeneration > was.ObservedGeneration {
		y.step.Status = status
	}
}

// counts is what of a status is compared.
func counts(s *appsv1.StatefulSetStatus) any {
	return [...]any{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas, s.CurrentRevision, s.UpdateRevision}
}

// over reports whether a pod has ended for good.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }

func readiness(pod *corev1.Pod) *corev1.PodCondition {
	for n, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return &pod.Status.Conditions[n]
		}
	}
	return nil
}

// ready reports whether a pod runs and is ready.
func ready(pod *corev1.Pod) bool {
	c := readiness(pod)
	return pod.Status.Phase == corev1.PodRunning && c != nil && c.Status == corev1.ConditionTrue
}

// available reports whether a pod has said that it is ready for as long as is asked,
// in whatever phase it is.
func (y *setSync) available(pod *corev1.Pod) bool {
	c := readiness(pod)
	if c == nil || c.Status != corev1.ConditionTrue {
		return false
	}
	least, since := time.Duration(y.Object.Spec.MinReadySeconds)*time.Second, c.LastTransitionTime
	return least == 0 || !since.IsZero() && !since.Add(least).After(y.Now)
}

func (y *setSync) unavailable(pod *corev1.Pod) bool {
	return !y.available(pod) || pod.DeletionTimestamp != nil
}

// newClaim is a claim as the set makes it.
func (y *setSync) newClaim(template *corev1.PersistentVolumeClaim, n int) *corev1.PersistentVolumeClaim {
	claim := template.DeepCopy()
	claim.Namespace, claim.Name = y.Object.Namespace, fmt.Sprintf("%s-%s-%d", template.Name, y.Object.Name, n)
	claim.Labels = labelled(claim.Labels, y.Object.Spec.Selector.MatchLabels)
	return claim
}

func labelled(labels, more map[string]string) map[string]string {
	all := map[string]string{}
	for _, from := range []map[string]string{labels, more} {
		for key, value := range from { // order: keys of one don't overwrite each other
			all[key] = value
		}
	}
	return all
}

// newPod is a pod as the set makes it: of the template that is to be at its ordinal.
func (y *setSync) newPod(n int) *corev1.Pod {
	of := y.update
	if y.keepsCurrent(n) {
		of = y.current
	}
	template := templateOf(of)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: y.Object.Namespace, GenerateName: y.Object.Name + "-",
			Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(y.Object, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: template.Spec,
	}
	name(pod, fmt.Sprintf("%s-%d", y.Object.Name, n), n)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = of.Name
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, y.Object.Spec.ServiceName
	y.mount(pod, n)
	return pod
}

// keepsCurrent reports whether a rolling update hasn't come to an ordinal yet.
func (y *setSync) keepsCurrent(n int) bool {
	strategy := y.Object.Spec.UpdateStrategy
	switch {
	case strategy.RollingUpdate != nil:
		return n < y.first()+int(*strategy.RollingUpdate.Partition)
	case strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType:
		return n < y.first()+int(y.Object.Status.CurrentReplicas)
	}
	return false
}

// name gives a pod its name, and the labels that say it.
func name(pod *corev1.Pod, name string, n int) {
	pod.Name = name
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(n)
}

// mount puts the pod's claims in the place of the volumes of their names.
func (y *setSync) mount(pod *corev1.Pod, n int) {
	var volumes []corev1.Volume
	claimed := map[string]bool{}
	for _, template := range y.Object.Spec.VolumeClaimTemplates {
		claimed[template.Name] = true
		volumes = append(volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: y.newClaim(&template, n).Name}}})
	}
	for _, v := range pod.Spec.Volumes {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	pod.Spec.Volumes = volumes
}
