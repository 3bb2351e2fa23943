// SPDX-License-Identifier: Apache-2.0

//go:build integration

package canary

import (
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

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
		ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
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

func edit(t *testing.T, i *aiv1.Inference, change func()) {
	t.Helper()
	if err := testkit.Edit(t.Context(), env.Client, i, change); err != nil {
		t.Fatal(err)
	}
}
