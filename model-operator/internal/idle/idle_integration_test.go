// SPDX-License-Identifier: Apache-2.0

//go:build integration

package idle

import (
	"context"
	"fmt"
	"io/fs"
	"os"
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

// serve runs the controller until what it returns is called, or the test ends.
func serve(t *testing.T) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(env.System.Config,
		ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := (Servers{Now: func() time.Time { return began }}).Setup(mgr, operator.ControllerSettings{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	running := true
	stop = func() {
		if !running {
			return
		}
		running = false
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// instance is an Inference with what the engine would make of it.
type instance struct {
	*testing.T
	inference *aiv1.Inference
	set       *platformv1.WorkloadSet
	door      *corev1.Pod
}

func made(t *testing.T, change func(*aiv1.InferenceSpec)) *instance {
	t.Helper()
	namespace := env.Namespace(t)
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chat"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Version: "v1"}
	i.Spec.Idle = &aiv1.InferenceIdle{}
	if change != nil {
		change(&i.Spec)
	}
	labels := func(component string) map[string]string {
		return map[string]string{platformv1.ApplicationLabel: "inference-chat", platformv1.ComponentLabel: component}
	}
	set := &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-chat-server-main", Labels: labels(server)},
		Spec: platformv1.WorkloadSetSpec{Application: "inference-chat", Component: server, Set: "main", Replicas: 1,
			Plugin: platformv1.PluginReference{Name: "llama-cpp", Version: "1.0.0"}, Version: "0.7", Topology: "server-door",
			Template: runtime.RawExtension{Raw: []byte(`{}`)}, Plan: runtime.RawExtension{Raw: []byte(`{}`)}, Revision: "1"},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-chat-door-main-0",
		Labels: labels(door), OwnerReferences: []metav1.OwnerReference{{APIVersion: platformv1.GroupVersion.String(),
			Kind: "WorkloadSet", Name: "inference-chat-door-main", UID: "1", Controller: new(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "door", Image: "a"}}}}
	if err := env.Client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Create(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	made := &instance{t, i, set, pod}
	made.ready()
	return made
}

// ready has the status say so of the spec, as the kind would.
func (m *instance) ready() {
	m.Helper()
	before := m.inference.DeepCopy()
	m.inference.Status.ObservedGeneration = m.inference.Generation
	m.inference.Status.Conditions = []metav1.Condition{{Type: platformv1.ReadyCondition, Status: metav1.ConditionTrue,
		Reason: "Ready", LastTransitionTime: metav1.NewTime(began)}}
	if err := patch.Status(m.Context(), env.Client, before, m.inference); err != nil {
		m.Fatal(err)
	}
}

// report has the agent of the door report a demand.
func (m *instance) report(d demand) {
	m.Helper()
	if err := testkit.Edit(m.Context(), env.Client, m.door, func() {
		m.door.Annotations = map[string]string{
			platformv1.ReportAnnotation: `{"health":"Healthy","attributes":{"demand":"` + string(d) + `"}}`}
	}); err != nil {
		m.Fatal(err)
	}
}

// scale has the set have so many pods, as the engine would.
func (m *instance) scale(replicas int32) {
	m.Helper()
	if err := testkit.Edit(m.Context(), env.Client, m.set, func() { m.set.Spec.Replicas = replicas }); err != nil {
		m.Fatal(err)
	}
}

func (m *instance) waitFor(phase aiv1.IdlePhase) {
	m.Helper()
	testkit.WaitFor(m.T, env.Client, m.inference, "is "+string(phase), func() error {
		if p := m.inference.IdleProgress(); p.Phase != phase {
			return fmt.Errorf("it is %+v", p)
		}
		return nil
	})
}

// Servers go while no request comes, and come with one, also where the operator is another one at each step.
func TestServersComeAndGo(t *testing.T) {
	m := made(t, nil)
	stop := serve(t)
	for range 2 {
		m.report(quiet)
		m.waitFor(aiv1.IdleNoServers)
		stop()
		m.scale(0)
		m.report(active)
		m.report(waiting)
		stop = serve(t)
		m.waitFor(aiv1.IdleStarting)
		stop()
		m.scale(1)
		stop = serve(t)
		m.waitFor(aiv1.IdleActive)
	}
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// An Inference without a door has servers, whatever was decided before, and one whose record is lost as well.
func TestServersAreBackWithoutADoor(t *testing.T) {
	m := made(t, func(spec *aiv1.InferenceSpec) { spec.MinReplicas, spec.MaxReplicas = 1, 3 })
	serve(t)
	m.report(quiet)
	m.waitFor(aiv1.IdleNoServers)
	m.scale(0)
	if err := testkit.Edit(t.Context(), env.Client, m.inference, func() { m.inference.Annotations = nil }); err != nil {
		t.Fatal(err)
	}
	m.waitFor(aiv1.IdleStarting)
	m.scale(1)
	m.waitFor(aiv1.IdleNoServers)
	if err := testkit.Edit(t.Context(), env.Client, m.inference, func() { m.inference.Spec.Idle = nil }); err != nil {
		t.Fatal(err)
	}
	m.waitFor(aiv1.IdleActive)
}
