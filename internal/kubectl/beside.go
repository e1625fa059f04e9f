// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local/machines"
)

// beside are the kinds of objects that a ring may have beside its set and its claims, by their
// names in plural, and the merge patch that takes out of each what it says; "": it says nothing.
var beside = map[string]struct {
	of    schema.GroupVersionResource
	empty string
}{
	"services":             {corev1.SchemeGroupVersion.WithResource("services"), `{"spec":{"selector":{"ringproof.dev/nobody":"nobody"}}}`},
	"secrets":              {corev1.SchemeGroupVersion.WithResource("secrets"), `{"data":null}`},
	"serviceaccounts":      {corev1.SchemeGroupVersion.WithResource("serviceaccounts"), ""},
	"poddisruptionbudgets": {policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), `{"spec":{"minAvailable":null,"maxUnavailable":"100%"}}`},
	"roles":                {rbacv1.SchemeGroupVersion.WithResource("roles"), `{"rules":null}`},
	"rolebindings":         {rbacv1.SchemeGroupVersion.WithResource("rolebindings"), `{"subjects":null}`},
}

// Beside is an object of a ring, beside its set and its claims, that was deleted or emptied.
type Beside struct {
	kind, namespace, name string
	uid                   types.UID // that it had
	empty                 string    // the patch that emptied it; "": it was deleted
	pod                   string    // whose alone it is; "": of the whole ring
}

// String names it as kubectl does.
func (b Beside) String() string { return b.kind + "/" + b.name }

// injectBeside deletes, or empties, all objects of a kind whose owner is the set's. It returns those
// that it came to.
func (c Client) injectBeside(ctx context.Context, set *appsv1.StatefulSet, f ringproof.Fault) (machines.Evidence, []Beside, error) {
	owner := metav1.GetControllerOf(set)
	if owner == nil {
		return machines.Evidence{}, nil, fmt.Errorf("%s has no owner, so who belongs to its ring can't be told", named(set))
	}
	of := c.objects.Resource(beside[f.Object].of).Namespace(set.Namespace)
	apply := func(name, empty string) error {
		if empty == "" {
			return of.Delete(ctx, name, metav1.DeleteOptions{})
		}
		_, err := of.Patch(ctx, name, types.MergePatchType, []byte(empty), metav1.PatchOptions{})
		return err
	}
	hit := map[types.UID]Beside{} // also before a time that was tried in vain
	err := insist(ctx, func() error {
		all, err := of.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range all.Items {
			if !metav1.IsControlledBy(&o, &metav1.ObjectMeta{UID: owner.UID}) {
				continue
			}
			empty := ""
			if f.Kind == ringproof.FaultObjectsEmptied {
				empty = emptying(f.Object, &o)
			}
			hit[o.GetUID()] = Beside{f.Object, set.Namespace, o.GetName(), o.GetUID(), empty, podOf(set.Name, o.GetName())}
			if err := gone(apply(o.GetName(), empty)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(hit) == 0 {
		err = fmt.Errorf("%s %s owns no %s", owner.Kind, owner.Name, f.Object)
	}
	objects := slices.SortedFunc(maps.Values(hit), func(a, b Beside) int { return strings.Compare(a.name, b.name) })
	var names []string
	for _, b := range objects {
		names = append(names, b.name)
	}
	return machines.Evidence{What: f.Object + " of " + owner.Kind + " " + owner.Name, Detail: strings.Join(names, ", ")}, objects, err
}

// emptying is the merge patch that takes out of an object of the kind what it says. A Secret of
// Kubernetes's own type for certificates keeps the keys of that, with nothing in them: without them
// the API server refuses it.
func emptying(kind string, o *unstructured.Unstructured) string {
	if of, _, _ := unstructured.NestedString(o.Object, "type"); kind == "secrets" && of == string(corev1.SecretTypeTLS) {
		return `{"data":{"ca.crt":null,"tls.crt":"","tls.key":""}}`
	}
	return beside[kind].empty
}

// podOf is the pod of the set by whose name an object is called; "": by none.
func podOf(set, name string) string {
	rest, ok := strings.CutPrefix(name, set+"-")
	ordinal, _, _ := strings.Cut(rest, "-")
	if _, err := strconv.ParseUint(ordinal, 10, 31); !ok || err != nil {
		return ""
	}
	return set + "-" + ordinal
}

// Amended reports whether what the fault hit is there again and says something else than what emptied
// it. What a pod alone has is owed as long as there is that pod.
func (c Client) Amended(ctx context.Context, b Beside) (bool, error) {
	amended, err := c.amended(ctx, b)
	if amended || err != nil || b.pod == "" {
		return amended, err
	}
	_, err = c.CoreV1().Pods(b.namespace).Get(ctx, b.pod, metav1.GetOptions{})
	return apierrors.IsNotFound(err), gone(err)
}

func (c Client) amended(ctx context.Context, b Beside) (bool, error) {
	o, err := c.objects.Resource(beside[b.kind].of).Namespace(b.namespace).Get(ctx, b.name, metav1.GetOptions{})
	switch {
	case err != nil:
		return false, gone(err)
	case o.GetDeletionTimestamp() != nil:
		return false, nil
	case o.GetUID() != b.uid || b.empty == "":
		return true, nil
	}
	var empty map[string]any
	err = json.Unmarshal([]byte(b.empty), &empty)
	return !holds(o.Object, empty), err
}

// holds reports whether a merge patch would change nothing of the object.
func holds(object, patch map[string]any) bool {
	for key, want := range patch {
		inner, nested := want.(map[string]any)
		has, _ := object[key].(map[string]any)
		if nested && !holds(has, inner) || !nested && !reflect.DeepEqual(object[key], want) {
			return false
		}
	}
	return true
}
