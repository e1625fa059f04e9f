// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ringproof/ringproof"
)

// Operator is a subject that runs on Kubernetes, and keeps rings in pods.
type Operator struct {
	Main      string            `json:"main" jsonschema:"required" jsonschema_description:"its main package of Go, a directory found from the file's, in a module of its own. It is built as it is, and nothing is written beside it"`
	Args      []string          `json:"args,omitempty" jsonschema_description:"the arguments of its process; those of its Deployment when absent"`
	Env       map[string]string `json:"env,omitempty" jsonschema_description:"what it has in its environment besides what its Deployment gives it"`
	Replicas  int               `json:"replicas,omitempty" jsonschema:"minimum=1,maximum=3" jsonschema_description:"how many of it run; as many as its Deployment has when absent. Of several one acts, by a Lease"`
	CRDs      string            `json:"crds" jsonschema:"required" jsonschema_description:"the file or directory with the definitions of its kinds, as kubectl apply -f takes them"`
	Manifests []string          `json:"manifests,omitempty" jsonschema_description:"files and directories with what else is applied: its Namespace, ServiceAccount, roles, Deployment. A directory that is a kustomization is built, as by kubectl apply -k: config/default. Without a ServiceAccount it may do everything; without a Deployment one is made"`
	Resource  string            `json:"resource" jsonschema:"required" jsonschema_description:"the object by which a ring is asked for, in YAML, with {{.Variables}}"`
	Patches   Patches           `json:"patches,omitempty" jsonschema_description:"how that object is edited for what scenarios ask: merge patches, as kubectl patch --type=merge -p takes them, with {{.Variables}}. A cell with an operation that isn't here is not applicable"`
	Status    OperatorStatus    `json:"status,omitempty" jsonschema_description:"what its object's status says of the ring, where people and alerts read it. Without it nobody judges whether it is so"`
	Pods      Pods              `json:"pods,omitempty" jsonschema_description:"which of the pods that have a claim run a member. No two of them may be on one node"`
}

// Patches are how an operator's object is edited, by operation.
type Patches struct {
	Scale   string `json:"scale,omitempty" jsonschema_description:"have {{.To}} voters"`
	Upgrade string `json:"upgrade,omitempty" jsonschema_description:"have the ring run {{.Version}}"`
	Suspend string `json:"suspend,omitempty" jsonschema_description:"leave the ring as it is"`
	Resume  string `json:"resume,omitempty" jsonschema_description:"go on"`
}

// Of returns the patch that asks for the operation; "": it isn't asked.
func (p Patches) Of(kind ringproof.OpKind) string {
	return map[ringproof.OpKind]string{ringproof.OpScale: p.Scale, ringproof.OpUpgrade: p.Upgrade, ringproof.OpSuspend: p.Suspend, ringproof.OpResume: p.Resume}[kind]
}

// OperatorStatus is where the status of an operator's object says how the ring fares. Of which spec that
// is said its observedGeneration tells, where it has one.
type OperatorStatus struct {
	Available string `json:"available,omitempty" jsonschema_description:"the type of its condition (status.conditions) that is True while the ring serves: Available, Ready"`
	Voters    string `json:"voters,omitempty" jsonschema_description:"its field with how many members vote, such as readyReplicas"`
}

// Pods are those of a ring.
type Pods struct {
	Selector  string `json:"selector,omitempty" jsonschema_description:"their labels, as kubectl get -l takes them; any when absent"`
	Container string `json:"container,omitempty" jsonschema_description:"the container that runs etcd, by whose output it is known how an etcd ended; etcd when absent"`
	Image     string `json:"image,omitempty" jsonschema_description:"the image of etcd that they ask for, with {{.Variables}}; gcr.io/etcd-development/etcd:{{.Version}} when absent. It holds etcd and etcdctl in /usr/local/bin, and no shell"`
	Secret    string `json:"secret,omitempty" jsonschema_description:"of a ring with TLS: the Secret of type kubernetes.io/tls, with ca.crt, by which clients show who they are, with {{.Variables}}"`
}

// operatorVariables are what stands for something of the ring in an operator's objects.
var operatorVariables = []Variable{
	{"Name", "the name of the ring's object", inObjects},
	{"Namespace", "its namespace", inObjects},
	{"Release", "the release of etcd without its v, such as 3.6.16", inObjects},
	{"StorageClass", "the StorageClass that the cluster has", inObjects},
	{"Storage", "how large a volume is to be, in bytes", inObjects},
}

// inObjects is where an operator's variables mean something, besides Size and Version.
const inObjects = "resource, patches, pods"

// knownInObjects reports whether an operator's object may have the variable.
func knownInObjects(v Variable, path string) bool {
	return v.In == inObjects || v.Name == "Version" || v.Name == "Size" && path != "upgrade" || v.Name == "To" && path == "scale"
}

// Places finds what a subject's file names.
type Places struct {
	// Runnable says why a program can't be run, or where it is.
	Runnable func(program string) (string, error)
	// Package says why a directory holds no main package of Go that can be built, or where
	// it is.
	Package func(dir string) (string, error)
	// Objects says why a file or directory holds no objects of Kubernetes, or where it is.
	Objects func(path string) (string, error)
	// Selector says why it selects no labels.
	Selector func(text string) error
}

// filled has what the file leaves out.
func (o Operator) filled() Operator {
	if o.Pods.Container == "" {
		o.Pods.Container = "etcd"
	}
	if o.Pods.Image == "" {
		o.Pods.Image = "gcr.io/etcd-development/etcd:{{.Version}}"
	}
	return o
}

// objects are the operator's texts with variables, by where they are below it.
func (o *Operator) objects() map[string]string {
	all := map[string]string{"resource": o.Resource, "pods.image": o.Pods.Image, "pods.secret": o.Pods.Secret}
	patches := reflect.ValueOf(o.Patches)
	for _, f := range fieldsOf(patches.Type()) {
		all["patches."+f.name] = patches.Field(f.index).String()
	}
	return all
}

// FillText writes a text of an operator's with the values of its variables.
func FillText(text string, values map[string]string) string {
	return between.ReplaceAllStringFunc(text, func(m string) string { return values[nameOf(between.FindStringSubmatch(m)[1])] })
}

// beside are the keys that mean nothing for an operator, as nothing of it is started on
// machines.
func (s SubjectSpec) beside() (keys []string) {
	given := map[string]bool{"main": s.Main != "", "create": s.Create != nil, "stop": s.Stop != Stop{}, "operations": s.Operations != Operations{}, "refused": len(s.Refused) > 0, "etcd.output": s.Etcd.Output != ""}
	for _, key := range sortedKeys(given) {
		if given[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// judgeOperator holds an operator to what tags can't say, and finds what it names.
func (d *decoder) judgeOperator(spec *SubjectSpec, in Places) {
	o := spec.Operator
	for _, key := range spec.beside() {
		d.complain(d.keyed("spec."+key), complaint{code: "S066", message: fmt.Sprintf("%s means nothing for an operator", key)}, "an operator is deployed, and asked by patches of its object (spec.operator.patches)")
	}
	d.find("spec.operator.main", &o.Main, "S067", in.Package)
	d.find("spec.operator.crds", &o.CRDs, "S068", in.Objects)
	for i := range o.Manifests {
		d.find(fmt.Sprintf("spec.operator.manifests[%d]", i), &o.Manifests[i], "S068", in.Objects)
	}
	if err := in.Selector(o.Pods.Selector); err != nil {
		d.complain(d.placed("spec.operator.pods.selector"), complaint{code: "S069", message: fmt.Sprintf("the selector %q can't be read: %v", o.Pods.Selector, err)}, "")
	}
	for at, text := range o.objects() { // order: problems are sorted by place
		d.judgeObject(at, text)
	}
	if o.Resource != "" && !usesIn(o.Resource, "Version") && !usesIn(o.Resource, "Release") {
		d.complain(d.placed("spec.operator.resource"), complaint{code: "S061", message: "nobody knows which etcd it runs: resource uses neither {{.Version}} nor {{.Release}}"}, "a cell is of the release that it names")
	}
	if slices.Contains(spec.Etcd.Security, "tls") && o.Pods.Secret == "" {
		d.complain(d.placed("spec.etcd.security"), complaint{code: "S066", message: "nobody knows how clients of a ring with TLS show who they are"}, "spec.operator.pods.secret names the Secret with their certificate")
	}
}

// find has a path of the file's point to what is there.
func (d *decoder) find(at string, path *string, code string, look func(string) (string, error)) {
	if *path == "" {
		return // that it is missing was told
	}
	found, err := look(*path)
	if err != nil {
		d.complain(d.placed(at), complaint{code: code, message: fmt.Sprintf("%s is %q: %v", strings.TrimPrefix(strings.TrimPrefix(at, "spec."), "operator."), *path, err)}, "")
		return
	}
	*path = found
}

// judgeObject holds an operator's object to what can be read of it with values in it.
func (d *decoder) judgeObject(at, text string) {
	before := len(d.found)
	_, command, _ := strings.Cut(at, ".")
	d.judgeText(at, text, "spec.operator."+at, func(v Variable) bool { return knownInObjects(v, command) })
	if text == "" || len(d.found) > before || strings.HasPrefix(at, "pods.") {
		return
	}
	values := map[string]string{}
	for _, v := range Variables() {
		values[v.Name] = "1"
	}
	var object map[string]any
	err := yaml.Unmarshal([]byte(FillText(text, values)), &object)
	switch {
	case err != nil:
		d.complain(d.placed("spec.operator."+at), complaint{code: "S069", message: fmt.Sprintf("%s is no YAML once its variables are filled in: %v", at, err)}, "")
	case object == nil:
		d.complain(d.placed("spec.operator."+at), complaint{code: "S069", message: at + " holds no object"}, "")
	case at == "resource" && (object["apiVersion"] == nil || object["kind"] == nil):
		d.complain(d.placed("spec.operator."+at), complaint{code: "S069", message: "the resource has no apiVersion or no kind"}, "it is an object as kubectl create -f takes it")
	}
}

func usesIn(text, variable string) bool {
	return slices.ContainsFunc(between.FindAllStringSubmatch(text, -1), func(m []string) bool { return nameOf(m[1]) == variable })
}
