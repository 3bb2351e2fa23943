// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/signature"
)

// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=models,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=models/status,verbs=get;patch
// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=models/finalizers,verbs=update
// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=datasets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=models.ai.zeroinfra.github.com,verbs=patch

// Kind is the kind Model.
type Kind struct{}

var (
	_ typed.Kind[*aiv1.Model]           = Kind{}
	_ typed.Referrer[*aiv1.Model]       = Kind{}
	_ typed.Guarded[*aiv1.Model]        = Kind{}
	_ typed.Used[*aiv1.Model]           = Kind{}
	_ typed.ObjectMaker                 = Kind{}
	_ typed.ObjectReporter[*aiv1.Model] = Kind{}
)

// kind of the objects here, of those that serve them, and of those that keep files for them.
var (
	kind      = aiv1.GroupVersion.WithKind("Model")
	inference = aiv1.GroupVersion.WithKind("Inference")
	dataset   = aiv1.GroupVersion.WithKind("Dataset")
)

// Name implements typed.Kind.
func (Kind) Name() string { return kind.Kind }

// New implements typed.Kind.
func (Kind) New() *aiv1.Model { return &aiv1.Model{} }

// Compile implements typed.Kind.
func (k Kind) Compile(m *aiv1.Model) (*typed.Output, error) { return k.CompileWith(m, nil) }

// CompileWith implements typed.Referrer.
func (Kind) CompileWith(m *aiv1.Model, _ typed.Referents) (*typed.Output, error) {
	for i, required := range m.Spec.Requires {
		if required.Name == m.Name {
			return nil, fmt.Errorf("spec.requires[%d] names the Model itself: take it out", i)
		}
	}
	if err := verified(&m.Spec); err != nil {
		return nil, err
	}
	ds, err := cacheOf(m)
	if err != nil {
		return nil, err
	}
	out := &typed.Output{}
	if ds != nil {
		out.Objects = append(out.Objects, ds)
	}
	return out, nil
}

// verified refuses versions without a good signature, where the Model has a key. It names the first of them.
func verified(spec *aiv1.ModelSpec) error {
	first, others := "", 0
	for i := range spec.Versions {
		version := &spec.Versions[i]
		switch err := signature.Verify(spec, version); {
		case err == nil:
		case first == "":
			first = fmt.Sprintf("spec.versions[%d], %q, is not verified, and no Inference begins to serve it: %s", i,
				version.Name, err)
		default:
			others++
		}
	}
	switch {
	case first == "":
		return nil
	case others > 0:
		first += fmt.Sprintf("; %d other versions are not verified either", others)
	}
	return typed.Refuse(aiv1.ReasonVersionNotVerified, first)
}

// ReferredKinds implements typed.Referrer.
func (Kind) ReferredKinds() []schema.GroupVersionKind { return []schema.GroupVersionKind{kind} }

// References implements typed.Referrer.
func (Kind) References(m *aiv1.Model) []typed.Reference {
	var all []typed.Reference
	for i, required := range m.Spec.Requires {
		all = append(all, typed.Reference{GVK: kind, Name: required.Name, Field: fmt.Sprintf("spec.requires[%d]", i)})
	}
	return all
}

// GuardedChange implements typed.Guarded: a version goes to another stage than Archived once all Models exist that it
// requires.
func (Kind) GuardedChange(before, after *aiv1.Model) string {
	for _, stage := range slices.Sorted(maps.Keys(after.Spec.Stages)) {
		version := after.Spec.Stages[stage]
		if stage != aiv1.StageArchived && before.Spec.Stages[stage] != version {
			return fmt.Sprintf("version %q cannot go to stage %s", version, stage)
		}
	}
	return ""
}

// UserKinds implements typed.Used.
func (Kind) UserKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{inference, kind}
}

// UsedBy implements typed.Used.
func (Kind) UsedBy(user typed.User) []string {
	switch user := user.(type) {
	case *aiv1.Inference:
		var names []string
		for _, ref := range modelRefs(user) {
			names = append(names, ref.Name)
		}
		for _, now := range reported(user) {
			names = append(names, now.Name)
		}
		slices.Sort(names)
		return slices.Compact(names)
	case *aiv1.Model:
		var names []string
		for _, required := range user.Spec.Requires {
			if required.Name != user.Name {
				names = append(names, required.Name)
			}
		}
		return names
	}
	return nil
}

// ReportUsers implements typed.Used.
func (Kind) ReportUsers(m *aiv1.Model, users []typed.User) {
	before := m.Status.Versions
	m.Status.InUse, m.Status.Versions = int32(len(users)), nil
	m.Status.VersionNames = versionNames(m.Spec.Versions)
	for n := range m.Spec.Versions {
		version := &m.Spec.Versions[n]
		known := aiv1.ModelVersionStatus{Name: version.Name, Cache: cacheBefore(m, before, version.Name)}
		for stage, name := range m.Spec.Stages {
			if name == version.Name {
				known.Stages = append(known.Stages, stage)
			}
		}
		slices.Sort(known.Stages)
		if m.Spec.Verification != nil {
			known.Signature = aiv1.SignatureVerified
			if signature.Verify(&m.Spec, version) != nil {
				known.Signature = aiv1.SignatureNotVerified
			}
		}
		for _, user := range users {
			if i, is := user.(*aiv1.Inference); is && serves(i, m, version.Name) {
				known.InUse++
			}
		}
		m.Status.Versions = append(m.Status.Versions, known)
	}
}

// maxVersionNames is how many versions a column names.
const maxVersionNames = 5

// versionNames are the names of versions for a column: the first ones, and how many there are beside them.
func versionNames(versions []aiv1.ModelVersion) string {
	var names []string
	for n := range versions[:min(len(versions), maxVersionNames)] {
		names = append(names, string(versions[n].Name))
	}
	text := strings.Join(names, ", ")
	if more := len(versions) - maxVersionNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// serves says whether an Inference is to serve a version, or pods of it still do.
func serves(i *aiv1.Inference, m *aiv1.Model, version aiv1.ModelVersionName) bool {
	return slices.ContainsFunc(reported(i), func(now *aiv1.InferenceModelStatus) bool {
		return now.Name == m.Name && now.Version == version
	}) || slices.ContainsFunc(modelRefs(i), func(ref aiv1.InferenceModelReference) bool {
		return ref.Name == m.Name && (ref.Version == version || ref.Stage != "" && m.Spec.Stages[ref.Stage] == version)
	})
}

// modelRefs are what an Inference names, for its canary and as adapters as well.
func modelRefs(i *aiv1.Inference) []aiv1.InferenceModelReference {
	all := []aiv1.InferenceModelReference{i.Spec.ModelRef}
	for n := range i.Spec.Adapters {
		all = append(all, i.Spec.Adapters[n].Ref())
	}
	if canary := i.Spec.Canary; canary != nil {
		all = append(all, canary.ModelRef)
	}
	return all
}

// reported are what pods of an Inference served when they were last looked at.
func reported(i *aiv1.Inference) []*aiv1.InferenceModelStatus {
	all := []*aiv1.InferenceModelStatus{i.Status.Model}
	for n := range i.Status.Adapters {
		all = append(all, &i.Status.Adapters[n].InferenceModelStatus)
	}
	if canary := i.Status.Canary; canary != nil {
		all = append(all, canary.Model)
	}
	return slices.DeleteFunc(all, func(now *aiv1.InferenceModelStatus) bool { return now == nil })
}
