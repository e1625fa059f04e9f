// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// A static ring has no launchers: etcd itself is the first process of its pods, by flags
// that are the same for good, and peers speak plain text. Its members are neither added
// nor removed, nor written down anywhere; whoever loses a volume of it starts again under
// its old ID, and nothing here can help that. It can be given launchers, by an edit of
// its EtcdRing: the template changes, once the ring is read with a quorum; pods are made
// anew one at a time while all members serve (ring.Next, adopt); each launcher tells
// whose log is on its disk, and by that the member gets its record. From then on the ring
// is as any other, and its peers are moved to TLS.

const staticSize = 3 // members of a ring without launchers

// static reports whether the ring has no launchers and is asked for none.
func (s Seen) static() bool { return !launched(s.Ring) && !s.made().Launchers }

// withoutLauncher reports whether pods are made without one: those of a static ring, and,
// where launchers are asked for, as long as the list can't be read. Nobody begins with a
// ring of which that is not known that it serves, nor with pods that may be none.
func (s Seen) withoutLauncher() bool {
	switch {
	case s.Set == nil: // initial members without launchers have no disks that these would know
		return s.static() || s.Identity != nil && !s.made().Launchers
	case hasLauncher(s.Set.Spec.Template.Spec):
		return s.static()
	}
	return !launched(s.Ring) || s.View == nil || s.unmade()
}

// madeWith reports whether it is known what pods are made with: the flags of those without
// launchers are made of the bootstrap record.
func (s Seen) madeWith() bool { return !s.withoutLauncher() || s.Identity != nil }

// adopting reports whether a member has no launcher yet, though the ring is to have them.
func (s Seen) adopting() bool {
	return s.Set != nil && !s.static() && (s.withoutLauncher() || slices.ContainsFunc(s.Slots, Slot.static))
}

// static reports whether the slot's pod has no launcher.
func (s Slot) static() bool { return s.Pod != nil && begins(s.Pod.Spec, kube.Etcd) }

func hasLauncher(p corev1.PodSpec) bool { return begins(p, kube.Tool) }

// begins reports whether the member's container begins with a program.
func begins(p corev1.PodSpec, program string) bool {
	return slices.ContainsFunc(p.Containers, func(c corev1.Container) bool {
		return c.Name == kube.MemberContainer && len(c.Command) > 0 && c.Command[0] == program
	})
}

// foundStatic makes the record of a ring without launchers, before its pods are made: it
// says what their flags are.
func (x *automation) foundStatic(ctx context.Context, s Seen) outcome {
	if s.bootstrapped() {
		_, _, halt := initialMembers(s)
		return outcome{halt: halt}
	}
	n, identity := namesOf(s.Ring), store.Identity{Token: "ring-" + x.host.Nonce(), Epoch: 1, Static: true}
	for i := range staticSize {
		name := n.Slot(i)
		identity.Members = append(identity.Members, store.InitialMember{Name: name, Machine: name, PeerURL: n.PeerURL(name, ring.Plain), ClientURL: n.ClientURL(name)})
	}
	return x.record(ctx, identity)
}

// watch looks at a ring without launchers, and changes nothing in it.
func (x *automation) watch(ctx context.Context, s Seen) outcome {
	x.reconciler.Read()
	if err := x.noteFormed(ctx, s.View.ClusterID); err != nil {
		return outcome{trouble: err, wait: unnoted}
	}
	x.observed = x.ground.tell(x.watched.Observe(ctx, x.ring, *s.View))
	o := outcome{wait: ring.Steady, observed: x.observed}
	for _, m := range x.observed.Voters() {
		if !m.Serving {
			o.wait = fmt.Sprintf("voter %s does not answer, and a ring without the launcher can't replace it", m)
		}
	}
	x.log.Say(host.EventWaiting, o.wait)
	return o
}

// staticContainer runs etcd by flags that say all that there is to say, as nobody else
// will. Its health is told in plain text to the whole network, for the kubelet.
func staticContainer(r *v1alpha1.EtcdRing, identity store.Identity, version ring.Version) corev1.Container {
	n, pod := namesOf(r), "$(POD_NAME)"
	var initialMembers []string
	for _, f := range identity.Members {
		initialMembers = append(initialMembers, f.Name+"="+f.PeerURL)
	}
	c := launcher.Command{Binary: kube.Etcd, Version: version, Name: pod, DataDir: kube.DiskPath + "/" + launcher.DataDir,
		PeerURLs: []string{n.PeerURL(pod, ring.Plain)}, ClientURL: n.ClientURL(pod), PKI: kube.CertificatesPath + "/" + pod, Alone: true,
		Flags: []string{fmt.Sprintf("listen-metrics-urls=http://0.0.0.0:%d", kube.HealthPort)},
		Boot:  launcher.Boot{Do: launcher.Start, State: launcher.New, Cluster: initialMembers, Token: identity.Token}}
	return corev1.Container{Name: kube.MemberContainer, Image: r.Spec.Image + ":" + string(version), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: c.Args(), Env: append(podEnv(), toolEnv(r)...), SecurityContext: confined(), Resources: r.Spec.Resources.Requirements(),
		Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: kube.ClientPort}, {Name: "peer", ContainerPort: kube.PeerPort}},
		// Without a quorum nobody serves: who ended them for it would take away what is left.
		LivenessProbe:  health("/health?exclude=NOSPACE&serializable=true", 20, 5),
		ReadinessProbe: health("/health?exclude=NOSPACE&serializable=true", 3, 2),
		VolumeMounts: []corev1.VolumeMount{{Name: kube.DiskVolume, MountPath: kube.DiskPath}, {Name: kube.RunVolume, MountPath: kube.RunPath},
			{Name: kube.CertificatesVolume, MountPath: kube.CertificatesPath, ReadOnly: true}}}
}

func health(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 5,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(kube.HealthPort)}}}
}
