// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// TestClientsAreToldOfWhatIsElsewhere: by the endpoint that the user says and the keys that his Secret has, and by none
// before it has all of them.
func TestClientsAreToldOfWhatIsElsewhere(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	run(t, -1)
	account := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "account"},
		Data: map[string][]byte{"accessKey": []byte("me"), "secretKey": []byte("first")}}
	app := testkit.BuildApplication(namespace, "elsewhere-a").Domain("database").Plugin("elsewhere", "1.0.0").Version("1").
		Topology("plain").Build()
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "keeper", Parameters: platformv1.Parameters{"endpoint": "https://store.example.com"}}}
	for name, key := range map[string]string{"account": "accessKey", "key": "secretKey", "authority": "ca.crt"} {
		app.Spec.Credentials = append(app.Spec.Credentials,
			platformv1.Credential{Name: name, PasswordFrom: platformv1.SecretKeyReference{Name: account.Name, Key: key}})
	}
	for _, obj := range []client.Object{account, app} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	change := func(key, value string) {
		t.Helper()
		before := account.DeepCopy()
		account.Data[key] = []byte(value)
		if err := env.Client.Patch(t.Context(), account, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want map[string]string) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: platformv1.BindingNameFor(app.Name)}}
		testkit.WaitFor(t, env.Client, secret, "says what there is", func() error {
			for key, value := range want {
				if string(secret.Data[key]) != value {
					return fmt.Errorf("%s is %q, want %q", key, secret.Data[key], value)
				}
			}
			return nil
		})
	}
	// The authority that it is to have is not there yet.
	change("ca.crt", "certificate")
	testkit.WaitForReady(t, env.Client, app)
	says(map[string]string{"type": "store", "endpoint": "https://store.example.com", "host": "store.example.com",
		"port": "443", "accessKey": "me", "password": "first", "ca.crt": "certificate"})
	if app.Status.Binding == nil || app.Status.Binding.Name != platformv1.BindingNameFor(app.Name) {
		t.Errorf("the status names the binding %+v", app.Status.Binding)
	}
	// Nobody waits for the process of the pod: an account elsewhere has the key already.
	change("secretKey", "second")
	says(map[string]string{"accessKey": "me", "password": "second"})
}
