// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// owned waits until the engine and whoever edited it both have the parameter hz of a Component.
func owned(t *testing.T, of *platformv1.Component) {
	t.Helper()
	testkit.WaitFor(t, env.Client, of, "hz of both", func() error {
		for _, manager := range []string{"application", "kubectl-edit"} {
			if !slices.ContainsFunc(of.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
				return entry.Manager == manager && strings.Contains(entry.FieldsV1.GetRawString(), "f:hz")
			}) {
				return fmt.Errorf("hz is not %s's", manager)
			}
		}
		return nil
	})
}

// without waits until nothing of a Component has the parameter hz.
func without(t *testing.T, of *platformv1.Component) {
	t.Helper()
	testkit.WaitFor(t, env.Client, of, "without hz", func() error {
		if _, has := of.Spec.Parameters["hz"]; has || len(of.Spec.Sets[0].Parameters) > 0 {
			return fmt.Errorf("it has %v and %v", of.Spec.Parameters, of.Spec.Sets[0].Parameters)
		}
		return nil
	})
}

// told wants so many events of edits that were declared, on as many objects, and none of edits taken back.
func told(t *testing.T, namespace string, taken int) {
	t.Helper()
	// An event is written on its own, a moment after what it tells of.
	testkit.Eventually(t, "what was declared is told", func(ctx context.Context) error {
		up, err := notes(ctx, namespace, "EditTakenUp")
		if err != nil || len(up) != taken {
			return fmt.Errorf("declared were %q, %v; want %d", up, err, taken)
		}
		return nil
	})
	if back, err := notes(t.Context(), namespace, "EditReverted"); err != nil || len(back) > 0 {
		t.Errorf("taken back were %q, %v", back, err)
	}
}

// What went up from a Component is the Application's: whoever removes it there is not contradicted by that somebody
// once wrote it further down.
func TestWhatWentUpCanBeRemoved(t *testing.T) {
	app := served(t, ownMemory)
	redis := aComponent(app.Namespace, "redis-a-redis")
	mergePatch(t, redis, `{"spec":{"parameters":{"hz":"20"}}}`)
	declares(t, app, `[{"name":"redis","parameters":{"hz":"20","maxmemory":"64mb"}}]`)
	owned(t, redis)
	change(t, app, func(s *platformv1.ApplicationSpec) { delete(s.Components[0].Parameters, "hz") })
	without(t, redis)
	testkit.WaitFor(t, env.Client, redis, "nobody's", func() error {
		for _, entry := range redis.ManagedFields {
			if strings.Contains(entry.FieldsV1.GetRawString(), "f:hz") {
				return fmt.Errorf("hz is %s's", entry.Manager)
			}
		}
		return nil
	})
	declares(t, app, `[{"name":"redis","parameters":{"maxmemory":"64mb"}}]`)
	told(t, app.Namespace, 1)
}

// beating is a kind whose objects say how often Redis looks after itself, in a field of their own.
type beating struct{ example.Kind }

// Compile implements typed.Kind.
func (beating) Compile(s *example.Sample) (*typed.Output, error) {
	app := application("")
	if s.Spec.Replicas > 0 {
		app.Spec.Components = []platformv1.ApplicationComponent{
			{Name: "redis", Parameters: platformv1.Parameters{"hz": platformv1.ParameterValue(fmt.Sprint(s.Spec.Replicas))}}}
	}
	return &typed.Output{Application: &platformv1.Application{Spec: app.Spec}}, nil
}

// WriteThrough implements typed.Writer.
func (beating) WriteThrough() map[string]string {
	return map[string]string{"components[redis].parameters.hz": "replicas"}
}

// Convert implements typed.Converter.
func (beating) Convert(_ string, value any) (any, error) {
	return strconv.ParseInt(fmt.Sprint(value), 10, 32)
}

// The same of a typed object: it is gone from that, from the Application and from the Component.
func TestWhatWentUpCanBeRemovedFromATypedObject(t *testing.T) {
	namespace := env.Namespace(t)
	runTyped(t, typed.Register(beating{}))
	node(t, namespace)
	mayWrite(t, namespace)
	sample := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"},
		Spec: example.SampleSpec{Version: "7.0"}}
	create(t, sample)
	testkit.WaitForReady(t, env.Client, sample)
	redis := aComponent(namespace, "sample-a-redis")
	mergePatch(t, redis, `{"spec":{"parameters":{"hz":"20"}}}`)
	testkit.WaitFor(t, env.Client, sample, "hz", func() error {
		if sample.Spec.Replicas != 20 {
			return fmt.Errorf("it has %d", sample.Spec.Replicas)
		}
		return nil
	})
	owned(t, redis)
	mergePatch(t, sample, `{"spec":{"replicas":null}}`)
	without(t, redis)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample-a"}}
	declares(t, app, "null")
	refresh(t, sample)
	if sample.Spec.Replicas != 0 {
		t.Errorf("it has %d", sample.Spec.Replicas)
	}
	told(t, namespace, 1)
}

// What is edited in a set of a component that has just one is declared for the component, and comes down there: it is
// not in the way of anything then.
func TestParametersOfTheOnlySetGoUp(t *testing.T) {
	app := served(t, ownMemory)
	redis := aComponent(app.Namespace, "redis-a-redis")
	mergePatch(t, redis, `{"spec":{"sets":[{"name":"main","replicas":1,"parameters":{"hz":"20"}}]}}`)
	declares(t, app, `[{"name":"redis","parameters":{"hz":"20","maxmemory":"64mb"}}]`)
	testkit.WaitFor(t, env.Client, redis, "with hz in one place", func() error {
		if redis.Spec.Parameters["hz"] != "20" || len(redis.Spec.Sets[0].Parameters) > 0 {
			return fmt.Errorf("it has %v and %v", redis.Spec.Parameters, redis.Spec.Sets[0].Parameters)
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Parameters["hz"] = "30" })
	testkit.WaitFor(t, env.Client, redis, "with what was declared later", func() error {
		if redis.Spec.Parameters["hz"] != "30" {
			return fmt.Errorf("it has %v", redis.Spec.Parameters)
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.NetworkPolicy = &platformv1.NetworkPolicy{} })
	testkit.WaitFor(t, env.Client, redis, "with a later change", func() error {
		if redis.Spec.NetworkPolicy == nil {
			return fmt.Errorf("it has none")
		}
		return nil
	})
	told(t, app.Namespace, 1)
}

// The last of the parameters of a Component is taken out like one of several.
func TestTheLastParameterIsTakenOut(t *testing.T) {
	app := served(t, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{Name: "redis", Parameters: platformv1.Parameters{"hz": "20"}}}
	})
	redis := aComponent(app.Namespace, "redis-a-redis")
	mergePatch(t, redis, `{"spec":{"parameters":{"hz":null}}}`)
	declares(t, app, `[{"name":"redis"}]`)
	without(t, redis)
	told(t, app.Namespace, 1)
}

// What was edited, and not yet declared when the instance was suspended, waits like what is edited then. Only that it
// is to be left alone is written.
func TestEditsBeforeASuspensionWait(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	stop()
	mergePatch(t, aComponent(namespace, "a-web"), `{"spec":{"replicas":2}}`)
	mergePatch(t, app, `{"spec":{"suspend":true}}`)
	run(t, -1)
	set := aSet(namespace, "a-db-1")
	suspended := func() error {
		if !set.Spec.Suspend {
			return fmt.Errorf("it is not")
		}
		return nil
	}
	testkit.WaitFor(t, env.Client, set, "suspended", suspended)
	mergePatch(t, set, `{"spec":{"replicas":4,"suspend":false}}`)
	testkit.WaitFor(t, env.Client, set, "suspended again", suspended)
	if set.Spec.Replicas != 4 || len(app.Spec.Components) > 0 {
		t.Errorf("the set has %d replicas, and declared are %+v", set.Spec.Replicas, app.Spec.Components)
	}
	mergePatch(t, app, `{"spec":{"suspend":false}}`)
	testkit.WaitFor(t, env.Client, app, "declares both", func() error {
		if len(app.Spec.Components) != 2 {
			return fmt.Errorf("it declares %+v", app.Spec.Components)
		}
		return nil
	})
	replicasOf(t, app, "a-web-main", 2)
	replicasOf(t, app, set.Name, 4)
	testkit.WaitForReady(t, env.Client, app)
	refresh(t, set)
	if set.Spec.Suspend {
		t.Error("the set is still suspended")
	}
	told(t, namespace, 2)
}
