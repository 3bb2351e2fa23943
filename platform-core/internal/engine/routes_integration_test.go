// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// gated is an Application that is reached by HTTP where its parameters say so.
func gated(namespace string, parameters platformv1.Parameters) *platformv1.Application {
	app := testkit.BuildApplication(namespace, "g").Domain("database").Plugin("gate", "1.0.0").Version("1.0").Topology(
		"plain").Build()
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "gate", Parameters: parameters}}
	return app
}

func setParameters(t *testing.T, app *platformv1.Application, parameters platformv1.Parameters) {
	t.Helper()
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Parameters = parameters })
}

func httpRoute(namespace string) *unstructured.Unstructured {
	route := &unstructured.Unstructured{}
	route.SetGroupVersionKind(render.HTTPRouteKind)
	route.SetNamespace(namespace)
	route.SetName("g-admin")
	return route
}

func ingressOf(namespace string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"}}
}

// routed waits until the instance is ready and says this of its routes; an empty reason for nothing.
func routed(t *testing.T, app *platformv1.Application, reason, text string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, "of its routes: "+reason, func() error {
		got := conditions.Get(app, platformv1.RoutedCondition)
		if reason == "" && got != nil || reason != "" &&
			(got == nil || got.Reason != reason || !strings.Contains(got.Message, text)) {
			return fmt.Errorf("it has %+v", app.Status.Conditions)
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, app)
	if err := testkit.StatusLint(app); err != nil {
		t.Error(err)
	}
}

// Ingresses and HTTPRoutes come with the wish and with their kind, are put back, and go with the wish.
func TestRoutesComeAndGo(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := gated(namespace, nil)
	create(t, app)
	routed(t, app, "", "")

	ingress, route := ingressOf(namespace), httpRoute(namespace)
	setParameters(t, app, platformv1.Parameters{"host": "gate.example.com", "gateway": "edge/public"})
	testkit.WaitFor(t, env.Client, ingress, "is made", nil)
	routed(t, app, platformv1.ReasonHTTPRouteNotFound, "install the Gateway API")
	if backend := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service; ingress.Spec.Rules[0].Host != "gate.example.com" ||
		backend.Name != "g" || backend.Port.Name != "http" ||
		!metav1.IsControlledBy(ingress, component(t, namespace, "g-gate")) {
		t.Errorf("the Ingress is %+v", ingress)
	}
	pods := podNames(t, namespace)

	install(t, "httproutes.yaml")
	testkit.WaitFor(t, env.Client, route, "is made by itself", nil)
	routed(t, app, platformv1.ReasonRoutesApplied, "")
	mergePatch(t, ingress, `{"spec":{"rules":[{"host":"elsewhere.example.com"}]}}`)
	testkit.WaitFor(t, env.Client, ingress, "is put back", func() error {
		if host := ingress.Spec.Rules[0].Host; host != "gate.example.com" {
			return fmt.Errorf("it is for %s", host)
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), route); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, httpRoute(namespace), "is made again", nil)

	setParameters(t, app, platformv1.Parameters{"host": "gate.example.com", "gateway": ""})
	testkit.WaitGone(t, env.Client, httpRoute(namespace))
	routed(t, app, platformv1.ReasonRoutesApplied, "")
	setParameters(t, app, nil)
	testkit.WaitGone(t, env.Client, ingress)
	routed(t, app, "", "")
	if now := podNames(t, namespace); strings.Join(now, " ") != strings.Join(pods, " ") {
		t.Errorf("the pods were %v, and are %v", pods, now)
	}
}

// An Ingress of that name that is somebody else's is left alone, and said.
func TestRouteWhoseNameIsTaken(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	foreign := ingressOf(namespace)
	foreign.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "shop", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	create(t, foreign)
	app := gated(namespace, platformv1.Parameters{"host": "gate.example.com"})
	create(t, app)
	unready(t, app, platformv1.ReasonNameTaken, `Ingress "`+namespace+`/g" belongs to no object of this operator`)
	before := foreign.ResourceVersion
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil ||
		foreign.ResourceVersion != before {
		t.Errorf("somebody else's Ingress was changed: %v", err)
	}
	if err := env.Client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	routed(t, app, platformv1.ReasonRoutesApplied, "")
}

// The account of a pod reads what its plugin says, in its own namespace, and nothing else.
func TestPermissionsOfPods(t *testing.T) {
	derivedFrom(t, "gate", "1.1.0", "1.0.0", func(parts map[string]map[string]string) {
		cut(t, parts, "    permissions:\n", "    process:\n")
	})
	namespace, other := env.Namespace(t), env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := gated(namespace, nil)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	as := rest.CopyConfig(env.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":g-gate-main"}
	pod, err := client.New(as, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the account may read pods", func(ctx context.Context) error {
		return pod.List(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	})
	for what, err := range map[string]error{
		"pods elsewhere": pod.List(t.Context(), &corev1.PodList{}, client.InNamespace(other)),
		"Secrets":        pod.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace)),
		"deletion": pod.Delete(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g-gate-main-0"}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want it forbidden", what, err)
		}
	}

	// A Role that somebody has widened is put back.
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g-gate"}}
	mergePatch(t, role, `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`)
	testkit.WaitFor(t, env.Client, role, "is put back", func() error {
		if got := fmt.Sprint(role.Rules); strings.Contains(got, "secrets") {
			return fmt.Errorf("it has %s", got)
		}
		return nil
	})

	// A version of the plugin that lets them read nothing takes the Role and its binding away.
	operate(t, app, "upgrade", "UpgradeApp", nil, "version", "1.1.0")
	testkit.WaitGone(t, env.Client, role)
	testkit.WaitGone(t, env.Client, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g-gate"}})
}
