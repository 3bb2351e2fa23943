// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/config/crd"
	"github.com/zeroinfra/model-operator/internal/canary"
	"github.com/zeroinfra/model-operator/internal/kind"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the controllers serve all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{aiv1.AddToScheme, gatewayv1.Install},
		CRDs:        []fs.FS{os.DirFS("../../platform-core/config/crd/bases"), crd.FS, gatewayAPI()},
		System:      "zeroinfra-system", Roles: []fs.FS{os.DirFS("../config/rbac")},
	})
}

// gatewayAPI has the definitions of the standard channel, of the version that the tests are compiled with.
func gatewayAPI() fs.FS {
	said, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		panic(fmt.Errorf("where is the Gateway API? %w", err))
	}
	return os.DirFS(filepath.Join(strings.TrimSpace(string(said)), "config/crd/standard"))
}

// clock is a time that goes on when a test says so.
type clock struct{ seconds atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(c.seconds.Load()) * time.Second)
}

// serve runs the kinds and the controller of the steps until the test ends.
func serve(t *testing.T, c *clock) {
	t.Helper()
	mgr, err := ctrl.NewManager(env.System.Config,
		ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := (canary.Steps{Now: c.now}).Setup(mgr, operator.ControllerSettings{}); err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, mgr)
	kindtest.Serve(t, env, kind.All()...)
}

// waitFor waits until a phase of a step, from 0 on, is on record.
func waitFor(t *testing.T, i *aiv1.Inference, phase aiv1.CanaryPhase, step int32) {
	t.Helper()
	testkit.WaitFor(t, env.Client, i, fmt.Sprintf("is %s at step %d", phase, step), func() error {
		if p := i.CanaryProgress(); p.Phase != phase || p.Step != step {
			return fmt.Errorf("it is %+v", p)
		}
		return nil
	})
}

// engine says that the pods of an Application are ready, those of the canary so many at most.
func engine(t *testing.T, app *platformv1.Application, most int32) {
	t.Helper()
	before := app.DeepCopy()
	app.Status.ObservedGeneration, app.Status.Phase = app.Generation, platformv1.PhaseReady
	state := platformv1.ComponentState{Name: "server"}
	for _, set := range app.Spec.Components[0].Sets {
		pods := int32(4)
		if set.Replicas != nil {
			pods = *set.Replicas
		}
		ready := pods
		if set.Name == aiv1.CanarySet {
			ready = min(pods, most)
		}
		state.Sets = append(state.Sets, platformv1.SetState{Name: set.Name, Replicas: pods, ReadyReplicas: ready})
	}
	app.Status.Components = []platformv1.ComponentState{state}
	conditions.Report(app, outcome.Done(), "all components are ready")
	if err := patch.Status(t.Context(), env.Client, before, app); err != nil {
		t.Fatal(err)
	}
}

// touch has the controller look at the clock.
func touch(t *testing.T, i *aiv1.Inference, c *clock) {
	t.Helper()
	change := func() { i.Annotations["example.com/now"] = c.now().String() }
	if err := testkit.Edit(t.Context(), env.Client, i, change); err != nil {
		t.Fatal(err)
	}
}

// weighs waits until the API server has an HTTPRoute with these weights of the pods that are always there and of the
// canary, and until the status tells of the second.
func weighs(t *testing.T, i *aiv1.Inference, stable, canary int32) {
	t.Helper()
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: "inference-" + i.Name}}
	testkit.WaitFor(t, env.Client, route, fmt.Sprintf("has the weights %d and %d", stable, canary), func() error {
		weights := map[string]int32{}
		for _, rule := range route.Spec.Rules {
			for _, ref := range rule.BackendRefs {
				weights[string(ref.Name)] = *ref.Weight
			}
		}
		if weights[route.Name+"-stable"] != stable || weights[route.Name+"-canary"] != canary {
			return fmt.Errorf("it has %v", weights)
		}
		return nil
	})
	accept(t, route)
	if len(route.Spec.Hostnames) != 1 || route.Spec.Hostnames[0] != "chat.example.org" ||
		len(route.Spec.ParentRefs) != 1 || route.Spec.ParentRefs[0].Name != "public" {
		t.Errorf("the route is %+v", route.Spec)
	}
	testkit.WaitFor(t, env.Client, i, "tells the weight", func() error {
		if s := i.Status.Canary; s == nil || s.Weight != canary || s.Mechanism != aiv1.CanaryByHTTPRoute {
			return fmt.Errorf("the canary is %+v", s)
		}
		return nil
	})
}

// accept has a Gateway say that it takes the present generation of a route.
func accept(t *testing.T, route *gatewayv1.HTTPRoute) {
	t.Helper()
	before := route.DeepCopy()
	route.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: route.Spec.ParentRefs[0],
		ControllerName: "example.com/gateway", Conditions: []metav1.Condition{{
			Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionTrue, Reason: "Accepted",
			ObservedGeneration: route.Generation, LastTransitionTime: metav1.Now()}}}}
	if err := env.Client.Status().Patch(t.Context(), route, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// unrouted waits until the status says that no Gateway has taken up the weight of the canary.
func unrouted(t *testing.T, i *aiv1.Inference, weight int32) {
	t.Helper()
	testkit.WaitFor(t, env.Client, i, "tells that no Gateway has the route", func() error {
		if s := i.Status.Canary; s == nil || s.Weight != 0 || s.Phase != aiv1.CanaryStarting ||
			!strings.Contains(s.Message, fmt.Sprintf("the weight %d of HTTPRoute", weight)) ||
			!strings.Contains(s.Message, "no Gateway has said") {
			return fmt.Errorf("the canary is %+v", s)
		}
		return nil
	})
}

// routedInference is one with a Gateway that splits the requests between two versions, by steps of a minute.
func routedInference(namespace string) *aiv1.Inference {
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "routed"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Version: "v1"}
	i.Spec.Replicas = new(int32(4))
	i.Spec.HTTPRoute = &aiv1.InferenceHTTPRoute{Host: "chat.example.org", Gateway: "public"}
	i.Spec.Canary = &aiv1.InferenceCanary{ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: "v2"}}
	for _, weight := range []int32{10, 50, 100} {
		i.Spec.Canary.Steps = append(i.Spec.Canary.Steps,
			aiv1.InferenceCanaryStep{Weight: weight, Pause: metav1.Duration{Duration: time.Minute}})
	}
	return i
}

// The HTTPRoute is one that the Gateway API admits, and its weights follow the steps and the pods of the canary.
func TestWeightsOfARouteFollowTheSteps(t *testing.T) {
	c := &clock{}
	serve(t, c)
	i := routedInference(env.Namespace(t))
	m := &aiv1.Model{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: "chat"}}
	m.Spec.Format = aiv1.FormatGGUF
	for _, digit := range []string{"1", "2"} {
		m.Spec.Versions = append(m.Spec.Versions, aiv1.ModelVersion{Name: aiv1.ModelVersionName("v" + digit),
			SHA256: strings.Repeat(digit, 64),
			Source: aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://models.example.com/" + digit}}})
	}
	for _, err := range []error{env.Client.Create(t.Context(), m), env.Client.Create(t.Context(), i)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: "inference-routed"}}
	asks := func(pods int32) {
		t.Helper()
		testkit.WaitFor(t, env.Client, app, fmt.Sprintf("asks for %d pods of the canary", pods), func() error {
			if sets := app.Spec.Components[0].Sets; len(sets) != 2 || *sets[1].Replicas != pods {
				return fmt.Errorf("its sets are %+v", sets)
			}
			return nil
		})
	}
	asks(1)
	engine(t, app, 0)
	engine(t, app, 1)
	unrouted(t, i, 10)
	weighs(t, i, 90, 10)
	waitFor(t, i, aiv1.CanaryMeasuring, 0)
	c.seconds.Add(60)
	touch(t, i, c)
	// Until all pods of the step are ready the route keeps the weight of the one before.
	waitFor(t, i, aiv1.CanaryStarting, 1)
	asks(2)
	engine(t, app, 1)
	weighs(t, i, 90, 10)
	engine(t, app, 2)
	weighs(t, i, 50, 50)
	waitFor(t, i, aiv1.CanaryMeasuring, 1)
	c.seconds.Add(60)
	touch(t, i, c)
	asks(4)
	engine(t, app, 4)
	weighs(t, i, 0, 100)
	waitFor(t, i, aiv1.CanaryMeasuring, 2)

	// Without a ready pod it gets nothing, and then is rolled back.
	engine(t, app, 0)
	weighs(t, i, 100, 0)
	testkit.WaitFor(t, env.Client, i, "is rolled back", func() error {
		if p := i.CanaryProgress(); p.Phase != aiv1.CanaryRolledBack {
			c.seconds.Add(30)
			touch(t, i.DeepCopy(), c)
			return fmt.Errorf("it is %+v", p)
		}
		return nil
	})
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}
