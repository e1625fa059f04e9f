// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ringproof/ringproof/reference/ring"
)

// The parts of a ring.
const (
	MemberPart = "member"        // its pods, their claims and the set
	CheckPart  = "release-check" // pods that try on a node whether it runs a release of etcd
)

// Labels select a part of a ring.
func (n Names) Labels(part string) map[string]string {
	return map[string]string{RingLabel: n.Ring, partLabel: part}
}

// PartOf is which part of a ring an object with these labels is; "": none.
func PartOf(labels map[string]string) string { return labels[partLabel] }

// Annotations of the controller's.
const (
	// TemplateAnnotation is on the StatefulSet: a digest of the template that was asked
	// for last. What the API server made of it says nothing, as it adds its defaults.
	TemplateAnnotation = "etcd.ringproof.dev/template"
	// VersionAnnotation is on the StatefulSet: the release that pods are made with from now
	// on.
	VersionAnnotation = "etcd.ringproof.dev/version"
	// FromAnnotation is on the StatefulSet: the release that pods were made with before an
	// upgrade. It is VersionAnnotation's if the upgrade was taken back.
	FromAnnotation = "etcd.ringproof.dev/upgraded-from"
	// AskedAnnotation is on a pod: a digest of that in the spec which it was made with, and is
	// restarted for when it is edited.
	AskedAnnotation = "etcd.ringproof.dev/asked"
	// ImagesAnnotation is on a pod: which images it was to have, the tag of etcd's left out. An
	// admission webhook may have given it others.
	ImagesAnnotation = "etcd.ringproof.dev/images"
	// NudgedAnnotation is on the StatefulSet: when it was last changed so that its
	// controller looks again, as RFC 3339.
	NudgedAnnotation = "etcd.ringproof.dev/nudged"
	// SlotsAnnotation is on the StatefulSet: how many pods the controller has had it keep,
	// whatever somebody has scaled it to since.
	SlotsAnnotation = "etcd.ringproof.dev/slots"
	// FoundedAnnotation is on the StatefulSet: the token of the ring that was bootstrapped on
	// its pods. Without the bootstrap record beside it the record was deleted, and no
	// other ring is bootstrapped.
	BootstrappedAnnotation = "etcd.ringproof.dev/founded"
)

// Where things are in a pod, and how its containers and volumes are called.
const (
	InitContainer   = "init"
	MemberContainer = "etcd"

	DiskVolume = "data" // of claims too: "data-RING-0"
	DiskPath   = "/var/lib/ringadm"

	ToolVolume = "tool"
	ToolPath   = "/opt/ringadm"
	Tool       = ToolPath + "/ringadm"

	RunVolume = "run"
	RunPath   = "/run/ringadm"

	CertificatesVolume = "pki"
	CertificatesPath   = "/etc/ringadm/pki" // of slot RING-0: in RING-0 below it

	Etcd               = "/usr/local/bin/etcd" // in etcd's own image
	TerminationMessage = "/dev/termination-log"
)

// Ports of a member. Peers that spoke plain text first take TLS at ring.EncryptedPort.
const (
	ClientPort = 2379
	PeerPort   = ring.PeerPort
	HealthPort = 2378 // etcd's health, without TLS; on the pod's loopback only, where a launcher runs
)

// MostSlots is how many members a ring has at most. A pod mounts the certificates of
// that many, as all pods of a set have one template.
const MostSlots = 9

// Names are how the objects of one ring are called. A slot is what a member runs in, a
// machine to the ring: a pod's name, its DNS name and a claim. It outlives its pods.
type Names struct{ Namespace, Ring string }

// longestRing is how long a ring's name may be: of its pods' and its pods' checks' names, which no
// label may have more than 63 letters of, it is the beginning.
const longestRing = 40

// clientSuffix is what the Service that clients reach a ring by is called after the ring.
const clientSuffix = "-client"

// Refused is why no ring may be called so: its objects couldn't be; "": one may. The rules of the CRD
// say the same.
func (n Names) Refused() string {
	switch {
	case len(n.Ring) > longestRing:
		return fmt.Sprintf("%d characters at most: names of pods and claims begin with it", longestRing)
	case strings.HasSuffix(n.Ring, clientSuffix):
		return fmt.Sprintf("may not end with %s, as the Service of another ring's clients does", clientSuffix)
	case len(validation.IsDNS1035Label(n.Ring)) > 0:
		return "a letter first, then letters, digits and '-': its Services and pods are called so"
	}
	return ""
}

// Set is the StatefulSet, the headless Service of the pods' DNS names, the account that
// the pods run as, and its role.
func (n Names) Set() string { return n.Ring }

// Client is the Service that clients reach any member by.
func (n Names) Client() string { return n.Ring + clientSuffix }

// Slot is the pod of an ordinal, and the machine that the ring knows.
func (n Names) Slot(ordinal int) string { return n.Ring + "-" + strconv.Itoa(ordinal) }

// Ordinal is which slot has a name; ok: one has.
func (n Names) Ordinal(slot string) (ordinal int, ok bool) {
	digits, ok := strings.CutPrefix(slot, n.Ring+"-")
	ordinal, err := strconv.Atoi(digits)
	return ordinal, ok && err == nil && ordinal >= 0 && n.Slot(ordinal) == slot
}

// Claim is the claim of a slot.
func (n Names) Claim(ordinal int) string { return DiskVolume + "-" + n.Slot(ordinal) }

// Certificates is the Secret of a slot's certificates.
func (n Names) Certificates(ordinal int) string { return n.Slot(ordinal) + "-tls" }

// ClientCertificates is the Secret of who uses the ring: a client's certificate, and whom to trust.
func (n Names) ClientCertificates() string { return n.Client() + "-tls" }

// Check is the pod that tries a release on the node of a slot.
func (n Names) Check(slot string) string { return slot + "-release-check" }

// Address is the DNS name of a slot, which it keeps for good.
func (n Names) Address(slot string) string {
	return fmt.Sprintf("%s.%s.%s.svc", slot, n.Set(), n.Namespace)
}

// ClientAddresses are the DNS names that clients reach any member by.
func (n Names) ClientAddresses() []string {
	service := n.Client()
	return []string{service, service + "." + n.Namespace, service + "." + n.Namespace + ".svc", service + "." + n.Namespace + ".svc.cluster.local"}
}

// PeerURL is where peers reach a slot of a ring whose peers began to speak so.
func (n Names) PeerURL(slot string, began ring.Security) string {
	return began.URL(n.Address(slot), PeerPort)
}

// ClientURL is where clients reach the member of a slot.
func (n Names) ClientURL(slot string) string { return ring.TLS.URL(n.Address(slot), ClientPort) }
