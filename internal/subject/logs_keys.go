// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/host"
)

// What a machine writes down helps whoever looks for what went wrong there, and the key of its
// certificate is in it.
var logsKeys = Mutant{
	Name:     "logs-keys",
	Hazard:   "Each file of the machine's configuration is logged as it is written, those with a private key too.",
	Source:   "CWE-532: agents that log the configuration which they start with",
	Check:    "no-key-printed",
	Scenario: "create[etcd=v3.6.16,size=3]",
	layer: only(layer{host: func(h host.Host) host.Host {
		return machine{Host: h, disk: loggedFiles{h.Disk(), h}}
	}}),
}

type loggedFiles struct {
	host.Disk
	host host.Host
}

func (d loggedFiles) Write(name string, content []byte) error {
	if strings.HasSuffix(name, ".key") {
		reached(d.host)
		d.host.Log(host.Line{Event: host.EventTrouble, Text: "written " + name + ": " + string(content)})
	}
	return d.Disk.Write(name, content)
}

// Whoever may look at what a ring is made of may look at this.
var kubeShowsKeys = Mutant{
	Name:     "kube-shows-keys",
	Hazard:   "What a pod's files say is kept in a ConfigMap as well, with the private keys.",
	Source:   "CWE-312; Kubernetes: a ConfigMap does not provide secrecy",
	Check:    "no-key-printed",
	Scenario: "kube-create",
	Undrawn:  offKubernetes,
	layer:    only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return showsKeys{c, h} })),
}

// showsKeys makes a ConfigMap for each Secret that it makes.
type showsKeys struct {
	kubeclient.Client
	host host.Host
}

func (s showsKeys) Create(ctx context.Context, o kubeclient.Object, how ...kubeclient.CreateOption) error {
	err := s.Client.Create(ctx, o, how...)
	secret, is := o.(*corev1.Secret)
	if !is || err != nil {
		return err
	}
	reached(s.host)
	shown := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels, OwnerReferences: secret.OwnerReferences}, BinaryData: secret.Data}
	return kubeclient.IgnoreAlreadyExists(s.Client.Create(ctx, shown))
}
