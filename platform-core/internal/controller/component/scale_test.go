// SPDX-License-Identifier: Apache-2.0

package component

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestScaledBy(t *testing.T) {
	const replicas, other = `{"f:spec":{"f:replicas":{},"f:set":{}}}`, `{"f:spec":{"f:set":{}}}`
	ours, theirs := metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		manager string
	}{
		"nobody":                    {nil, ""},
		"we":                        {[]metav1.ManagedFieldsEntry{entry(owner, ours, replicas)}, ""},
		"someone else":              {[]metav1.ManagedFieldsEntry{entry(owner, ours, other), entry("hpa", theirs, replicas)}, "hpa"},
		"someone, and we the same":  {[]metav1.ManagedFieldsEntry{entry("hpa", theirs, replicas), entry(owner, ours, replicas)}, ""},
		"someone who has our name":  {[]metav1.ManagedFieldsEntry{entry(owner, theirs, replicas)}, owner},
		"someone, something else":   {[]metav1.ManagedFieldsEntry{entry("hpa", theirs, other)}, ""},
		"what cannot be understood": {[]metav1.ManagedFieldsEntry{entry("hpa", theirs, "{")}, ""},
	} {
		if manager, found := scaledBy(test.entries); manager != test.manager || found != (test.manager != "") {
			t.Errorf("%s: got %q, %v; want %q", name, manager, found, test.manager)
		}
	}
}

func TestSetReplicas(t *testing.T) {
	one := &platformv1.ComponentSpec{Component: "db", Sets: []platformv1.ComponentSet{{Name: "main"}}}
	two := &platformv1.ComponentSpec{Component: "db", Sets: []platformv1.ComponentSet{{Name: "0"}, {Name: "1"}}}
	four := new(int32(4))
	for name, test := range map[string]struct {
		has       []platformv1.ApplicationComponent
		component *platformv1.ComponentSpec
		set       string
		want      []platformv1.ApplicationComponent
	}{
		"nothing said":         {nil, one, "main", []platformv1.ApplicationComponent{{Name: "db", Replicas: four}}},
		"the component's":      {[]platformv1.ApplicationComponent{{Name: "web"}, {Name: "db", Replicas: new(int32(1))}}, one, "main", []platformv1.ApplicationComponent{{Name: "web"}, {Name: "db", Replicas: four}}},
		"the set's":            {[]platformv1.ApplicationComponent{{Name: "db", Sets: []platformv1.ComponentSet{{Name: "main"}}}}, one, "main", []platformv1.ApplicationComponent{{Name: "db", Sets: []platformv1.ComponentSet{{Name: "main", Replicas: four}}}}},
		"sets that go unnamed": {nil, two, "1", []platformv1.ApplicationComponent{{Name: "db", Sets: []platformv1.ComponentSet{{Name: "0"}, {Name: "1", Replicas: four}}}}},
	} {
		app := &platformv1.ApplicationSpec{Components: test.has}
		setReplicas(app, test.component, test.set, 4)
		if !reflect.DeepEqual(app.Components, test.want) {
			t.Errorf("%s: got %+v; want %+v", name, app.Components, test.want)
		}
	}
}

// What a typed object declares is changed there: a number given to the set would be taken back by its next compile.
func TestScaleOfATypedObjectIsRefused(t *testing.T) {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "redis-a", OwnerReferences: []metav1.OwnerReference{
		{Kind: "Redis", Name: "a", Controller: new(true)},
	}}}
	why := (&Controller{}).refuseScale(&platformv1.Component{}, &facts{}, app, app)
	if want := "Application redis-a is made from Redis a: change it there"; why != want {
		t.Errorf("got %q; want %q", why, want)
	}
}

// A set that was made before sets were told that they are fixed is still not scaled.
func TestScaleOfAFixedComponentIsRefused(t *testing.T) {
	bundle := &plugin.Bundle{Components: plugin.Components{Components: []plugin.Component{{Name: "etcd", Scaling: plugin.ScalingFixed}}}}
	component := &platformv1.Component{Spec: platformv1.ComponentSpec{Component: "etcd"}}
	app := &platformv1.Application{}
	why := (&Controller{}).refuseScale(component, &facts{state: plugin.State{Bundle: bundle}}, app, app)
	if want := "component etcd cannot be scaled once it is made"; why != want {
		t.Errorf("got %q; want %q", why, want)
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
