// SPDX-License-Identifier: Apache-2.0

package application

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// follower is a kind whose objects count pods without the first.
type follower struct{ example.Kind }

// WriteThrough implements typed.Writer.
func (follower) WriteThrough() map[string]string {
	return map[string]string{"components[redis].replicas": "followers", "components[redis].resources": "resources"}
}

// Convert implements typed.Converter.
func (follower) Convert(field string, value any) (any, error) {
	if field != "components[redis].replicas" {
		return value, nil
	}
	pods, ok := value.(int64)
	if !ok || pods < 1 {
		return nil, errors.New("a Sample has one pod at least")
	}
	return pods - 1, nil
}

// A record speaks of the fields that the user knows, with the values that they have there; what those have no word for
// it tells of the Application.
func TestARecordSpeaksOfWhatTheUserDeclares(t *testing.T) {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "sample-a",
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: example.GroupVersion.String(), Kind: "Sample", Name: "a", UID: "1", Controller: new(true)}}}}
	c := &Controller{Deps: Deps{Kinds: map[schema.GroupKind]typed.Registration{
		{Group: example.GroupVersion.Group, Kind: "Sample"}: typed.Register(follower{})}}}
	differences := []opsflow.Difference{
		{Field: "components[redis].replicas", Before: float64(3), After: float64(5)},
		{Field: "components[redis].replicas", Before: float64(3), After: float64(0)},
		{Field: "components[redis].resources.limits.memory", After: "1Gi"},
		{Field: "components[redis].parameters.hz", Before: "10", After: "20"},
	}
	want := []string{"spec.followers: 2 → 4", "of Application sample-a spec.components[redis].replicas: 3 → 0",
		"spec.resources.limits.memory: none → 1Gi",
		"of Application sample-a spec.components[redis].parameters.hz: 10 → 20"}
	if got := c.words(app, differences); !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	_, target := opsflow.DeclaredBy(app)
	if target.Kind != "Sample" || target.Name != "a" || target.APIVersion != example.GroupVersion.String() {
		t.Errorf("the target is %v", target)
	}
	// What somebody else owns is no object that the engine knows.
	for name, change := range map[string]func(*platformv1.Application){
		"another name": func(app *platformv1.Application) { app.Name = "other" },
		"another kind": func(app *platformv1.Application) { app.OwnerReferences[0].Kind = "Release" },
		"nobody":       func(app *platformv1.Application) { app.OwnerReferences = nil },
	} {
		other := app.DeepCopy()
		change(other)
		if _, target := opsflow.DeclaredBy(other); target.Kind != "Application" || target.Name != other.Name {
			t.Errorf("%s: the target is %v", name, target)
		}
	}
	app.OwnerReferences = nil
	if got := c.words(app, differences[:1]); got[0] != "spec.components[redis].replicas: 3 → 5" {
		t.Errorf("of an Application it says %q", got)
	}
}
