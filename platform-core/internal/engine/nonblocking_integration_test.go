// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// healthy is how many instances are made beside those that cannot be made.
const healthy = 50

// TestNobodyIsHeldUp makes many instances beside three that hold on to what they can of the engine: one whose plugin is
// broken, one whose pods an admission is asked about that never answers, and one whose pod never starts. Work has to go on while
// a call hangs, however long the machine takes for it: by the end of each such call others must have become ready.
func TestNobodyIsHeldUp(t *testing.T) {
	run(t, -1)
	poisoned, hangups := poison(t)
	namespace := env.Namespace(t)
	node(t, namespace)
	ready := readiness(t, namespace)
	for i := range healthy {
		app := application(namespace)
		app.Name = fmt.Sprintf("redis-%d", i)
		create(t, app)
	}
	for count, before := 0, -1; count < healthy; {
		select {
		case <-ready:
			count++
		case <-hangups:
			if count == before {
				t.Fatalf("%d of %d instances are ready, and none became so while the last call hung", count, healthy)
			}
			before = count
		}
	}
	for what, app := range poisoned {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
			t.Fatal(err)
		}
		if conditions.IsTrue(app, platformv1.ReadyCondition) {
			t.Errorf("the instance with %s is ready", what)
		}
	}
}

// readiness tells of each Application of a namespace that becomes ready, once.
func readiness(t *testing.T, namespace string) <-chan struct{} {
	t.Helper()
	live, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	events, err := live.Watch(t.Context(), &platformv1.ApplicationList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	ready := make(chan struct{}, healthy)
	go func() {
		told := map[string]bool{}
		for e := range events.ResultChan() {
			app, ok := e.Object.(*platformv1.Application)
			if ok && !told[app.Name] && conditions.IsTrue(app, platformv1.ReadyCondition) {
				told[app.Name] = true
				ready <- struct{}{}
			}
		}
	}()
	return ready
}

// poison makes the three that can never be made and returns when the engine has its trouble with each. The channel tells of
// each call of an admission that hung until somebody gave it up.
func poison(t *testing.T) (map[string]*platformv1.Application, <-chan struct{}) {
	t.Helper()
	broken := application(env.Namespace(t))
	broken.Spec.PluginVersion = brokenPlugin(t)
	create(t, broken)
	testkit.WaitForCondition(t, env.Client, broken, platformv1.StalledCondition, metav1.ConditionTrue)

	hanging := application(env.Namespace(t))
	admission, err := testkit.HangAdmission(t.Context(), env.Client, hanging.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admission.End(); err != nil {
			t.Error(err)
		}
	})
	create(t, hanging)
	testkit.Eventually(t, "a call of the admission that never answers", func(context.Context) error {
		select {
		case <-admission.Begun():
			return nil
		default:
			return fmt.Errorf("nobody has asked it")
		}
	})

	never := application(env.Namespace(t))
	create(t, never)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: never.Namespace, Name: never.Name + "-redis-main-0"}}
	testkit.WaitFor(t, env.Client, pod, "is made", nil)
	return map[string]*platformv1.Application{"a broken plugin": broken, "an admission that never answers": hanging, "a pod that never starts": never}, admission.Ended()
}

// brokenPlugin installs a version of the plugin redis that cannot be rendered, and returns it.
func brokenPlugin(t *testing.T) string {
	t.Helper()
	const version = "6.6.6"
	_, sources, problems := pluginfolder.Load(pluginDirs[0])
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	parts, err := pluginfolder.Package(sources, system)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		cm := part.(*corev1.ConfigMap)
		cm.Name = strings.ReplaceAll(cm.Name, "1.0.0", version)
		for _, texts := range []map[string]string{cm.Data, cm.Labels} {
			for key, text := range texts {
				texts[key] = strings.NewReplacer("1.0.0", version, "${", "${nowhere.").Replace(text)
			}
		}
		create(t, cm)
		t.Cleanup(func() {
			if err := env.Client.Delete(context.Background(), cm); err != nil {
				t.Error(err)
			}
		})
	}
	return version
}
