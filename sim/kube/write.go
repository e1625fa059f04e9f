// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

var (
	// The texts are etcd3's and the registry's.
	errVersionOnCreate = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: "resourceVersion should not be set on objects to be created"}}
	errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")
)

// Create stores an object that isn't there yet, and returns it as stored.
func (s *Server) Create(wanted Object) (Object, error) {
	sh, err := s.shelfOf(wanted)
	if err != nil {
		return nil, err
	}
	if wanted.GetResourceVersion() != "" {
		return nil, errVersionOnCreate
	}
	o, err := sh.decoded(wanted)
	if err != nil {
		return nil, err
	}
	s.begin(sh, o)
	if generate := o.GetGenerateName(); o.GetName() == "" && generate != "" {
		s.name(sh, o, generate)
	}
	problems := validation.ValidateObjectMetaAccessor(o, !sh.kind.Global, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if err := sh.held(o, nil, problems); err != nil {
		return nil, err
	}
	if _, there := sh.objects[keyOf(o)]; there {
		return nil, apierrors.NewAlreadyExists(sh.kind.resource(), o.GetName())
	}
	return s.commit(sh, watch.Added, o), nil
}

// decoded is an object as the server reads it: a copy, pruned and completed by the
// schema of its kind.
func (sh *shelf) decoded(wanted Object) (Object, error) {
	o := clone(wanted)
	if sh.rules == nil {
		complete(o)
		return o, nil
	}
	return o, sh.rules.complete(o)
}

// held refuses an object for these problems, and for those that its schema has with
// it; old is nil if it is new.
func (sh *shelf) held(o, old Object, problems field.ErrorList) error {
	if !sh.kind.Custom {
		problems = append(problems, finalizerProblems(o)...)
	}
	if sh.rules != nil {
		more, err := sh.rules.problems(o, old)
		if err != nil {
			return err
		}
		problems = append(problems, more...)
	}
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(sh.kind.GroupKind(), o.GetName(), problems)
}

// begin sets what is the server's to say of a new object.
func (s *Server) begin(sh *shelf, o Object) {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed clients see it
	o.SetUID(s.uid())
	o.SetCreationTimestamp(s.now())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetGeneration(0)
	if sh.kind.Counts {
		o.SetGeneration(1)
	}
	if sh.kind.Status && !sh.kind.Graceful {
		clearStatus(o)
	}
	if sh.kind.Graceful {
		beginPod(o)
	}
	beginVolume(o)
}

func (s *Server) uid() types.UID {
	a, b := s.host.Draw("uid"), s.host.Draw("uid")
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", uint32(a>>32), uint16(a>>16), a&0xfff, 0x8000|b>>48&0x3fff, b&0xffffffffffff))
}

// Of names that people read: no vowels that make words, no digits like letters.
const alphanums = "bcdfghjklmnpqrstvwxz2456789"

// name gives o a generated name, and another if that is taken, as often as a real
// server tries.
func (s *Server) name(sh *shelf, o Object, generate string) {
	const tries, letters, longest = 8, 5, 58
	generate = generate[:min(len(generate), longest)]
	for range tries {
		draw, suffix := s.host.Draw("name"), ""
		for range letters {
			suffix += string(alphanums[draw%uint64(len(alphanums))])
			draw /= uint64(len(alphanums))
		}
		o.SetName(generate + suffix)
		if _, taken := sh.objects[keyOf(o)]; !taken {
			return
		}
	}
}

// Update replaces all of an object but its status. Without a resourceVersion it
// is unconditional where the kind allows that.
func (s *Server) Update(wanted Object) (Object, error) {
	return s.replace(wanted, func(sh *shelf, old, o Object) {
		if sh.kind.Status {
			takeStatus(o, old)
		}
		if sh.kind.Counts && !sameRequest(o, old) {
			o.SetGeneration(old.GetGeneration() + 1)
		}
	})
}

// UpdateStatus replaces an object's status and nothing else. (A real server lets
// pods and nodes change labels with it; this one doesn't.)
func (s *Server) UpdateStatus(wanted Object) (Object, error) {
	sh, err := s.shelfOf(wanted)
	if err != nil {
		return nil, err
	}
	if !sh.kind.Status {
		return nil, apierrors.NewNotFound(sh.kind.resource(), wanted.GetName())
	}
	return s.replace(wanted, func(_ *shelf, old, o Object) {
		keepAllButStatus(o, old)
	})
}

// replace is what Update and UpdateStatus share: which old object is meant, and
// what no client may change. An update that changes nothing is no event.
func (s *Server) replace(wanted Object, merge func(sh *shelf, old, o Object)) (Object, error) {
	sh, err := s.shelfOf(wanted)
	if err != nil {
		return nil, err
	}
	old, err := sh.find(keyOf(wanted))
	if err != nil {
		return nil, err
	}
	if err := sh.current(old, wanted); err != nil {
		return nil, err
	}
	o, err := sh.decoded(wanted)
	if err != nil {
		return nil, err
	}
	keepSystem(o, old)
	merge(sh, old, o)
	if err := sh.held(o, old, changeProblems(o, old)); err != nil {
		return nil, err
	}
	switch {
	case same(o, old):
		return clone(old), nil
	case released(o):
		s.commit(sh, watch.Deleted, clone(o))
		return o, nil // as it was to be written, of the version before
	}
	return s.commit(sh, watch.Modified, o), nil
}

// current returns why an update isn't one of old: the UID first, as a real server
// looks at it before it looks at the version.
func (sh *shelf) current(old, wanted Object) error {
	name, version := wanted.GetName(), wanted.GetResourceVersion()
	if uid := wanted.GetUID(); uid != "" && uid != old.GetUID() {
		return apierrors.NewConflict(sh.kind.resource(), name, fmt.Errorf(
			"StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
			sh.kind.path(keyOf(old)), uid, old.GetUID()))
	}
	if version == "" && sh.kind.Locked {
		return apierrors.NewInvalid(sh.kind.resourceKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("metadata").Child("resourceVersion"), 0, "must be specified for an update")})
	}
	if version != "" && version != old.GetResourceVersion() {
		return apierrors.NewConflict(sh.kind.resource(), name, errModified)
	}
	return nil
}
