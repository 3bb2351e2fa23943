// SPDX-License-Identifier: Apache-2.0

//go:build integration

package canary

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/config/crd"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the controller serves all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{aiv1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      "zeroinfra-system", Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// clock is a time that goes on when a test says so.
type clock struct{ seconds atomic.Int64 }

func (c *clock) now() time.Time { return began.Add(time.Duration(c.seconds.Load()) * time.Second) }

// serve runs the controller until the test ends.
func serve(t *testing.T, c *clock) {
	t.Helper()
	mgr, err := ctrl.NewManager(env.System.Config,
		ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
			// Each test has a manager of its own.
			Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := (Steps{Now: c.now}).Setup(mgr, operator.ControllerSettings{}); err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, mgr)
}

// report has the status say how the canary is, as the kind would.
func report(t *testing.T, i *aiv1.Inference, step, ready, weight int32) {
	t.Helper()
	before := i.DeepCopy()
	i.Status.ObservedGeneration = i.Generation
	showing(i, step, ready, 1, weight)
	i.Status.Canary.Replicas = max(ready, 1)
	if err := patch.Status(t.Context(), env.Client, before, i); err != nil {
		t.Fatal(err)
	}
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

// The steps are taken one after the other, a bad canary is rolled back, and stays so until it is edited.
func TestStepsAreOnRecord(t *testing.T) {
	c := &clock{}
	serve(t, c)
	i := at(t, "", 0)
	i.ObjectMeta = metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "chat"}
	i.Status = aiv1.InferenceStatus{}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Version: "v1"}
	if err := env.Client.Create(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	waitFor(t, i, aiv1.CanaryStarting, 0)
	c.seconds.Add(5)
	report(t, i, 1, 1, 25)
	waitFor(t, i, aiv1.CanaryMeasuring, 0)
	c.seconds.Add(60)
	report(t, i, 1, 1, 26)
	waitFor(t, i, aiv1.CanaryStarting, 1)
	if got := i.CanaryWeight(); got != 50 {
		t.Errorf("the canary is to have the weight %d", got)
	}
	c.seconds.Add(600)
	report(t, i, 2, 0, 0)
	waitFor(t, i, aiv1.CanaryRolledBack, 1)
	if got := i.CanaryWeight(); got != 0 {
		t.Errorf("a canary that was rolled back is to have the weight %d", got)
	}
	edit(t, i, func() { i.Spec.Canary.ModelRef.Version = "v3" })
	waitFor(t, i, aiv1.CanaryStarting, 0)
	edit(t, i, func() { i.Spec.Canary = nil })
	testkit.WaitFor(t, env.Client, i, "has no record of a canary", func() error {
		if text := i.Annotations[aiv1.CanaryProgressAnnotation]; text != "" {
			return fmt.Errorf("it has %s", text)
		}
		return nil
	})
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// rendered makes the WorkloadSet of the servers of an Inference, whose pods have annotations.
func rendered(t *testing.T, i *aiv1.Inference, annotations map[string]string) *platformv1.WorkloadSet {
	t.Helper()
	app := platformv1.ApplicationNameFor("Inference", i.Name)
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace,
		Name:   platformv1.WorkloadSetNameFor(app, component, platformv1.DefaultSet),
		Labels: map[string]string{platformv1.ApplicationLabel: app}}}
	set.Spec = platformv1.WorkloadSetSpec{Application: app, Component: component, Set: platformv1.DefaultSet,
		Plugin: platformv1.PluginReference{Name: "triton", Version: "1.0.0"}, Version: "0.7",
		Template: templateWith(t, annotations), Plan: runtime.RawExtension{Raw: []byte(`{}`)}, Revision: "1"}
	if err := env.Client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return set
}

func templateWith(t *testing.T, annotations map[string]string) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}})
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

// A gate that the plugin has no counters for is refused as soon as the plugin has rendered pods, and the steps begin
// once a version of the plugin has them.
func TestAGateThatCannotBeMeasuredIsRefused(t *testing.T) {
	serve(t, &clock{})
	i := at(t, "", 0)
	i.ObjectMeta = metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "chat"}
	i.Status = aiv1.InferenceStatus{}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Version: "v1"}
	i.Spec.Canary.Gate = &aiv1.InferenceCanaryGate{MaxTimePerToken: &metav1.Duration{Duration: time.Second}}
	if err := env.Client.Create(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	waitFor(t, i, aiv1.CanaryStarting, 0)
	set := rendered(t, i, map[string]string{"a": "b"})
	waitFor(t, i, aiv1.CanaryRefused, 0)
	want := `spec.canary.gate.maxTimePerToken cannot be measured: the pod template of the plugin "triton" 1.0.0`
	if got := i.CanaryProgress().Message; !strings.Contains(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	err := testkit.Edit(t.Context(), env.Client, set, func() {
		set.Spec.Template = templateWith(t, map[string]string{aiv1.TokensMetricAnnotation: "tokens_total",
			aiv1.TokenSecondsMetricAnnotation: "seconds_total"})
	})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, i, aiv1.CanaryStarting, 0)
}

func edit(t *testing.T, i *aiv1.Inference, change func()) {
	t.Helper()
	if err := testkit.Edit(t.Context(), env.Client, i, change); err != nil {
		t.Fatal(err)
	}
}
