// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/scenarios"
)

// ours is the operator that is an example.
func ours(t *testing.T) *scenarios.Subject {
	t.Helper()
	s, found, err := Read("../../examples/etcd-operator/subject.yaml")
	require.NoError(t, err)
	require.NotNil(t, s, "%s", found)
	return s
}

func kinds(all []*unstructured.Unstructured) (names []string) {
	for _, o := range all {
		names = append(names, o.GetKind())
	}
	return names
}

// An operator is deployed by its own manifests: what others need comes first, its
// container runs what was built, and all else of its Deployment stays.
func TestDeployed(t *testing.T) {
	o := *ours(t).Spec.Operator
	o.Env = map[string]string{"B": "2", "A": "1"}
	all, d, err := deployed(o)
	require.NoError(t, err)
	assert.Equal(t, []string{"CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"}, kinds(all), "as its kustomizations list them")
	assert.Equal(t, int32(2), *d.Spec.Replicas)
	c := d.Spec.Template.Spec.Containers[0]
	assert.Equal(t, operatorImage, c.Image)
	assert.Equal(t, []string{"/manager"}, c.Command)
	assert.Equal(t, []string{"--leader-elect", "--health-probe-bind-address=:8081"}, c.Args, "the Deployment's own")
	assert.Equal(t, []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}, c.Env)
	assert.NotNil(t, c.ReadinessProbe)
	image, _, err := unstructured.NestedSlice(all[len(all)-1].Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	assert.Equal(t, operatorImage, image[0].(map[string]any)["image"], "what is created is what was adapted")
}

// A directory that is a kustomization is built: its objects have the namespace and the names that
// it gives them, and what is in two of them is there once.
func TestKustomized(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"base/account.yaml":          "{apiVersion: v1, kind: ServiceAccount, metadata: {name: manager}}",
		"base/kustomization.yaml":    "resources: [account.yaml]",
		"default/kustomization.yaml": "{namespace: op-system, namePrefix: op-, resources: [../base]}",
		"broken/kustomization.yaml":  "resources: [absent.yaml]",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	all, err := objects(filepath.Join(dir, "default"))
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "op-system/op-manager", all[0].GetNamespace()+"/"+all[0].GetName())
	assert.Len(t, once(append(all, all...)), 1)
	_, err = objects(filepath.Join(dir, "broken"))
	assert.ErrorContains(t, err, "absent.yaml")
}

// Without a Deployment one is made, for the account that the manifests have, or for one
// that may do everything.
func TestDeployedWithoutADeployment(t *testing.T) {
	o := *ours(t).Spec.Operator
	o.Manifests = slices.DeleteFunc(slices.Clone(o.Manifests), func(dir string) bool { return filepath.Base(dir) == "manager" })
	o.Args, o.Replicas = []string{"--a"}, 0
	_, d, err := deployed(o)
	require.NoError(t, err)
	assert.Equal(t, "controller-manager", d.Spec.Template.Spec.ServiceAccountName)
	assert.Equal(t, "system", d.Namespace)
	assert.Equal(t, []string{"--a"}, d.Spec.Template.Spec.Containers[0].Args)
	o.Manifests = nil
	all, d, err := deployed(o)
	require.NoError(t, err)
	assert.Equal(t, []string{"CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRoleBinding", "Deployment"}, kinds(all))
	assert.Equal(t, deployment, d.Spec.Template.Spec.ServiceAccountName)
}

// The object is asked for with the plan's values, and what of its name is left out is filled in.
func TestAsked(t *testing.T) {
	p := NewPods(ours(t))
	p.plan.Ring = ringproof.RingSpec{Size: 3, Version: "v3.6.16", Volume: 512}
	o, err := p.asked()
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"size": 3.0, "version": "3.6.16", "storage": map[string]any{"className": "ringproof", "size": "512"}}, o.Object["spec"])
	assert.Equal(t, "rings/r", o.GetNamespace()+"/"+o.GetName())
	p.operator.Resource = "{apiVersion: v1, kind: Ring}"
	o, err = p.asked()
	require.NoError(t, err)
	assert.Equal(t, "rings/r", o.GetNamespace()+"/"+o.GetName())
	assert.Equal(t, "gcr.io/etcd-development/etcd:v3.6.16", p.EtcdImage("v3.6.16"))
	p.operator.Pods.Image = "example.org/etcd:{{.Release}}-0"
	assert.Equal(t, "example.org/etcd:3.6.16-0", p.EtcdImage("v3.6.16"))
}

// What an operator's file doesn't say is not applicable, with the key that would say it.
func TestOperatorPromises(t *testing.T) {
	p := Promised(ours(t))
	kubernetes := ringproof.Plan{Ring: ringproof.RingSpec{On: ringproof.OnKubernetes, Security: "plain"}}
	assert.NoError(t, p.Runs(kubernetes))
	assert.ErrorContains(t, p.Runs(ringproof.Plan{Ring: ringproof.RingSpec{Security: "plain"}}), "makes rings on Kubernetes only")
	kubernetes.Ring.Security = "tls"
	assert.ErrorContains(t, p.Runs(kubernetes), "etcd.security")
	for want, s := range map[string]ringproof.Step{
		"": {Op: &ringproof.Op{Kind: ringproof.OpScale, To: 5}},
		"can't be asked to upgrade (operator.patches.upgrade)": {Op: &ringproof.Op{Kind: ringproof.OpUpgrade}},
		"only etcd's process is restarted":                     {Op: &ringproof.Op{Kind: ringproof.OpRestart, Scope: "machine"}},
		"has no agents in its pods":                            {Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Scope: "agent"}},
		"(replaces: [claims])":                                 {Fault: &ringproof.Fault{Kind: ringproof.FaultKubeDelete, Object: ringproof.ObjectVolume}},
		"(replaces: [statefulset])":                            {Fault: &ringproof.Fault{Kind: ringproof.FaultSetScaled}},
		"(replaces: [objects])":                                {Fault: &ringproof.Fault{Kind: ringproof.FaultObjectsEmptied}},
		"(replaces: [ring])":                                   {Fault: &ringproof.Fault{Kind: ringproof.FaultRingDeleted}},
		"nobody here knows of":                                 {Fault: &ringproof.Fault{Kind: ringproof.FaultRecordsDeleted}},
		"(replaces: [volumes])":                                {Fault: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss}},
	} {
		if err := p.Supports(s); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
	assert.NoError(t, p.Supports(ringproof.Step{Fault: &ringproof.Fault{Kind: ringproof.FaultKubeDelete, Object: ringproof.ObjectPod}}), "nothing is lost with a pod")
	assert.ErrorContains(t, Promised(read(t, "\n  start: {run: [./launch, \"{{.Etcd}}\"]}\n")).Runs(ringproof.Plan{Ring: ringproof.RingSpec{On: ringproof.OnKubernetes, Security: "plain"}}), "makes no ring on Kubernetes")
}

// A directory that can't be built is told before anything is.
func TestBuildable(t *testing.T) {
	dir := t.TempDir()
	assert.ErrorContains(t, buildable(dir), "no Go file is there")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n"), 0o600))
	assert.ErrorContains(t, buildable(dir), "no main package")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package main\n"), 0o600))
	assert.ErrorContains(t, buildable(dir), "no go.mod")
	for mod, want := range map[string]string{"": "nowhere", "\ngo 1.22.1\n": "for go 1.22", "\ngo 1.23\n": "", "\ngo 1.26.0\n": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module a\n"+mod), 0o600))
		if err := buildable(dir); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

// TestAStatusIsReadWhereTheFileSays: of which spec it is tells the condition itself, or else
// the status; and what isn't there isn't said.
func TestAStatusIsReadWhereTheFileSays(t *testing.T) {
	for _, test := range []struct {
		name, status string
		where        scenarios.OperatorStatus
		want         string
	}{
		{"all of it", `{observedGeneration: 3, readyReplicas: 3, conditions: [{type: Ready, status: "True"}]}`, scenarios.OperatorStatus{Available: "Ready", Voters: "readyReplicas"}, "Available=True, 3 voters"},
		{"a field of a field", `{members: {ready: 5}}`, scenarios.OperatorStatus{Voters: "members.ready"}, "5 voters"},
		{"of an earlier spec", `{observedGeneration: 2, readyReplicas: 3}`, scenarios.OperatorStatus{Voters: "readyReplicas"}, "3 voters, of an earlier spec"},
		{"whose condition is of this one", `{observedGeneration: 2, conditions: [{type: Available, status: "False", observedGeneration: 3}]}`, scenarios.OperatorStatus{Available: "Available"}, "Available=False"},
		{"nothing", `{conditions: [{type: Ready, status: "True"}]}`, scenarios.OperatorStatus{Available: "Available", Voters: "members"}, ""},
	} {
		o := &unstructured.Unstructured{}
		text, err := yaml.YAMLToJSON([]byte("{apiVersion: v1, kind: Ring, metadata: {generation: 3}, status: " + test.status + "}"))
		require.NoError(t, err)
		require.NoError(t, o.UnmarshalJSON(text))
		assert.Equal(t, test.want, statusOf(o, test.where).String(), test.name)
	}
}
