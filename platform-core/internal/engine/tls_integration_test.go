// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/certmanager"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// installCertManager makes the kinds that the engine uses.
func installCertManager(t *testing.T) {
	t.Helper()
	env.Define(t, render.CertificateKind, "s", apiextensionsv1.NamespaceScoped)
	env.Define(t, render.IssuerKind, "s", apiextensionsv1.NamespaceScoped)
	env.Define(t, render.IssuerKind.GroupVersion().WithKind("ClusterIssuer"), "s", apiextensionsv1.ClusterScoped)
}

func certificateOf(namespace, name string) *unstructured.Unstructured {
	certificate := &unstructured.Unstructured{}
	certificate.SetGroupVersionKind(render.CertificateKind)
	certificate.SetNamespace(namespace)
	certificate.SetName(name)
	return certificate
}

// issue plays cert-manager for the Certificate of a component, once that is there: the authority signs it.
func issue(t *testing.T, namespace, name, authority string) *corev1.Secret {
	t.Helper()
	a := authorityNamed(t, authority)
	return issueAs(t, namespace, name, a.issues(t), a.pem)
}

// issueAs is issue with a certificate, and that of its authority, as PEM.
func issueAs(t *testing.T, namespace, name string, issued, ca []byte) *corev1.Secret {
	t.Helper()
	certificate := certificateOf(namespace, name)
	testkit.WaitFor(t, env.Client, certificate, "is made", nil)
	labels, _, err := unstructured.NestedStringMap(certificate.Object, "spec", "secretTemplate", "labels")
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": issued, "tls.key": []byte("key"), "ca.crt": ca}}
	err = env.Client.Create(t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		live := &corev1.Secret{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), live); err != nil {
			t.Fatal(err)
		}
		changed := live.DeepCopy()
		changed.Data = secret.Data
		err = env.Client.Patch(t.Context(), changed, client.MergeFrom(live))
	}
	if err != nil {
		t.Fatal(err)
	}
	before := certificate.DeepCopy()
	ready := map[string]any{"type": "Ready", "status": "True", "observedGeneration": certificate.GetGeneration()}
	if err := unstructured.SetNestedSlice(certificate.Object, []any{ready}, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Status().Patch(t.Context(), certificate, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return secret
}

// notReady has an object of cert-manager say so.
func notReady(t *testing.T, object *unstructured.Unstructured, message string) {
	t.Helper()
	before := object.DeepCopy()
	ready := map[string]any{"type": "Ready", "status": "False", "message": message,
		"observedGeneration": object.GetGeneration()}
	if err := unstructured.SetNestedSlice(object.Object, []any{ready}, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Status().Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// setTLS changes the spec.
func setTLS(t *testing.T, app *platformv1.Application, tls *platformv1.TLS) {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	before := app.DeepCopy()
	app.Spec.TLS = tls
	if err := env.Client.Patch(t.Context(), app, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func podOf(t *testing.T, app *platformv1.Application) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: app.Namespace, Name: app.Name + "-redis-main-0"}
	if err := env.Client.Get(t.Context(), key, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// wantBinding waits until clients are told to trust these authorities.
func wantBinding(t *testing.T, app *platformv1.Application, ca, uri string) {
	t.Helper()
	binding := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace,
		Name: platformv1.BindingNameFor(app.Name)}}
	testkit.WaitFor(t, env.Client, binding, "has the CA "+ca, func() error {
		if got := namesIn(binding.Data["ca.crt"]); got != ca || string(binding.Data["uri"][:len(uri)]) != uri {
			return fmt.Errorf("the CA is %q and the URI begins with %q", got, binding.Data["uri"][:len(uri)])
		}
		return nil
	})
}

// Without cert-manager TLS is waited for; once that is there it goes on; the pods are replaced for TLS, and for no
// issuer.
func TestTLSComesWithCertManager(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	run(t, -1)
	app := application(namespace)
	app.Spec.TLS = &platformv1.TLS{Enabled: true}
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "says what to install", func() error {
		ready := conditions.Get(app, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != platformv1.ReasonCertManagerNotFound || ready.Message != certmanager.Missing ||
			!conditions.IsTrue(app, platformv1.StalledCondition) {
			return fmt.Errorf("it has %v", app.Status.Conditions)
		}
		return nil
	})
	installCertManager(t)

	authority := issueAuthority(t, namespace, "first")
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-a-redis"}}
	testkit.WaitFor(t, env.Client, component, "waits for its certificate", func() error {
		if ready := conditions.Get(component, platformv1.ReadyCondition); ready == nil ||
			ready.Reason != platformv1.ReasonCertificateNotReady {
			return fmt.Errorf("it has %v", component.Status.Conditions)
		}
		return nil
	})
	var sets platformv1.WorkloadSetList
	if err := env.Client.List(t.Context(), &sets, client.InNamespace(namespace)); err != nil || len(sets.Items) != 0 {
		t.Errorf("there are sets before the certificate: %v, %v", sets.Items, err)
	}
	leaf := issue(t, namespace, "redis-a-redis-tls", "first")
	testkit.WaitForReady(t, env.Client, app)
	wantBinding(t, app, "first", "rediss://")
	for _, secret := range []*corev1.Secret{authority, leaf} {
		testkit.WaitFor(t, env.Client, secret, "goes with its Certificate", func() error {
			if by := metav1.GetControllerOf(secret); by == nil || by.Kind != "Certificate" || by.Name != secret.Name ||
				len(secret.Data["tls.key"]) == 0 {
				return fmt.Errorf("it is %+v", secret.ObjectMeta)
			}
			return nil
		})
	}
	servedAndReissued(t, app, component, leaf)

	// Off again: another pod, and the certificate is gone.
	pod := podOf(t, app)
	setTLS(t, app, nil)
	testkit.WaitForReady(t, env.Client, app)
	if got := podOf(t, app); got.UID == pod.UID || len(got.Spec.Volumes) >= len(pod.Spec.Volumes) {
		t.Errorf("the pod was not replaced, or still has the certificate")
	}
	wantBinding(t, app, "", "redis://")
	testkit.Eventually(t, "the Certificate is removed", func(ctx context.Context) error {
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(leaf), certificateOf(namespace, leaf.Name))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("got %v", err)
	})
}

// conditioned is an object whose conditions are looked at.
type conditioned interface {
	client.Object
	platformv1.Conditioned
}

// servedAndReissued looks at who serves the certificate, and gives it another issuer.
func servedAndReissued(t *testing.T, app *platformv1.Application, component *platformv1.Component,
	leaf *corev1.Secret) {
	t.Helper()
	pod := podOf(t, app)
	wantServed := func(status metav1.ConditionStatus) {
		t.Helper()
		for _, object := range []conditioned{component, app} {
			testkit.WaitFor(t, env.Client, object, "says who serves the certificate", func() error {
				if served := conditions.Get(object, platformv1.CertificateServedCondition); served == nil ||
					served.Status != status {
					return fmt.Errorf("it has %v", object.GetConditions())
				}
				return nil
			})
		}
	}
	wantServed(metav1.ConditionFalse)
	serves(t, pod, leaf)
	wantServed(metav1.ConditionTrue)

	setTLS(t, app, &platformv1.TLS{Enabled: true,
		IssuerRef: &platformv1.IssuerReference{Name: "house", Kind: "ClusterIssuer"}})
	certificate := certificateOf(app.Namespace, leaf.Name)
	testkit.WaitFor(t, env.Client, certificate, "has the issuer", func() error {
		if got, _, _ := unstructured.NestedString(certificate.Object, "spec", "issuerRef", "name"); got != "house" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	wantIssuer := func(object conditioned, says string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, object, "says what is wrong with the issuer", func() error {
			ready := conditions.Get(object, platformv1.ReadyCondition)
			if ready == nil || ready.Reason != platformv1.ReasonIssuerNotReady || !strings.Contains(ready.Message, says) ||
				!conditions.IsTrue(object, platformv1.StalledCondition) {
				return fmt.Errorf("it has %v", object.GetConditions())
			}
			return nil
		})
	}
	notReady(t, certificate, "it is not issued")
	wantIssuer(component, `ClusterIssuer "house", which tls.issuerRef names, is not in the cluster: create it, or name `+
		`another one`)
	wantIssuer(app, `ClusterIssuer "house"`)
	house := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer"}}
	house.SetName("house")
	if err := env.Client.Create(t.Context(), house); err != nil {
		t.Fatal(err)
	}
	notReady(t, house, "the CA is locked")
	wantIssuer(app, `ClusterIssuer "house", which tls.issuerRef names, is not ready: the CA is locked; mend it`)
	leaf = issue(t, app.Namespace, leaf.Name, "second")
	wantServed(metav1.ConditionFalse)
	testkit.WaitForReady(t, env.Client, app)
	wantBinding(t, app, "second,first", "rediss://")
	serves(t, podOf(t, app), leaf)
	wantBinding(t, app, "second", "rediss://")
	if got := podOf(t, app); got.UID != pod.UID {
		t.Error("another issuer replaced the pod")
	}
	testkit.Eventually(t, "the CA of its own is removed", func(ctx context.Context) error {
		err := env.Client.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: "redis-a-ca"},
			certificateOf(app.Namespace, "redis-a-ca"))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("got %v", err)
	})
}
