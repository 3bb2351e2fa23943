// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func TestUninstallCheck(t *testing.T) {
	env, err := testkit.Start(testkit.EnvOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	check := func() error {
		command := Command(Options{Domain: "database"})
		command.SetArgs([]string{"prepare-uninstall", "--namespace=zeroinfra", "--kubeconfig", env.Kubeconfig(t)})
		return command.ExecuteContext(t.Context())
	}
	if err := check(); err != nil {
		t.Errorf("a cluster without our definitions: %v", err)
	}

	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Paths: []string{"../../config/crd/bases"}}); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	set := func(name, domain string, finalizers ...string) {
		t.Helper()
		obj := &platformv1.WorkloadSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{platformv1.DomainLabel: domain}, Finalizers: finalizers},
			Spec: platformv1.WorkloadSetSpec{
				Application: "a", Component: "c", Set: "s", Version: "1", Plugin: platformv1.PluginReference{Name: "p", Version: "1.0.0"},
			},
		}
		obj.Spec.Template.Raw, obj.Spec.Plan.Raw = []byte(`{}`), []byte(`{}`)
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	set("plain", "database")
	set("foreign", "database", "example.com/theirs")
	set("elsewhere", "message", platformv1.VolumesFinalizer)
	if err := check(); err != nil {
		t.Errorf("nothing of this domain is held: %v", err)
	}
	set("held", "database", platformv1.VolumesFinalizer)
	err = check()
	if err == nil || !strings.Contains(err.Error(), "WorkloadSet "+namespace+"/held has the finalizer") {
		t.Errorf("got %v, want an error that names the held object", err)
	}
}
