// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

func namesOf(r *v1alpha1.EtcdRing) kube.Names {
	return kube.Names{Namespace: r.Namespace, Ring: r.Name}
}

// owned is the head of an object of the ring: it goes when the ring goes.
func owned(r *v1alpha1.EtcdRing, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.Namespace, Name: name, Labels: namesOf(r).Labels(kube.MemberPart),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, v1alpha1.GroupVersion.WithKind("EtcdRing"))}}
}

// wanted are the objects of a ring beside its Secrets, as they are first made: the set
// last, as its pods need the others.
func (s Seen) wanted() []client.Object {
	all := append(account(s.Ring), headless(s.Ring), clients(s.Ring), budget(s.Ring))
	if !s.madeWith() {
		return all
	}
	return append(all, s.set(s.version()))
}

// account is who the pods are in the API: they may read their EtcdRing and the records
// that say which ring it is, by name.
func account(r *v1alpha1.EtcdRing) []client.Object {
	name := namesOf(r).Set()
	records := kube.Records{Namespace: r.Namespace, Ring: r.Name}
	read := []string{"get"}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: owned(r, name)},
		&rbacv1.Role{ObjectMeta: owned(r, name), Rules: []rbacv1.PolicyRule{
			{Verbs: read, APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"etcdrings"}, ResourceNames: []string{r.Name}},
			{Verbs: read, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{
				records.NameOf(store.MarkerKey),
				records.NameOf(store.Log[store.Identity]{Prefix: kube.IdentityPrefix}.FirstKey()),
				records.NameOf(store.Log[store.Formed]{Prefix: kube.FormedPrefix}.FirstKey()),
			}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: owned(r, name),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.Namespace, Name: name}}},
	}
}

// headless gives each pod its DNS name, ready or not: members find each other by it
// before any of them serves.
func headless(r *v1alpha1.EtcdRing) *corev1.Service {
	n := namesOf(r)
	return &corev1.Service{ObjectMeta: owned(r, n.Set()), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: n.Labels(kube.MemberPart),
		Ports: []corev1.ServicePort{port("client", kube.ClientPort), port("peer", kube.PeerPort)}}}
}

func clients(r *v1alpha1.EtcdRing) *corev1.Service {
	n := namesOf(r)
	return &corev1.Service{ObjectMeta: owned(r, n.Client()), Spec: corev1.ServiceSpec{
		Selector: n.Labels(kube.MemberPart), Ports: []corev1.ServicePort{port("client", kube.ClientPort)}}}
}

func port(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP}
}

// budget lets pods be evicted while a quorum of ready ones stays.
func budget(r *v1alpha1.EtcdRing) *policyv1.PodDisruptionBudget {
	n := namesOf(r)
	return &policyv1.PodDisruptionBudget{ObjectMeta: owned(r, n.Set()), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt(ring.Quorum(int(r.Spec.ClusterSize)))),
		Selector:     &metav1.LabelSelector{MatchLabels: n.Labels(kube.MemberPart)}}}
}

// set keeps the pods, and decides nothing: it replaces no pod for a new template
// (OnDelete), waits for none (Parallel), and deletes no claim.
func (s Seen) set(version ring.Version) *appsv1.StatefulSet {
	r, n, pod := s.Ring, namesOf(s.Ring), s.template(version)
	made := &appsv1.StatefulSet{ObjectMeta: owned(r, n.Set()), Spec: appsv1.StatefulSetSpec{
		Replicas:             ptr.To(s.replicas()),
		ServiceName:          n.Set(),
		Selector:             &metav1.LabelSelector{MatchLabels: n.Labels(kube.MemberPart)},
		PodManagementPolicy:  appsv1.ParallelPodManagement,
		UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		Template:             pod,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim(r)},
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType},
	}}
	made.Annotations = map[string]string{kube.TemplateAnnotation: digest(pod), kube.VersionAnnotation: string(version),
		kube.SlotsAnnotation: strconv.Itoa(int(*made.Spec.Replicas))}
	if from := s.from(); from != "" {
		made.Annotations[kube.FromAnnotation] = string(from)
	}
	return made
}

// former is a set with pods as they were when it was there last, or, where nobody here has seen
// it, as they are if nothing is asked for of their nodes: what is asked for now no pod can have. A
// bootstrapped ring runs on without it, and not at all without a set: an edit that was none stood for a
// week, somebody deleted the set, and there were no pods until that edit was found.
func (s Seen) former() *appsv1.StatefulSet {
	plain := s
	plain.Ring = s.Ring.DeepCopy()
	plain.Ring.Spec.Resources, plain.Ring.Spec.Scheduling = v1alpha1.Resources{}, v1alpha1.Scheduling{}
	set := plain.set(s.version())
	if s.Last != nil {
		s.Last.Spec.Template.DeepCopyInto(&set.Spec.Template)
		set.Annotations[kube.TemplateAnnotation] = s.Last.Annotations[kube.TemplateAnnotation]
	}
	return set
}

func digest(of any) string {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // a type of the API always has its JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func claim(r *v1alpha1.EtcdRing) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: kube.DiskVolume, Labels: namesOf(r).Labels(kube.MemberPart)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: r.Spec.Storage.StorageClassName,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: r.Spec.Storage.Size}},
		}}
}

// nobody is the user and the group that pods run as: any but root will do.
const nobody = 65532

func nobodys() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](nobody), RunAsGroup: ptr.To[int64](nobody),
		FSGroup: ptr.To[int64](nobody), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
}

func (s Seen) template(version ring.Version) corev1.PodTemplateSpec {
	r, n := s.Ring, namesOf(s.Ring)
	pod := corev1.PodSpec{
		ServiceAccountName:            n.Set(),
		TerminationGracePeriodSeconds: ptr.To[int64](30),
		SecurityContext:               nobodys(),
		InitContainers:                []corev1.Container{initContainer(s.Image)},
		Containers:                    []corev1.Container{memberContainer(r, version)},
		Volumes:                       volumes(n),
		NodeSelector:                  r.Spec.Scheduling.NodeSelector,
		Tolerations:                   slices.Concat(r.Spec.Scheduling.Tolerations, stays()),
		PriorityClassName:             r.Spec.Scheduling.PriorityClassName,
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: n.Labels(kube.MemberPart)}, TopologyKey: corev1.LabelHostname}}}},
	}
	if s.withoutLauncher() {
		pod.InitContainers, pod.Containers = nil, []corev1.Container{staticContainer(r, *s.Identity, version)}
	}
	if key := r.Spec.Scheduling.TopologyKey; cmp.Or(key, corev1.LabelHostname) != corev1.LabelHostname {
		pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: n.Labels(kube.MemberPart)}}}
	}
	notes := map[string]string{kube.AskedAnnotation: askedOf(r), kube.ImagesAnnotation: imagesOf(pod)}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels(kube.MemberPart), Annotations: notes}, Spec: pod}
}

// stays has no pod deleted because the control plane hasn't heard of its node for five minutes
// (taint-based eviction): its member may serve all the while, and when the node is heard of
// again, and others that were away with it, all their pods would end at once. Which member is
// to be replaced the ring decides, one at a time.
func stays() (all []corev1.Toleration) {
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		all = append(all, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
	return all
}

// initContainer runs the entrypoint of ringadm's image.
func initContainer(image string) corev1.Container {
	return corev1.Container{Name: kube.InitContainer, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{"launch", "init", "--pod=$(POD_NAME)"}, Env: podEnv(), SecurityContext: confined(),
		VolumeMounts: []corev1.VolumeMount{{Name: kube.DiskVolume, MountPath: kube.DiskPath}, {Name: kube.RunVolume, MountPath: kube.RunPath}, {Name: kube.ToolVolume, MountPath: kube.ToolPath}}}
}

func memberContainer(r *v1alpha1.EtcdRing, version ring.Version) corev1.Container {
	return corev1.Container{Name: kube.MemberContainer, Image: r.Spec.Image + ":" + string(version), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{kube.Tool, "launch", "--ring=" + r.Name, "--namespace=$(POD_NAMESPACE)", "--pod=$(POD_NAME)", "--address=$(POD_IP)", releaseFlag + string(version)},
		Env:     slices.Concat(podEnv(), []corev1.EnvVar{field("POD_IP", "status.podIP")}, toolEnv(r)), SecurityContext: confined(), Resources: r.Spec.Resources.Requirements(),
		Ports:          []corev1.ContainerPort{{Name: "client", ContainerPort: kube.ClientPort}, {Name: "peer", ContainerPort: kube.PeerPort}},
		StartupProbe:   probe("start", 2, 150),
		LivenessProbe:  probe("live", 20, 3),
		ReadinessProbe: probe("ready", 3, 2),
		VolumeMounts: []corev1.VolumeMount{{Name: kube.DiskVolume, MountPath: kube.DiskPath}, {Name: kube.RunVolume, MountPath: kube.RunPath},
			{Name: kube.ToolVolume, MountPath: kube.ToolPath, ReadOnly: true}, {Name: kube.CertificatesVolume, MountPath: kube.CertificatesPath, ReadOnly: true}}}
}

func probe(what string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 5,
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{kube.Tool, "probe", what}}}}
}

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func podEnv() []corev1.EnvVar {
	return []corev1.EnvVar{field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")}
}

// toolEnv has etcdctl, and ringadm by hand, reach the pod's member with what is mounted.
func toolEnv(r *v1alpha1.EtcdRing) []corev1.EnvVar {
	own := kube.CertificatesPath + "/$(POD_NAME)/"
	return []corev1.EnvVar{
		{Name: "ETCDCTL_ENDPOINTS", Value: namesOf(r).ClientURL("$(POD_NAME)")},
		{Name: "ETCDCTL_CACERT", Value: own + launcher.ClientsCA}, {Name: "ETCDCTL_CERT", Value: own + "client.crt"}, {Name: "ETCDCTL_KEY", Value: own + "client.key"},
	}
}

func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}

// volumes hold the certificates of all slots that a ring may have: a set has one
// template, and a template can't name a Secret by the pod. None is waited for, so that a
// slot's may come later.
func volumes(n kube.Names) []corev1.Volume {
	certificates := &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o440)}
	for i := range kube.MostSlots {
		secret := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: n.Certificates(i)}, Optional: ptr.To(true)}
		for _, file := range certificateFiles {
			secret.Items = append(secret.Items, corev1.KeyToPath{Key: file, Path: fmt.Sprintf("%s/%s", n.Slot(i), file)})
		}
		certificates.Sources = append(certificates.Sources, corev1.VolumeProjection{Secret: secret})
	}
	return []corev1.Volume{
		{Name: kube.RunVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: kube.ToolVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: kube.CertificatesVolume, VolumeSource: corev1.VolumeSource{Projected: certificates}},
	}
}
