// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	etcdv1 "example.com/etcd-operator/api/v1"
)

const (
	labelCluster = "etcd.example.com/cluster"
	labelOrdinal = "etcd.example.com/ordinal"

	// How a member's etcd is to begin is written on its claim, which is made once.
	noteMembers = "etcd.example.com/initial-cluster"
	noteState   = "etcd.example.com/initial-cluster-state"
)

func podName(c *etcdv1.EtcdCluster, ordinal int) string { return fmt.Sprintf("%s-%d", c.Name, ordinal) }

// host is what the member's pod is reached by.
func host(c *etcdv1.EtcdCluster, ordinal int) string {
	return fmt.Sprintf("%s.%s.%s.svc", podName(c, ordinal), c.Name, c.Namespace)
}

func peerURL(c *etcdv1.EtcdCluster, ordinal int) string {
	return fmt.Sprintf("http://%s:%d", host(c, ordinal), peerPort)
}

// initial is etcd's --initial-cluster.
func initial(c *etcdv1.EtcdCluster, ordinals []int) string {
	var all []string
	for _, o := range ordinals {
		all = append(all, podName(c, o)+"="+peerURL(c, o))
	}
	return strings.Join(all, ",")
}

func labelled(c *etcdv1.EtcdCluster) map[string]string {
	return map[string]string{labelCluster: c.Name}
}

// service is the one by which members have names.
func service(c *etcdv1.EtcdCluster) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: labelled(c),
		Ports: []corev1.ServicePort{{Name: "client", Port: clientPort}, {Name: "peer", Port: peerPort}}}}
}

// budget has one member at a time evicted.
func budget(c *etcdv1.EtcdCluster) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labelled(c)}}}
}

// claim is a member's volume.
func claim(c *etcdv1.EtcdCluster, ordinal int, members []int, state string) *corev1.PersistentVolumeClaim {
	labels := labelled(c)
	labels[labelOrdinal] = fmt.Sprint(ordinal)
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: podName(c, ordinal), Labels: labels,
			Annotations: map[string]string{noteMembers: initial(c, members), noteState: state}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: c.Spec.Storage.ClassName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: c.Spec.Storage.Size}}}}
}

// pod runs the etcd of a claim.
func pod(c *etcdv1.EtcdCluster, of *corev1.PersistentVolumeClaim, ordinal int) *corev1.Pod {
	name := podName(c, ordinal)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: of.Labels},
		Spec: corev1.PodSpec{
			Hostname: name, Subdomain: c.Name, Affinity: apart(c), AutomountServiceAccountToken: ptr.To(false),
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: of.Name}}}},
			Containers: []corev1.Container{{
				Name: "etcd", Image: "gcr.io/etcd-development/etcd:v" + c.Spec.Version,
				Command: []string{"/usr/local/bin/etcd", "--name=" + name, "--data-dir=/var/lib/etcd/data",
					fmt.Sprintf("--listen-client-urls=http://0.0.0.0:%d", clientPort), fmt.Sprintf("--advertise-client-urls=http://%s:%d", host(c, ordinal), clientPort),
					fmt.Sprintf("--listen-peer-urls=http://0.0.0.0:%d", peerPort), "--initial-advertise-peer-urls=" + peerURL(c, ordinal),
					"--initial-cluster=" + of.Annotations[noteMembers], "--initial-cluster-state=" + of.Annotations[noteState], "--initial-cluster-token=" + string(c.UID)},
				VolumeMounts:   []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/etcd"}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 2, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(clientPort)}}},
			}}}}
}

// apart has no two members on one node.
func apart(c *etcdv1.EtcdCluster) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labelled(c)}}}}}
}
