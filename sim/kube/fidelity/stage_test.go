// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ringproof/ringproof/sim/kube"
)

// api is what a script asks: the model, or a real API server, both by the client that
// controllers have. All is in one namespace, but what belongs to none.
type api interface {
	client.Client
	// Since returns the first n events after a version, or those that there are.
	Since(gvk schema.GroupVersionKind, version string, n int) ([]kube.Event, error)
	Elapse(time.Duration)
	// Settle waits until the cluster's own controllers have nothing more to do.
	Settle() error
	Namespace() string
}

// stage is a script in play.
type stage struct {
	api
	ctx    context.Context
	scheme *runtime.Scheme
	copies map[string]kube.Object // by the name that the script gave, or KIND/NAME: as last returned
	uids   []string               // in the order in which they were seen: uid-1, …
	seen   []string               // versions: v1, …
}

func newStage(ctx context.Context, a api) *stage {
	return &stage{api: a, ctx: ctx, scheme: a.Scheme(), copies: map[string]kube.Object{}}
}

// play runs one file of commands and compares, or with -rewrite records.
func play(t *testing.T, path string, a api) {
	s := newStage(t.Context(), a)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		run, ok := commands[d.Cmd]
		if !ok {
			d.Fatalf(t, "there is no command %s; there are %s", d.Cmd, strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
		}
		text, err := run(s, d)
		if err != nil {
			return s.refusal(err) + "\n"
		}
		return text
	})
}

// commands are what a script can say. A command that returns an error prints it
// as the API server said it.
var commands = map[string]func(*stage, *datadriven.TestData) (string, error){
	"create": (*stage).create,
	"get":    (*stage).get,
	"list":   (*stage).list,
	"names":  func(s *stage, d *datadriven.TestData) (string, error) { return s.each(d, s.terminating) },
	"images": func(s *stage, d *datadriven.TestData) (string, error) { return s.each(d, imageOf) },
	"labels": (*stage).labels,
	"owner":  (*stage).owner,
	"update": func(s *stage, d *datadriven.TestData) (string, error) {
		return s.write(d, func(o kube.Object) error { return s.Update(s.ctx, o) })
	},
	"status": func(s *stage, d *datadriven.TestData) (string, error) {
		return s.write(d, func(o kube.Object) error { return s.Status().Update(s.ctx, o) })
	},
	"patch":  (*stage).patch,
	"delete": (*stage).delete,
	"evict":  (*stage).evict,
	"events": (*stage).events,
	"settle": func(s *stage, _ *datadriven.TestData) (string, error) { return "", s.Settle() },
	"elapse": func(s *stage, d *datadriven.TestData) (string, error) {
		pause, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err == nil {
			s.Elapse(pause)
		}
		return "", err
	},
	"await":  (*stage).await,
	"worker": (*stage).worker,
}

// create takes an object as YAML.
func (s *stage) create(d *datadriven.TestData) (string, error) {
	var raw struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(d.Input), &raw); err != nil {
		return "", err
	}
	wanted, err := s.scheme.New(schema.FromAPIVersionAndKind(cmp.Or(raw.APIVersion, "v1"), raw.Kind))
	if err != nil {
		return "", err
	}
	if err := yaml.UnmarshalStrict([]byte(s.named(d.Input)), wanted); err != nil {
		return "", err
	}
	o := wanted.(kube.Object)
	if !global(raw.Kind) {
		o.SetNamespace(s.Namespace())
	}
	for _, of := range options(d, "owners") {
		owner, err := s.copyOf(of)
		if err != nil {
			return "", err
		}
		gvks, _, err := s.scheme.ObjectKinds(owner)
		if err != nil {
			return "", err
		}
		version, kind := gvks[0].ToAPIVersionAndKind()
		o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}))
	}
	return s.told(d, "created", o, func(o kube.Object) error { return s.Create(s.ctx, o) })
}

// global reports whether a kind's objects are in no namespace.
func global(kind string) bool {
	return slices.Contains([]string{"RingDefaults", "Node", "PersistentVolume"}, kind)
}

func (s *stage) get(d *datadriven.TestData) (string, error) {
	o, err := s.find(d)
	if err != nil {
		return "", err
	}
	return s.tell(d, "", o)
}

// find gets the object that a command names.
func (s *stage) find(d *datadriven.TestData) (kube.Object, error) {
	o, err := s.empty(d)
	if err != nil {
		return nil, err
	}
	return o, s.Get(s.ctx, client.ObjectKeyFromObject(o), o)
}

// empty is an object of the kind and the name that a command names.
func (s *stage) empty(d *datadriven.TestData) (kube.Object, error) {
	kind, name, _ := strings.Cut(d.CmdArgs[0].Key, "/")
	made, err := s.scheme.New(s.kind(kind))
	if err != nil {
		return nil, err
	}
	o := made.(kube.Object)
	o.SetName(s.named(name))
	if !global(kind) {
		o.SetNamespace(s.Namespace())
	}
	return o, nil
}

// all are the objects of the kind that a command names.
func (s *stage) all(d *datadriven.TestData) ([]kube.Object, error) {
	gvk := s.kind(d.CmdArgs[0].Key)
	made, err := s.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list := made.(client.ObjectList)
	if err := s.List(s.ctx, list, client.InNamespace(s.Namespace())); err != nil {
		return nil, err
	}
	var found []kube.Object
	err = meta.EachListItem(list, func(o runtime.Object) error {
		found = append(found, o.(kube.Object))
		return nil
	})
	return found, err
}

func (s *stage) list(d *datadriven.TestData) (string, error) {
	all, err := s.all(d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, o := range all {
		b.WriteString(s.line("", o))
	}
	return cmp.Or(b.String(), "none\n"), nil
}

// each prints the objects of a kind by their names, and what more is said of them.
func (s *stage) each(d *datadriven.TestData, more func(kube.Object) string) (string, error) {
	all, err := s.all(d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, o := range all {
		fmt.Fprintln(&b, strings.TrimSpace(o.GetName()+" "+more(o)))
	}
	return cmp.Or(b.String(), "none\n"), nil
}

func (s *stage) terminating(o kube.Object) string {
	if o.GetDeletionTimestamp() != nil {
		return "terminating"
	}
	return ""
}

func imageOf(o kube.Object) string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return ""
	}
	return pod.Spec.Containers[0].Image
}

func (s *stage) labels(d *datadriven.TestData) (string, error) {
	o, err := s.find(d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(o.GetLabels())) {
		value := o.GetLabels()[key]
		if key == appsv1.StatefulSetRevisionLabel {
			value = "REVISION"
		}
		fmt.Fprintf(&b, "%s: %s\n", key, value)
	}
	return cmp.Or(b.String(), "none\n"), nil
}

func (s *stage) owner(d *datadriven.TestData) (string, error) {
	o, err := s.find(d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, ref := range o.GetOwnerReferences() {
		fmt.Fprintf(&b, "%s %s %s, controller %v, blocks its deletion %v\n", ref.APIVersion, ref.Kind, ref.Name, *ref.Controller, *ref.BlockOwnerDeletion)
	}
	return cmp.Or(b.String(), "none\n"), nil
}

// write changes a copy by the merge patch that is the input, and sends it.
func (s *stage) write(d *datadriven.TestData, send func(kube.Object) error) (string, error) {
	known, err := s.copyOf(cmp.Or(option(d, "copy"), d.CmdArgs[0].Key))
	if err != nil {
		return "", err
	}
	o, err := patched(known, d.Input)
	if err != nil {
		return "", err
	}
	if version := option(d, "version"); version == "none" {
		o.SetResourceVersion("")
	}
	switch uid := option(d, "uid"); uid {
	case "":
	case "none":
		o.SetUID("")
	default:
		o.SetUID(types.UID(uid))
	}
	return s.told(d, map[string]string{"update": "updated", "status": "status updated"}[d.Cmd], o, send)
}

func patched(o kube.Object, patch string) (kube.Object, error) {
	asked, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		return nil, err
	}
	if string(asked) == "null" { // no input
		asked = []byte("{}")
	}
	before, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, asked)
	if err != nil {
		return nil, err
	}
	fresh := reflect.New(reflect.TypeOf(o).Elem()).Interface().(kube.Object)
	return fresh, json.Unmarshal(after, fresh)
}

func (s *stage) delete(d *datadriven.TestData) (string, error) {
	o, err := s.empty(d)
	if err != nil {
		return "", err
	}
	var options client.DeleteOptions
	if uid := option(d, "uid"); uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: pointer(s.uidOf(uid))}
	}
	if of := option(d, "version"); of != "" {
		known, err := s.copyOf(of)
		if err != nil {
			return "", err
		}
		options.Preconditions = cmp.Or(options.Preconditions, &metav1.Preconditions{})
		options.Preconditions.ResourceVersion = pointer(known.GetResourceVersion())
	}
	if text := option(d, "grace"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", err
		}
		options.GracePeriodSeconds = &seconds
	}
	if err := s.Delete(s.ctx, o, &options); err != nil {
		return "", err
	}
	return d.CmdArgs[0].Key + " deleted\n", nil
}

// evict asks for a pod's end as kubectl drain does.
func (s *stage) evict(d *datadriven.TestData) (string, error) {
	pod, err := s.empty(d)
	if err != nil {
		return "", err
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName()}}
	if uid := option(d, "uid"); uid != "" {
		eviction.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: pointer(s.uidOf(uid))}}
	}
	if err := s.SubResource("eviction").Create(s.ctx, pod, eviction); err != nil {
		return "", err
	}
	return d.CmdArgs[0].Key + " evicted\n", nil
}

// patches are the kinds of patch, by the names that kubectl has for them.
var patches = map[string]types.PatchType{"json": types.JSONPatchType, "merge": types.MergePatchType, "strategic": types.StrategicMergePatchType}

// patch sends its input; version= puts a copy's resourceVersion into a merge patch.
func (s *stage) patch(d *datadriven.TestData) (string, error) {
	o, err := s.empty(d)
	if err != nil {
		return "", err
	}
	text, err := yaml.YAMLToJSON([]byte(d.Input))
	if err != nil {
		return "", err
	}
	if of := option(d, "version"); of != "" {
		known, err := s.copyOf(of)
		if err != nil {
			return "", err
		}
		lock := fmt.Sprintf(`{"metadata":{"resourceVersion":%q}}`, known.GetResourceVersion())
		if text, err = jsonpatch.MergePatch(text, []byte(lock)); err != nil {
			return "", err
		}
	}
	patch := client.RawPatch(patches[cmp.Or(option(d, "type"), "merge")], text)
	if option(d, "of") == "status" {
		return s.told(d, "status patched", o, func(o kube.Object) error { return s.Status().Patch(s.ctx, o, patch) })
	}
	return s.told(d, "patched", o, func(o kube.Object) error { return s.Patch(s.ctx, o, patch) })
}

// uidOf is the UID of a copy, or what the script says that no object has.
func (s *stage) uidOf(text string) types.UID {
	if o, ok := s.copies[text]; ok {
		return o.GetUID()
	}
	return types.UID(text)
}

func (s *stage) events(d *datadriven.TestData) (string, error) {
	n, err := strconv.Atoi(cmp.Or(option(d, "n"), "1"))
	if err != nil {
		return "", err
	}
	since := option(d, "since")
	if o, ok := s.copies[since]; ok {
		since = o.GetResourceVersion()
	}
	all, err := s.Since(s.kind(d.CmdArgs[0].Key), since, n)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range all {
		b.WriteString(s.line(string(e.Type), e.Object))
	}
	return cmp.Or(b.String(), "none\n"), nil
}

// told sends an object, keeps what came back, and prints it.
func (s *stage) told(d *datadriven.TestData, did string, o kube.Object, send func(kube.Object) error) (string, error) {
	if err := send(o); err != nil {
		return "", err
	}
	return s.tell(d, did, o)
}

// tell keeps a copy and prints it, with the fields that show= names.
func (s *stage) tell(d *datadriven.TestData, did string, o kube.Object) (string, error) {
	s.copies[s.title(o)] = o
	if as := option(d, "as"); as != "" {
		s.copies[as] = o
	}
	var b strings.Builder
	b.WriteString(s.line(did, o))
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return "", err
	}
	for _, path := range options(d, "show") {
		value, there, err := unstructured.NestedFieldNoCopy(fields, strings.Split(path, ".")...)
		text := "<none>"
		if err == nil && there {
			text = s.masked(plain(value))
		}
		fmt.Fprintf(&b, "  %s: %s\n", path, text)
	}
	return b.String(), nil
}

func plain(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// line is an object in one line: what was done, which it is, and what the server
// counts of it.
func (s *stage) line(did string, o kube.Object) string {
	words := []string{did, s.title(o), name("uid-", &s.uids, string(o.GetUID()))}
	if !written(o) {
		words = append(words, name("v", &s.seen, o.GetResourceVersion()))
	}
	if n := o.GetGeneration(); n > 0 {
		words = append(words, fmt.Sprintf("generation=%d", n))
	}
	if o.GetDeletionTimestamp() != nil {
		words = append(words, "terminating")
	}
	return strings.TrimSpace(strings.Join(words, " ")) + "\n"
}

// written reports whether the cluster's own controllers write an object, more often
// than the model's and never alike.
func written(o kube.Object) bool {
	switch o := o.(type) {
	case *appsv1.StatefulSet, *corev1.PersistentVolumeClaim, *policyv1.PodDisruptionBudget:
		return true
	case *corev1.Pod:
		return len(o.OwnerReferences) > 0
	}
	return false
}

// name is what a script calls the nth thing that it sees.
func name(prefix string, seen *[]string, what string) string {
	at := slices.Index(*seen, what)
	if at < 0 {
		at = len(*seen)
		*seen = append(*seen, what)
	}
	return prefix + strconv.Itoa(at+1)
}

func (s *stage) title(o kube.Object) string {
	gvks, _, err := s.scheme.ObjectKinds(o)
	if err != nil {
		return err.Error()
	}
	if generate := o.GetGenerateName(); generate != "" && len(o.GetOwnerReferences()) == 0 {
		return gvks[0].Kind + "/" + generate + "*"
	}
	return gvks[0].Kind + "/" + o.GetName()
}

// kind finds a kind of the scheme by its name alone.
func (s *stage) kind(name string) schema.GroupVersionKind {
	for gvk := range s.scheme.AllKnownTypes() { // order: a name is one kind's
		if gvk.Kind == name && gvk.Version != runtime.APIVersionInternal {
			return gvk
		}
	}
	return schema.GroupVersionKind{Kind: name}
}

func (s *stage) copyOf(as string) (kube.Object, error) {
	o, ok := s.copies[as]
	if !ok {
		return nil, fmt.Errorf("the script has no copy %s; there are %s", as, strings.Join(slices.Sorted(maps.Keys(s.copies)), ", "))
	}
	return o, nil
}

// refusal is an error as the API server told it: reason, code and text.
func (s *stage) refusal(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "error: " + s.masked(err.Error())
	}
	told := status.Status()
	text := told.Message
	if told.Details != nil {
		for _, cause := range told.Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				text += "\n  " + cause.Message
			}
		}
	}
	return fmt.Sprintf("%s %d: %s", cmp.Or(told.Reason, "-"), told.Code, s.masked(text))
}

var (
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	oldest  = regexp.MustCompile(`(too old resource version: \d+) \(\d+\)`)
	number  = regexp.MustCompile(`\b\d{3,}\b`)
)

// masked puts names where texts have what differs from run to run.
func (s *stage) masked(text string) string {
	text = instant.ReplaceAllString(text, "TIME")
	text = oldest.ReplaceAllString(text, "$1 (OLDEST)")
	for n, uid := range s.uids {
		text = strings.ReplaceAll(text, uid, fmt.Sprintf("uid-%d", n+1))
	}
	text = number.ReplaceAllStringFunc(text, func(n string) string {
		if at := slices.Index(s.seen, n); at >= 0 {
			return fmt.Sprintf("v%d", at+1)
		}
		return n
	})
	return strings.ReplaceAll(text, s.Namespace(), "NAMESPACE")
}

func options(d *datadriven.TestData, key string) []string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

func option(d *datadriven.TestData, key string) string {
	if all := options(d, key); len(all) > 0 {
		return all[0]
	}
	return ""
}

func pointer[T any](v T) *T { return &v }

// scripts are the files of a directory of testdata.
func scripts(t *testing.T, of string, run func(t *testing.T, path string)) {
	t.Helper()
	played := 0
	datadriven.Walk(t, filepath.Join("testdata", of), func(t *testing.T, path string) {
		played++
		run(t, path)
	})
	require.Positive(t, played)
}
