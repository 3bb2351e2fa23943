// SPDX-License-Identifier: Apache-2.0

//go:build integration

package pki

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

func TestMain(m *testing.M) { testkit.Main(m, &env, testkit.EnvOptions{System: "zeroinfra-system"}) }

// load does as the operator.
func load(t *testing.T, namespace, domain string) (*Authority, error) {
	t.Helper()
	own, err := client.New(env.System.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		return nil, err
	}
	return Load(t.Context(), own, own, namespace, domain)
}

func TestReplicasThatRaceEndWithTheSameAuthority(t *testing.T) {
	for range 5 {
		namespace := env.Namespace(t)
		const replicas = 4
		bundles := make([][]byte, replicas)
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i := range replicas {
			all.Go(func() {
				<-begin
				authority, err := load(t, namespace, "database")
				if err != nil {
					t.Error(err)
					return
				}
				bundles[i] = authority.Bundle()
			})
		}
		close(begin)
		all.Wait()
		for i := range bundles {
			if !bytes.Equal(bundles[i], bundles[0]) {
				t.Errorf("replica %d has another authority than replica 0", i)
			}
		}
	}
}

func TestLoadKeepsWhatIsThere(t *testing.T) {
	namespace := env.Namespace(t)
	first, err := load(t, namespace, "database")
	if err != nil {
		t.Fatal(err)
	}
	second, err := load(t, namespace, "database")
	if err != nil {
		t.Fatal(err)
	}
	other, err := load(t, namespace, "message")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bundle(), second.Bundle()) {
		t.Error("a restart has another authority")
	}
	if bytes.Equal(first.Bundle(), other.Bundle()) {
		t.Error("two domains share an authority")
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "database-agent-ca"}}
	testkit.WaitFor(t, env.Client, secret, "it is there", nil)
	if secret.Labels[platformv1.DomainLabel] != "database" || secret.Type != corev1.SecretTypeTLS {
		t.Errorf("the Secret has labels %v and type %s", secret.Labels, secret.Type)
	}
}

func TestASecretThatCannotBeUsedIsNeverReplaced(t *testing.T) {
	namespace := env.Namespace(t)
	broken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName("database")},
		StringData: map[string]string{"tls.crt": "nothing"}}
	if err := env.Client.Create(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	_, err := load(t, namespace, "database")
	if err == nil || !strings.Contains(err.Error(), "delete it and restart the operator") ||
		!strings.Contains(err.Error(), "database-agent-ca") {
		t.Errorf("error is %v", err)
	}
	testkit.WaitFor(t, env.Client, broken, "it is as it was", nil)
	if string(broken.Data["tls.crt"]) != "nothing" {
		t.Error("the Secret was replaced")
	}
}

// An authority in the place of one that was lost while nobody ran tells passwords apart as that did, so that no process
// restarts for it; of an operator that wrote the key down nowhere else the next start does.
func TestAnAuthorityInPlaceOfALostOneHasItsDigests(t *testing.T) {
	namespace := env.Namespace(t)
	first, err := load(t, namespace, "database")
	if err != nil {
		t.Fatal(err)
	}
	remove := func(name string) {
		t.Helper()
		if err := env.Client.Delete(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		remove(SecretName("database"))
		next, err := load(t, namespace, "database")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(next.Bundle(), first.Bundle()) || next.Digest("a") != first.Digest("a") {
			t.Errorf("it is the same authority, or has other digests: %s, before %s", next.Digest("a"), first.Digest("a"))
		}
		remove(DigestSecretName("database"))
		if _, err := load(t, namespace, "database"); err != nil {
			t.Fatal(err)
		}
	}
	remove(SecretName("database"))
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: DigestSecretName("database")}}
	if err := testkit.Edit(t.Context(), env.Client, kept,
		func() { kept.Data[DigestKeyKey] = []byte("short") }); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, namespace, "database"); err == nil || !strings.Contains(err.Error(), "database-digest-key") ||
		!strings.Contains(err.Error(), "restore the Secret") {
		t.Errorf("with a key that cannot be used: %v", err)
	}
	remove(DigestSecretName("database"))
	other, err := load(t, namespace, "database")
	if err != nil || other.Digest("a") == first.Digest("a") {
		t.Errorf("without either it has the digests of before: %v", err)
	}
}
