// SPDX-License-Identifier: Apache-2.0

//go:build integration

package authority

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{Own: "each test has an operator of its own, with its policies"})
}

// fixture is one operator's namespace with the controller in it.
type fixture struct {
	*testing.T
	namespace string
	authority *pki.Authority
	changed   <-chan event.GenericEvent
	// ahead is how far the controller's clock is.
	ahead atomic.Int64
}

func start(t *testing.T) *fixture {
	f := &fixture{T: t, namespace: env.Namespace(t)}
	account, err := env.Operator(t.Context(), f.namespace)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(account.Config, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{f.namespace: {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.authority, err = pki.Load(t.Context(), mgr.GetAPIReader(), mgr.GetClient(), f.namespace, "database"); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }
	deps := Deps{Authority: f.authority, Domain: "database", Namespace: f.namespace, Now: now}
	if f.changed, err = Setup(mgr, deps); err != nil {
		t.Fatal(err)
	}
	stop := testkit.Run(t, mgr)
	t.Cleanup(func() {
		stop()
		if err := env.Denied(account.User); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) key() types.NamespacedName {
	return types.NamespacedName{Namespace: f.namespace, Name: "database-agent-ca"}
}

// eventually waits until the Secret is as wanted, and returns it.
func (f *fixture) eventually(what string, check func(*corev1.Secret) error) *corev1.Secret {
	f.Helper()
	secret := &corev1.Secret{}
	testkit.Eventually(f, what, func(ctx context.Context) error {
		*secret = corev1.Secret{}
		if err := env.Client.Get(ctx, f.key(), secret); err != nil {
			return err
		}
		return check(secret)
	})
	return secret
}

// annotate asks for something, or only has the controller look.
func (f *fixture) annotate(name, value string) {
	f.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.key().Name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value)
	if err := env.Client.Patch(f.Context(), secret, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		f.Fatal(err)
	}
}

// trusts waits until the Secret and the authority in memory have so many certificates.
func (f *fixture) trusts(n int) *corev1.Secret {
	f.Helper()
	return f.eventually(fmt.Sprintf("%d authorities", n), func(secret *corev1.Secret) error {
		if got := bytes.Count(secret.Data[corev1.TLSCertKey], []byte("BEGIN")); got != n {
			return fmt.Errorf("the Secret has %d", got)
		}
		if !bytes.Equal(f.authority.Bundle(), secret.Data[corev1.TLSCertKey]) {
			return fmt.Errorf("the operator does not follow")
		}
		return nil
	})
}

// A Secret that somebody deleted is back with what it had: nobody has to know anybody anew.
func TestALostAuthorityIsPutBack(t *testing.T) {
	f := start(t)
	before := f.trusts(1)
	if err := env.Client.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	f.eventually("it is back", func(secret *corev1.Secret) error {
		if secret.UID == before.UID {
			return fmt.Errorf("it is the one before")
		}
		if !maps.EqualFunc(secret.Data, before.Data, bytes.Equal) || secret.Labels[platformv1.DomainLabel] != "database" {
			return fmt.Errorf("it is another authority")
		}
		return nil
	})
}

// What somebody broke is not taken up, and neither is it written over: who trusts it knows.
func TestABrokenAuthorityIsNotTakenUp(t *testing.T) {
	f := start(t)
	before := f.trusts(1)
	broken := before.DeepCopy()
	broken.Data[corev1.TLSPrivateKeyKey] = []byte("nothing")
	if err := env.Client.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	f.annotate(platformv1.RotateAnnotation, "now")
	if !bytes.Equal(f.authority.Bundle(), before.Data[corev1.TLSCertKey]) {
		t.Error("the operator has another authority")
	}
	mended := f.eventually("it is there", func(secret *corev1.Secret) error {
		if string(secret.Data[corev1.TLSPrivateKeyKey]) != "nothing" {
			return fmt.Errorf("somebody wrote over it")
		}
		return nil
	})
	mended.Data, mended.Annotations = before.Data, nil
	if err := env.Client.Update(t.Context(), mended); err != nil {
		t.Fatal(err)
	}
	f.trusts(1)
}

// Another authority follows when somebody asks, in steps that everybody has time to hear of.
func TestAnotherAuthorityFollows(t *testing.T) {
	f := start(t)
	first := f.trusts(1)
	shown := f.shows("redis-a-redis-main-0-agent")
	f.annotate(platformv1.RotateAnnotation, "now")
	announced := f.trusts(2)
	<-f.changed
	if _, still := announced.Annotations[platformv1.RotateAnnotation]; still ||
		!bytes.HasPrefix(announced.Data[corev1.TLSCertKey], first.Data[corev1.TLSCertKey]) {
		t.Errorf("the next one signs at once, or is asked for for ever: %v", announced.Annotations)
	}
	f.later(pki.Overlap + time.Minute)
	f.eventually("the next signs", func(secret *corev1.Secret) error {
		if !bytes.HasSuffix(secret.Data[corev1.TLSCertKey], first.Data[corev1.TLSCertKey]) ||
			bytes.Equal(secret.Data[corev1.TLSPrivateKeyKey], first.Data[corev1.TLSPrivateKeyKey]) {
			return fmt.Errorf("the first still signs")
		}
		return nil
	})
	f.trusts(2)
	<-f.changed
	f.later(pki.Overlap)
	f.trusts(2) // A pod still shows what the first signed.
	certificate, key, _, err := f.authority.IssueServer([]string{pki.AgentServerName("redis-a-redis-main-0", f.namespace)},
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
	shown.Data[corev1.TLSCertKey], shown.Data[corev1.TLSPrivateKeyKey] = certificate, key
	if err := env.Client.Update(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	// The cache hears of the pod's Secret in its own time.
	testkit.Eventually(f, "the first is forgotten", func(ctx context.Context) error {
		f.annotate("look", time.Now().String())
		secret := &corev1.Secret{}
		if err := env.Client.Get(ctx, f.key(), secret); err != nil {
			return err
		}
		if bytes.Contains(secret.Data[corev1.TLSCertKey], first.Data[corev1.TLSCertKey]) {
			return fmt.Errorf("it is trusted")
		}
		return nil
	})
	f.trusts(1)
}

// later moves the clock, and has the controller look.
func (f *fixture) later(by time.Duration) {
	f.Helper()
	f.ahead.Add(int64(by))
	f.annotate("look", time.Now().String())
}

// shows makes the Secret of a pod's agents.
func (f *fixture) shows(name string) *corev1.Secret {
	f.Helper()
	certificate, key, _, err := f.authority.IssueServer(
		[]string{"redis-a-redis-main-0." + f.namespace + ".agent.zeroinfra.github.com"}, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	secret := pki.NewSecret(types.NamespacedName{Namespace: f.namespace, Name: name}, "database", map[string][]byte{
		corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key, corev1.ServiceAccountRootCAKey: f.authority.Bundle(),
	})
	if err := env.Client.Create(f.Context(), secret); err != nil {
		f.Fatal(err)
	}
	return secret
}
