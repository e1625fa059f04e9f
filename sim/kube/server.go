// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Key is where an object is among those of its kind.
type Key = types.NamespacedName

// Event is one change, as a watch delivers it. Nobody changes its object.
type Event struct {
	Version int64
	Type    watch.EventType
	Object  Object
}

// shelf is what the server has of one kind.
type shelf struct {
	kind    Kind
	objects map[Key]Object // never changed, only replaced
	log     []Event
	rules   *rules // of a kind that a CRD defines
}

// Server is an API server and the etcd behind it. A call is a request at the
// instant at which it is carried out; whoever calls models the way there and back.
type Server struct {
	host      Host
	scheme    *runtime.Scheme
	epoch     time.Time
	shelves   map[schema.GroupVersionKind]*shelf
	version   int64
	compacted int64
	dry       bool                // what is asked for is refused or answered, and not carried out
	synced    map[types.UID]int64 // the version at which a StatefulSet was dealt with last
}

// New returns an empty server. Its clock shows epoch when the host's time is 0.
// The scheme must know the kinds that every server has, and those of custom.
func New(host Host, scheme *runtime.Scheme, epoch time.Time, custom ...Kind) *Server {
	s := &Server{host: host, scheme: scheme, epoch: epoch, shelves: map[schema.GroupVersionKind]*shelf{}, synced: map[types.UID]int64{}}
	for _, kind := range append(builtin(), custom...) {
		s.shelves[kind.GroupVersionKind] = &shelf{kind: kind, objects: map[Key]Object{}}
	}
	return s
}

// now is the server's clock as the API writes it, in whole seconds.
func (s *Server) now() metav1.Time {
	return metav1.NewTime(s.epoch.Add(s.host.Elapsed()).Truncate(time.Second))
}

func keyOf(o Object) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

func (s *Server) shelf(gvk schema.GroupVersionKind) (*shelf, error) {
	if found := s.shelves[gvk]; found != nil {
		return found, nil
	}
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
		Details: &metav1.StatusDetails{Group: gvk.Group, Kind: gvk.Kind},
	}}
}

func (s *Server) shelfOf(o Object) (*shelf, error) {
	gvks, _, err := s.scheme.ObjectKinds(o)
	if err != nil {
		return nil, fmt.Errorf("kind of %T in the scheme: %w", o, err)
	}
	return s.shelf(gvks[0])
}

func (sh *shelf) find(at Key) (Object, error) {
	if found, ok := sh.objects[at]; ok {
		return found, nil
	}
	return nil, apierrors.NewNotFound(sh.kind.resource(), at.Name)
}

// Get returns a copy of one object.
func (s *Server) Get(gvk schema.GroupVersionKind, at Key) (Object, error) {
	sh, err := s.shelf(gvk)
	if err != nil {
		return nil, err
	}
	found, err := sh.find(at)
	if err != nil {
		return nil, err
	}
	return clone(found), nil
}

// List returns copies of all objects of a kind in a namespace, or in all if it is
// "", by namespace and name; and the version at which they are so.
func (s *Server) List(gvk schema.GroupVersionKind, namespace string) ([]Object, int64, error) {
	sh, err := s.shelf(gvk)
	if err != nil {
		return nil, 0, err
	}
	keys := slices.SortedFunc(maps.Keys(sh.objects), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var all []Object
	for _, at := range keys {
		if namespace == "" || namespace == at.Namespace {
			all = append(all, clone(sh.objects[at]))
		}
	}
	return all, s.version, nil
}

// Since returns what happened to a kind after a version. Its objects must not be
// changed. What is compacted away is refused with 410: list anew.
func (s *Server) Since(gvk schema.GroupVersionKind, version int64) ([]Event, error) {
	sh, err := s.shelf(gvk)
	if err != nil {
		return nil, err
	}
	if version < s.compacted {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, s.compacted))
	}
	return slices.Clone(sh.log[after(sh.log, version):]), nil
}

// Compact forgets what happened up to a version.
func (s *Server) Compact(version int64) {
	s.compacted = max(s.compacted, min(version, s.version))
	for _, sh := range s.shelves { // order: each is cut by itself
		sh.log = slices.Clone(sh.log[after(sh.log, s.compacted):])
	}
}

// after is the place in a log of the first event after a version.
func after(log []Event, version int64) int {
	at, _ := slices.BinarySearchFunc(log, version+1, func(e Event, v int64) int { return cmp.Compare(e.Version, v) })
	return at
}

// rehearse has what is asked for until the end be refused or answered alone, if it is a dry run.
func (s *Server) rehearse(dryRun []string) (end func()) {
	s.dry = len(dryRun) > 0
	return func() { s.dry = false }
}

// commit gives an object its version, keeps it, or takes it away, and tells.
func (s *Server) commit(sh *shelf, what watch.EventType, o Object) Object {
	if s.dry {
		return clone(o)
	}
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	at := keyOf(o)
	if what == watch.Deleted {
		delete(sh.objects, at)
	} else {
		sh.objects[at] = o
	}
	sh.log = append(sh.log, Event{s.version, what, o})
	s.host.Log(fmt.Sprintf("%s %s %s at %d", sh.kind.Resource, at, what, s.version))
	return clone(o)
}

func clone(o Object) Object { return o.DeepCopyObject().(Object) }
