// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A version of a plugin may be written with a leading v wherever one is: in the names of its ConfigMaps and what they
// hold, in an Application and in Operations. A manifest that names no domain is of that of the operator.
func TestAVersionOfAPluginMayHaveALeadingV(t *testing.T) {
	derived(t, "v1.36.0", "", func(parts map[string]map[string]string) { delete(parts["manifest"], "domain") })
	derived(t, "v1.37.0", "v1.36.0", nil)
	app := served(t, func(s *platformv1.ApplicationSpec) { s.PluginVersion = "v1.36.0" })
	loaded(t, "1.36.0")
	loaded(t, "1.37.0")
	published := &platformv1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "redis-1.36.0"}}
	if refresh(t, published); published.Spec.Domain != "database" || published.Spec.Version != "1.36.0" {
		t.Errorf("the Plugin is %+v", published.Spec)
	}
	if pinned := app.Status.Plugin; pinned == nil || pinned.Version != "1.36.0" {
		t.Errorf("it is made from %+v", pinned)
	}

	// It is the same version without the v, so that is no change that anybody has to ask an Operation for.
	admits(t, app.Namespace, env.Client)
	for _, version := range []string{"1.36.0", "v1.36.0"} {
		same := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"pluginVersion":"`+version+`"}}`))
		if err := env.Client.Patch(t.Context(), app.DeepCopy(), same); err != nil {
			t.Errorf("version %s is refused: %v", version, err)
		}
	}
	ends(t, operate(t, app, "stop", "redis@v1.36.0/Stop", nil), platformv1.OperationSucceeded)
	ends(t, operate(t, app, "start", "redis@1.36.0/Start", nil), platformv1.OperationSucceeded)
	ends(t, operate(t, app, "upgrade", "UpgradeApp", nil, "version", "v1.37.0"), platformv1.OperationSucceeded)
	if refresh(t, app); app.Spec.PluginVersion != "1.37.0" || app.Status.Plugin.Version != "1.37.0" {
		t.Errorf("it is made from %s, and pinned to %+v", app.Spec.PluginVersion, app.Status.Plugin)
	}
}
