// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "shop"} }

func served(name string, ref aiv1.InferenceModelReference, now aiv1.ModelVersionName) *aiv1.Inference {
	i := &aiv1.Inference{ObjectMeta: named(name), Spec: aiv1.InferenceSpec{ModelRef: ref}}
	if now != "" {
		i.Status.Model = &aiv1.InferenceModelStatus{Name: "chat", Version: now}
	}
	return i
}

func TestUsersAreCountedByVersion(t *testing.T) {
	m := &aiv1.Model{ObjectMeta: named("chat"), Spec: aiv1.ModelSpec{
		Versions: []aiv1.ModelVersion{{Name: "1.0"}, {Name: "2.0"}, {Name: "3.0"}},
		Stages:   map[aiv1.ModelStage]aiv1.ModelVersionName{"Staging": "2.0", "Production": "2.0"},
	}}
	adapter := &aiv1.Model{ObjectMeta: named("adapter"),
		Spec: aiv1.ModelSpec{Requires: []aiv1.ModelReference{{Name: "chat"}, {Name: "adapter"}}}}
	// Its canary is on its way from 3.0 to 1.0.
	canary := served("d", aiv1.InferenceModelReference{Name: "other", Version: "1.0"}, "")
	canary.Spec.Canary = &aiv1.InferenceCanary{ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: "1.0"}}
	canary.Status.Canary = &aiv1.InferenceCanaryStatus{Model: &aiv1.InferenceModelStatus{Name: "chat", Version: "3.0"}}
	// It adapts another Model by 3.0, and did by 2.0.
	adapted := served("e", aiv1.InferenceModelReference{Name: "other", Version: "1.0"}, "")
	adapted.Spec.Adapters = []aiv1.InferenceAdapter{{Name: "chat", Version: "3.0"}}
	adapted.Status.Adapters = []aiv1.InferenceAdapterStatus{
		{InferenceModelStatus: aiv1.InferenceModelStatus{Name: "chat", Version: "2.0"}}}
	users := []typed.User{
		canary, adapted,
		adapter,
		// It is on its way from 1.0 to what is in production.
		served("a", aiv1.InferenceModelReference{Name: "chat", Stage: "Production"}, "1.0"),
		served("b", aiv1.InferenceModelReference{Name: "chat", Version: "2.0"}, "2.0"),
		// It goes to another Model, and still serves this one.
		served("c", aiv1.InferenceModelReference{Name: "other", Version: "3.0"}, "1.0"),
	}
	for _, user := range users {
		if !slices.Contains(Kind{}.UsedBy(user), "chat") {
			t.Errorf("%s does not use the model", user.GetName())
		}
	}
	if got := (Kind{}).UsedBy(adapter); !slices.Equal(got, []string{"chat"}) {
		t.Errorf("the adapter uses %q", got)
	}
	Kind{}.ReportUsers(m, users)
	want := aiv1.ModelStatus{InUse: 6, VersionNames: "1.0, 2.0, 3.0", Versions: []aiv1.ModelVersionStatus{
		{Name: "1.0", InUse: 3},
		{Name: "2.0", InUse: 3, Stages: []aiv1.ModelStage{"Production", "Staging"}},
		{Name: "3.0", InUse: 2},
	}}
	if !reflect.DeepEqual(m.Status, want) {
		t.Errorf("got %+v, want %+v", m.Status, want)
	}
}

// A column names a few versions, and says how many there are beside them, whatever their names are.
func TestVersionNamesAreBounded(t *testing.T) {
	long := strings.Repeat("v", 63)
	for want, count := range map[string]int{
		"":                                  0,
		long:                                1,
		strings.Repeat(long+", ", 4) + long: 5,
		strings.Repeat(long+", ", 4) + long + " and 1 more":  6,
		strings.Repeat(long+", ", 4) + long + " and 59 more": 64,
	} {
		got := versionNames(slices.Repeat([]aiv1.ModelVersion{{Name: aiv1.ModelVersionName(long)}}, count))
		if got != want || len(got) > 400 {
			t.Errorf("%d versions are %q; want %q", count, got, want)
		}
	}
}

func TestRequiredModelsAreReferences(t *testing.T) {
	m := &aiv1.Model{ObjectMeta: named("adapter"), Spec: aiv1.ModelSpec{Requires: []aiv1.ModelReference{{Name: "chat"}}}}
	if got := (Kind{}).References(m); len(got) != 1 || got[0].Name != "chat" || got[0].Field != "spec.requires[0]" {
		t.Errorf("got %+v", got)
	}
	if _, err := (Kind{}).Compile(m); err != nil {
		t.Error(err)
	}
	m.Spec.Requires[0].Name = "adapter"
	if _, err := (Kind{}).Compile(m); err == nil ||
		!strings.Contains(err.Error(), "spec.requires[0] names the Model itself") {
		t.Errorf("got %v", err)
	}
}

// known reads Models by their names; what is nil is being deleted.
type known map[string]*aiv1.Model

func (k known) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	m, exists := k[key.Name]
	if !exists {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "models"}, key.Name)
	}
	if m == nil {
		m = &aiv1.Model{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}
	}
	m.DeepCopyInto(obj.(*aiv1.Model))
	return nil
}

// A version goes to a stage once the Models exist that it requires. What is not such a change is taken.
func TestPromotionNeedsWhatTheModelRequires(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := aiv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	type stages = map[aiv1.ModelStage]aiv1.ModelVersionName
	of := func(in stages, requires ...string) *aiv1.Model {
		m := &aiv1.Model{ObjectMeta: named("adapter"), Spec: aiv1.ModelSpec{Stages: in}}
		for _, name := range requires {
			m.Spec.Requires = append(m.Spec.Requires, aiv1.ModelReference{Name: name})
		}
		return m
	}
	there, going := &aiv1.Model{ObjectMeta: named("base")}, (*aiv1.Model)(nil)
	first, second := stages{"Production": "1.0"}, stages{"Production": "2.0"}
	const cannot = `version "2.0" cannot go to stage Production: spec.requires[0] names Model "base", which `
	for title, c := range map[string]struct {
		have          known
		before, after *aiv1.Model
		want          string
	}{
		"nothing is required":    {known{}, of(first), of(second), ""},
		"it is there":            {known{"base": there}, of(first, "base"), of(second, "base"), ""},
		"it is missing":          {known{}, of(first, "base"), of(second, "base"), cannot + "does not exist: create it"},
		"it is being deleted":    {known{"base": going}, of(first, "base"), of(second, "base"), cannot + "is being deleted"},
		"the first stage":        {known{}, of(nil, "base"), of(second, "base"), cannot + "does not exist"},
		"it is required now":     {known{}, of(first), of(second, "base"), cannot + "does not exist"},
		"it is required no more": {known{}, of(first, "base"), of(second), ""},
		"no other version":       {known{}, of(first), of(first, "base"), ""},
		"a stage less":           {known{}, of(first, "base"), of(nil, "base"), ""},
		"archived":               {known{}, of(nil, "base"), of(stages{"Archived": "1.0"}, "base"), ""},
		"the second is missing": {known{"base": there}, of(first, "base"), of(second, "base", "tokenizer"),
			`spec.requires[1] names Model "tokenizer", which does not exist`},
	} {
		refusal, err := typed.Register(Kind{}).JudgeChange(t.Context(), c.have, scheme, c.before, c.after)
		said := ""
		if refusal != nil {
			said = refusal.Message
		}
		if err != nil || (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: got %q, want %q: %v", title, said, c.want, err)
		}
	}
}
