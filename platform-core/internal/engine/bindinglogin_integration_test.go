// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A version of the plugin can bind another login. Clients are told of it as a whole, and once all pods have its
// password.
func TestAnotherLoginIsBoundOncePodsHaveIt(t *testing.T) {
	derived(t, "1.9.0", "1.0.0", func(parts map[string]map[string]string) {
		for old, next := range map[string]string{
			"credentials: [default, sentinel]": "credentials: [default, sentinel, client]",
			"\ncredentials:\n":                 "\ncredentials:\n  - {name: client, username: app, length: 32}\n",
			"\n  credential: default\n":        "\n  credential: client\n  database: shop\n",
		} {
			replaced(t, parts, "components", "components.yaml", old, next)
		}
	})
	app := served(t)
	loaded(t, "1.9.0")
	pod := podOf(t, app)
	bound := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace,
		Name: platformv1.BindingNameFor(app.Name)}}
	login := func() map[string]string {
		all := map[string]string{}
		for _, key := range []string{"username", "password", "database", "uri"} {
			all[key] = string(bound.Data[key])
		}
		return all
	}
	refresh(t, bound)
	former := login()
	if former["username"] != "default" || former["database"] != "" {
		t.Fatalf("it was bound with %v", former)
	}
	op := operate(t, app, "next", "UpgradeApp", nil, "version", "1.9.0")
	testkit.WaitFor(t, env.Client, bound, "names the other login", func() error {
		now := login()
		if maps.Equal(now, former) {
			return fmt.Errorf("it is %s", now["username"])
		}
		has := passwordIn(t, app, "redis-a-client")
		want := map[string]string{"username": "app", "password": has, "database": "shop",
			"uri": fmt.Sprintf("redis://app:%s@%s:6379/shop", has, bound.Data["host"])}
		if !maps.Equal(now, want) {
			t.Fatalf("clients were told %v, and before %v", now, former)
		}
		return nil
	})
	current := &corev1.Pod{}
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), current)
	if err != nil || current.UID == pod.UID {
		t.Errorf("clients were told before the pod was replaced: %v", err)
	}
	ends(t, op, platformv1.OperationSucceeded)
}
