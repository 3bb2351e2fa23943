// SPDX-License-Identifier: Apache-2.0

//go:build integration

package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zeroinfra/platform-core/internal/namedcache"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// clock is set by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// replica runs a keeper as an operator's replica does. One that leads does what the leader does as well.
func replica(t *testing.T, c *clock) *keeper {
	t.Helper()
	mgr, err := ctrl.NewManager(env.System.Config, manager.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{
		domain: "database", secret: types.NamespacedName{Namespace: system, Name: release + "-webhook"},
		configuration: release, host: host, now: c.Now,
	}
	if err := k.setup(mgr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The next test begins without one. A replica of this test that still runs makes it again, and ends after this.
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.secret.Namespace, Name: k.secret.Name}}
		if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), secret)); err != nil {
			t.Error(err)
		}
	})
	testkit.Run(t, mgr)
	return k
}

// configuration makes one as the chart does.
func configuration(t *testing.T) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	none, path := admissionregistrationv1.SideEffectClassNone, PathCore
	made := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: release}}
	for _, webhook := range []string{"a", "b"} {
		made.Webhooks = append(made.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: webhook + ".zeroinfra.github.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "none", Name: "none", Path: &path}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"none.example.com"}, APIVersions: []string{"v1"},
					Resources: []string{"none"}},
			}},
		})
	}
	if err := env.Client.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Client.Delete(context.Background(), made); err != nil {
			t.Error(err)
		}
	})
	return made
}

// settled waits until all replicas serve what the Secret holds and the API server trusts, and returns that.
func settled(t *testing.T, made *admissionregistrationv1.ValidatingWebhookConfiguration, now time.Time,
	replicas ...*keeper) chain {
	t.Helper()
	var c chain
	testkit.Eventually(t, "all agree on a certificate", func(ctx context.Context) error {
		secret := &corev1.Secret{}
		if err := env.Client.Get(ctx, replicas[0].secret, secret); err != nil {
			return err
		}
		c = readChain(secret.Data)
		pair, err := c.current.Pair()
		if err != nil {
			return err
		}
		for i, k := range replicas {
			if served := k.served.Load(); served == nil || !bytes.Equal(served.Certificate[0], pair.Certificate[0]) {
				return fmt.Errorf("replica %d serves another", i)
			}
		}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		if !trusts(made, c.trusted()) {
			return errors.New("the API server is not to trust it")
		}
		return nil
	})
	clients(t, c.trusted(), c.current, now)
	return c
}

// nudge has the leader look again, as its own alarm would by the clock on the wall.
func nudge(t *testing.T, k *keeper) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.secret.Namespace, Name: k.secret.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"test/at":%q}}}`, k.now().String())
	if err := env.Client.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// TestRotation goes through the life of the certificate: made once by replicas that race, renewed with both trusted for
// an hour, made again when the Secret is lost or broken, and written back where someone took it out.
func TestRotation(t *testing.T) {
	made := configuration(t)
	c := &clock{now: time.Now()}
	first, second := replica(t, c), replica(t, c)
	original := settled(t, made, c.Now(), first, second)

	c.forward(61 * 24 * time.Hour)
	nudge(t, first)
	testkit.Eventually(t, "the next certificate is trusted", func(context.Context) error {
		if got := settled(t, made, c.Now(), first, second); got.next == nil {
			return errors.New("there is none")
		}
		return nil
	})
	both := settled(t, made, c.Now(), first, second)
	if !bytes.Equal(both.current.Certificate, original.current.Certificate) {
		t.Error("it is served before it was trusted for a while")
	}
	clients(t, made.Webhooks[0].ClientConfig.CABundle, *both.next, c.Now())

	c.forward(overlap)
	nudge(t, first)
	testkit.Eventually(t, "the next certificate is served", func(context.Context) error {
		if got := settled(t, made, c.Now(), first, second); !bytes.Equal(got.current.Certificate, both.next.Certificate) {
			return errors.New("it is not")
		}
		return nil
	})
	clients(t, made.Webhooks[1].ClientConfig.CABundle, original.current, c.Now())

	c.forward(overlap)
	nudge(t, first)
	testkit.Eventually(t, "the old authority is dropped", func(context.Context) error {
		if got := settled(t, made, c.Now(), first, second); len(got.previous) > 0 {
			return errors.New("it is not")
		}
		return nil
	})
	renewed := settled(t, made, c.Now(), first, second)

	for name, harm := range map[string]func() error{
		"a lost Secret": func() error {
			return env.Client.Delete(t.Context(),
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: first.secret.Name}})
		},
		"a broken Secret": func() error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: first.secret.Name}}
			return env.Client.Patch(t.Context(), secret,
				client.RawPatch(types.MergePatchType, []byte(`{"data":{"tls.key":"bm8="}}`)))
		},
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, name+" is made again", func(context.Context) error {
			got := settled(t, made, c.Now(), first, second)
			if bytes.Equal(got.current.Certificate, renewed.current.Certificate) {
				return errors.New("it is not")
			}
			return nil
		})
		renewed = settled(t, made, c.Now(), first, second)
	}

	err := testkit.Edit(t.Context(), env.Client, made, func() { made.Webhooks[1].ClientConfig.CABundle = nil })
	if err != nil {
		t.Fatal(err)
	}
	got := settled(t, made, c.Now(), first, second)
	if !bytes.Equal(got.current.Certificate, renewed.current.Certificate) {
		t.Error("another certificate was made for that")
	}
	atRest(t, first)
}

// atRest fails when anything is written though nothing changed.
func atRest(t *testing.T, k *keeper) {
	t.Helper()
	version := func() string {
		secret, made := &corev1.Secret{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := errors.Join(env.Client.Get(t.Context(), k.secret, secret),
			env.Client.Get(t.Context(), client.ObjectKey{Name: k.configuration}, made)); err != nil {
			t.Fatal(err)
		}
		return secret.ResourceVersion + " " + made.ResourceVersion
	}
	before := version()
	for range 3 {
		if _, err := k.publish(t.Context(), namedcache.Request); err != nil {
			t.Error(err)
		}
	}
	if after := version(); after != before {
		t.Errorf("what was %s is %s", before, after)
	}
}

// What belongs to the chart is never made by the operator: a release without webhooks, or one that is being removed,
// stays without.
func TestAConfigurationIsNotMade(t *testing.T) {
	c := &clock{now: time.Now()}
	k := replica(t, c)
	testkit.Eventually(t, "it serves", func(context.Context) error {
		if k.served.Load() == nil {
			return errors.New("it has no certificate")
		}
		_, err := k.publish(t.Context(), namedcache.Request)
		return err
	})
	err := env.Client.Get(t.Context(), client.ObjectKey{Name: release},
		&admissionregistrationv1.ValidatingWebhookConfiguration{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("there is one: %v", err)
	}
}
