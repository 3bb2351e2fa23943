// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The hook of the chart acts only while Helm uninstalls its release, wherever and under which revision that is
// recorded.
func TestReleaseIsUninstalling(t *testing.T) {
	record := func(name string, revision int, status string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "system", Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision),
			Labels: map[string]string{"owner": "helm", "name": name, "status": status, "version": fmt.Sprint(revision)},
		}
	}
	secret := func(name string, revision int, status string) client.Object {
		return &corev1.Secret{ObjectMeta: record(name, revision, status)}
	}
	configMap := func(name string, revision int, status string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: record(name, revision, status)}
	}
	for name, test := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"no release":         {nil, false},
		"another release":    {[]client.Object{secret("b", 3, "uninstalling")}, false},
		"deployed":           {[]client.Object{secret("a", 2, "superseded"), secret("a", 3, "deployed")}, false},
		"uninstalled before": {[]client.Object{secret("a", 3, "uninstalled")}, false},
		"uninstalling":       {[]client.Object{secret("a", 2, "superseded"), secret("a", 3, "uninstalling")}, true},
		"rolled back": {
			[]client.Object{secret("a", 3, "superseded"), secret("a", 9, "superseded"), secret("a", 14, "uninstalling")},
			true,
		},
		"goes on after a refusal": {[]client.Object{secret("a", 3, "uninstalling"), secret("a", 4, "deployed")}, false},
		"in ConfigMaps": {
			[]client.Object{configMap("a", 9, "superseded"), configMap("a", 10, "uninstalling")}, true,
		},
		"deployed in ConfigMaps": {
			[]client.Object{configMap("a", 9, "uninstalling"), configMap("a", 10, "deployed")}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(test.objects...).Build()
			got, err := helmRelease{Reader: c, namespace: "system", name: "a", revision: 3}.uninstalling(t.Context())
			if err != nil || got != test.want {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
		})
	}
}
