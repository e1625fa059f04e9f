// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"encoding/json"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Patch changes an object, or its status alone, by a JSON patch, a merge patch or a
// strategic merge patch. It is made on the object as it is now, unless the patch itself
// says a resourceVersion.
func (s *Server) Patch(gvk schema.GroupVersionKind, at Key, how types.PatchType, patch []byte, status bool) (Object, error) {
	sh, err := s.shelf(gvk)
	if err != nil {
		return nil, err
	}
	old, err := sh.find(at)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := sh.apply(how, before, patch, old)
	if err != nil {
		return nil, err
	}
	o := reflect.New(reflect.TypeOf(old).Elem()).Interface().(Object)
	if err := json.Unmarshal(after, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if status {
		return s.UpdateStatus(o)
	}
	return s.Update(o)
}

// apply makes a patch on an object's JSON.
func (sh *shelf) apply(how types.PatchType, before, patch []byte, old Object) ([]byte, error) {
	switch how {
	case types.JSONPatchType:
		steps, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		after, err := steps.Apply(before)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return after, nil
	case types.MergePatchType:
		return jsonpatch.MergePatch(before, patch)
	case types.StrategicMergePatchType:
		if sh.kind.Custom { // it has no merge keys
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 415, Reason: metav1.StatusReasonUnsupportedMediaType,
				Message: "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"}}
		}
		return strategicpatch.StrategicMergePatch(before, patch, old)
	}
	return nil, fmt.Errorf("patch %s %s: patches of type %s aren't modelled", sh.kind.Resource, keyOf(old), how)
}
