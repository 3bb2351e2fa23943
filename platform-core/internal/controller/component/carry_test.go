// SPDX-License-Identifier: Apache-2.0

package component

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/outermost"
)

func template(t *testing.T, memory, image string) map[string]any {
	t.Helper()
	return map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "agent"},
		map[string]any{"name": "db", "image": image, "resources": map[string]any{"limits": map[string]any{"memory": memory}}},
	}}}
}

// Replicas and resources of an edited set can be declared; another edit beside them is taken back later.
func TestSplit(t *testing.T) {
	path := func(name string) fieldpath.Path { return fieldpath.MakePathOrDie("spec", name) }
	live := &platformv1.WorkloadSet{Spec: platformv1.WorkloadSetSpec{Set: "main", Replicas: 5}}
	component := &platformv1.Component{
		Spec: platformv1.ComponentSpec{Component: "db", Sets: []platformv1.ComponentSet{{Name: "main"}}}}
	component.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	memory := outermost.Value{Set: "main", Field: "resources", Path: []string{"limits", "memory"}, Value: "2Gi"}
	for name, test := range map[string]struct {
		edit           edits.Edit
		values         []outermost.Value
		edits, adopted int
	}{
		"replicas": {edits.Edit{Path: path("replicas"), Wanted: int64(3), Is: int64(5)},
			[]outermost.Value{outermost.Replicas("main", 5)}, 1, 0},
		"memory": {edits.Edit{Path: path("template"), Wanted: template(t, "1Gi", "x"),
			Is: template(t, "2Gi", "x")}, []outermost.Value{memory}, 1, 0},
		"memory, and another too": {edits.Edit{Path: path("template"), Wanted: template(t, "1Gi", "x"),
			Is: template(t, "2Gi", "y")}, []outermost.Value{memory}, 1, 0},
		"an image": {edits.Edit{Path: path("template"), Wanted: template(t, "1Gi", "x"), Is: template(t, "1Gi", "y")},
			nil, 1, 0},
		"memory as it is": {edits.Edit{Path: path("template"), Wanted: template(t, "1Gi", "x"),
			Is: template(t, "1024Mi", "x")}, nil, 0, 1},
		"a plan": {edits.Edit{Path: path("plan"), Is: map[string]any{}}, nil, 1, 0},
	} {
		values, rest, partly := split(edits.Found{Edits: []edits.Edit{test.edit}}, live, component, &platformv1.Application{},
			"db")
		if !reflect.DeepEqual(values, test.values) || len(rest.Edits) != test.edits || len(rest.Adopted) != test.adopted {
			t.Errorf("%s: got %+v and %+v", name, values, rest)
		}
		if told := len(partly.Edits) > 0; told != (name == "memory, and another too") {
			t.Errorf("%s: what is lost is told: %t", name, told)
		}
	}
}

// Of a template that has yet to be written as it is wanted nobody can tell what of it was edited: nothing of it is
// declared, and it is told of only where its resources differ.
func TestSplitOfATemplateThatIsBehind(t *testing.T) {
	component := &platformv1.Component{
		Spec: platformv1.ComponentSpec{Component: "db", Sets: []platformv1.ComponentSet{{Name: "main"}}}}
	component.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	live := &platformv1.WorkloadSet{Spec: platformv1.WorkloadSetSpec{Set: "main"}}
	for name, test := range map[string]struct {
		is             map[string]any
		edits, adopted int
	}{
		"other resources": {template(t, "2Gi", "x"), 1, 0},
		"another image":   {template(t, "1Gi", "y"), 0, 1},
	} {
		edit := edits.Edit{Path: fieldpath.MakePathOrDie("spec", "template"), Wanted: template(t, "1Gi", "x"), Is: test.is}
		values, rest, partly := split(edits.Found{Edits: []edits.Edit{edit}, Behind: true}, live, component,
			&platformv1.Application{}, "db")
		if len(values)+len(partly.Edits) != 0 || len(rest.Edits) != test.edits || len(rest.Adopted) != test.adopted {
			t.Errorf("%s: got %+v, %+v and %+v", name, values, rest, partly)
		}
	}
}

// The volumes of a set are an Operation's to choose, and the number of pods an autoscaler's.
func TestLeftAlone(t *testing.T) {
	fixed, auto := &platformv1.Component{},
		&platformv1.Component{Spec: platformv1.ComponentSpec{Autoscaling: &platformv1.Autoscaling{}}}
	for name, test := range map[string]struct {
		component *platformv1.Component
		path      []any
		want      bool
	}{
		"data":                 {fixed, []any{"spec", "data"}, true},
		"its generation":       {fixed, []any{"spec", "data", "generation"}, true},
		"another of that name": {fixed, []any{"spec", "database"}, false},
		"replicas":             {fixed, []any{"spec", "replicas"}, false},
		"replicas by load":     {auto, []any{"spec", "replicas"}, true},
		"data, scaled by load": {auto, []any{"spec", "data"}, true},
	} {
		if got := leftAlone(test.component)(edits.Edit{Path: fieldpath.MakePathOrDie(test.path...)}); got != test.want {
			t.Errorf("%s is left alone: %t", name, got)
		}
	}
}

// The number of a set that has lost its autoscaler goes up, unless the Application names one.
func TestSplitOfAReleasedSet(t *testing.T) {
	live := &platformv1.WorkloadSet{Spec: platformv1.WorkloadSetSpec{Set: "main", Replicas: 5,
		Scaling: platformv1.SetScalingAuto}}
	found := edits.Found{Edits: []edits.Edit{
		{Path: fieldpath.MakePathOrDie("spec", "replicas"), Wanted: int64(3), Is: int64(5)}}}
	component := &platformv1.Component{Spec: platformv1.ComponentSpec{Component: "db"}}
	app := &platformv1.Application{}
	if values, _, _ := split(found, live, component, app, "db"); len(values) != 1 {
		t.Errorf("its number is lost: %v", values)
	}
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "db", Replicas: new(int32(3))}}
	if values, rest, _ := split(found, live, component, app, "db"); len(values)+len(rest.Edits) != 0 ||
		len(rest.Adopted) != 1 {
		t.Errorf("the number that is declared does not count: %v, %v", values, rest)
	}
}

func TestNamesReplicas(t *testing.T) {
	app := &platformv1.ApplicationSpec{Components: []platformv1.ApplicationComponent{
		{Name: "web", Replicas: new(int32(2))},
		{Name: "db", Sets: []platformv1.ComponentSet{{Name: "0", Replicas: new(int32(1))}, {Name: "1"}}},
	}}
	for _, test := range []struct {
		component, set string
		want           bool
	}{{"web", "main", true}, {"db", "0", true}, {"db", "1", false}, {"cache", "main", false}} {
		if got := namesReplicas(app, test.component, test.set); got != test.want {
			t.Errorf("set %s of component %s: %v", test.set, test.component, got)
		}
	}
}
