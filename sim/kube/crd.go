// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// rules are what a CRD asks of its objects. A real server's own code reads them.
type rules struct {
	gvk       schema.GroupVersionKind
	schema    *structuralschema.Structural
	validator validation.SchemaValidator
	cel       *cel.Validator // nil if there is none in the schema
}

// Install makes the server know the kind that a CRD defines, in its stored version,
// which the scheme must know too. Objects are then pruned, given their defaults and
// held to the schema and its CEL rules, as a real server does it.
func (s *Server) Install(crd *apiextensionsv1.CustomResourceDefinition) error {
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if at < 0 {
		return fmt.Errorf("install the CRD %s: none of its versions is stored", crd.Name)
	}
	version := crd.Spec.Versions[at]
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
	if !s.scheme.Recognizes(gvk) {
		return fmt.Errorf("install the CRD %s: the scheme has no %s", crd.Name, gvk)
	}
	held, err := newRules(gvk, version.Schema)
	if err == nil {
		err = refused(crd)
	}
	if err != nil {
		return fmt.Errorf("install the CRD %s: %w", crd.Name, err)
	}
	kind := Custom(gvk, crd.Spec.Names.Plural)
	kind.Global = crd.Spec.Scope == apiextensionsv1.ClusterScoped
	kind.Status = version.Subresources != nil && version.Subresources.Status != nil
	s.shelves[gvk] = &shelf{kind: kind, objects: map[Key]Object{}, rules: held}
	return nil
}

// refused is why a real server wouldn't take a CRD: a rule that costs too much to
// ask is one reason.
func refused(crd *apiextensionsv1.CustomResourceDefinition) error {
	full, asked := crd.DeepCopy(), &apiextensions.CustomResourceDefinition{}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(full)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&full.Spec)
	full.Status.StoredVersions = []string{full.Spec.Versions[0].Name} // as the server sets it
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(full, asked, nil); err != nil {
		return err
	}
	return crdvalidation.ValidateCustomResourceDefinition(context.Background(), asked).ToAggregate()
}

func newRules(gvk schema.GroupVersionKind, asked *apiextensionsv1.CustomResourceValidation) (*rules, error) {
	if asked == nil || asked.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("version %s has no schema", gvk.Version)
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(asked.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, err
	}
	return &rules{gvk, structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// complete prunes what the schema doesn't know, and fills in its defaults.
func (r *rules) complete(o Object) error {
	content, err := r.content(o)
	if err != nil {
		return err
	}
	pruning.Prune(content, r.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, r.schema)
	defaulting.Default(content, r.schema)
	return fill(o, content)
}

// problems is what is wrong with o; old is nil if it is new. Rules that o's change
// doesn't touch are not asked again.
func (r *rules) problems(o, old Object) (field.ErrorList, error) {
	content, err := r.content(o)
	if err != nil {
		return nil, err
	}
	if old == nil {
		problems := validation.ValidateCustomResource(nil, content, r.validator)
		problems = append(problems, listtype.ValidateListSetsAndMaps(nil, r.schema, content)...)
		return r.asked(problems, content, nil), nil
	}
	before, err := r.content(old)
	if err != nil {
		return nil, err
	}
	change := common.NewCorrelatedObject(content, before, &model.Structural{Structural: r.schema})
	problems := validation.ValidateCustomResourceUpdate(nil, content, before, r.validator, validation.WithRatcheting(change))
	if len(listtype.ValidateListSetsAndMaps(nil, r.schema, before)) == 0 {
		problems = append(problems, listtype.ValidateListSetsAndMaps(nil, r.schema, content)...)
	}
	return r.asked(problems, content, before, cel.WithRatcheting(change)), nil
}

// asked adds what the CEL rules say; before is nil if the object is new.
func (r *rules) asked(problems field.ErrorList, content map[string]any, before any, options ...cel.Option) field.ErrorList {
	switch {
	case r.cel == nil:
	case slices.ContainsFunc(problems, blocks):
		problems = append(problems, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	default:
		broken, _ := r.cel.Validate(context.Background(), nil, r.schema, content, before, celconfig.RuntimeCELCostBudget, options...)
		problems = append(problems, broken...)
	}
	// A real server asks the rules in the order of a map.
	slices.SortStableFunc(problems, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Detail, b.Detail))
	})
	return problems
}

// blocks reports whether an object is so wrong that its CEL rules aren't asked.
func blocks(problem *field.Error) bool {
	switch problem.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

// content is an object as JSON has it, with the kind that typed objects leave out.
func (r *rules) content(o Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("%s %s as JSON: %w", r.gvk.Kind, keyOf(o), err)
	}
	content["apiVersion"], content["kind"] = r.gvk.GroupVersion().String(), r.gvk.Kind
	return content, nil
}

// fill makes a typed object of content again.
func fill(o Object, content map[string]any) error {
	delete(content, "apiVersion")
	delete(content, "kind")
	zero(o)
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, o)
}
