// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Records go when an Application keeps fewer, the oldest first, and never one that has not ended.
func TestOperationHistory(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := application(namespace)
	limit := int32(2)
	app.Spec.OperationHistory = &platformv1.OperationHistory{Limit: &limit}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	dry := func(s *platformv1.OperationSpec) { s.DryRun = true }
	for _, name := range []string{"first", "second", "third"} {
		ends(t, operate(t, app, name, "Stop", dry), platformv1.OperationSucceeded)
	}
	for _, op := range remain(t, namespace, "the two latest records", "second", "third") {
		if op.Labels[platformv1.ApplicationLabel] != app.Name {
			t.Errorf("%s has labels %v", op.Name, op.Labels)
		}
	}
}

// remain waits until just these Operations are there, and returns them.
func remain(t *testing.T, namespace, what string, want ...string) []platformv1.Operation {
	t.Helper()
	var all platformv1.OperationList
	testkit.Eventually(t, what, func(ctx context.Context) error {
		if err := env.Client.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			return err
		}
		var names []string
		for _, op := range all.Items {
			names = append(names, op.Name)
		}
		if !slices.Equal(names, want) {
			return fmt.Errorf("there are %v", names)
		}
		return nil
	})
	return all.Items
}

// What an Application does not say of its records, the operator says, and another word of it holds at once for all that
// are there.
func TestOperationHistoryOfTheOperator(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	t.Cleanup(func() { rendering.UseHistory(platformv1.OperationHistory{}) })
	app := application(namespace)
	create(t, app)
	own := testkit.BuildApplication(namespace, "redis-b").Domain("database").Plugin("redis", "1.0.0").Version("7.0").
		Topology("standalone").Build()
	own.Spec.OperationHistory = &platformv1.OperationHistory{Limit: new(int32(3))}
	create(t, own)
	testkit.WaitForReady(t, env.Client, app)
	testkit.WaitForReady(t, env.Client, own)
	dry := func(s *platformv1.OperationSpec) { s.DryRun = true }
	for _, name := range []string{"first", "second", "third"} {
		ends(t, operate(t, app, "a-"+name, "Stop", dry), platformv1.OperationSucceeded)
		ends(t, operate(t, own, "b-"+name, "Stop", dry), platformv1.OperationSucceeded)
	}
	lost := operate(t, app, "a-lost", "Restart", func(s *platformv1.OperationSpec) { s.TargetRef.Name = "absent" })
	testkit.WaitFor(t, env.Client, lost, "failed, or waits to be claimed", nil)
	remain(t, namespace, "all records", "a-first", "a-lost", "a-second", "a-third", "b-first", "b-second", "b-third")
	rendering.UseHistory(platformv1.OperationHistory{Limit: new(int32(2))})
	remain(t, namespace, "two of the one that says nothing", "a-lost", "a-second", "a-third", "b-first", "b-second",
		"b-third")
	own.Spec.OperationHistory.Limit = new(int32(1))
	patch := []byte(`{"spec":{"operationHistory":{"limit":1}}}`)
	if err := env.Client.Patch(t.Context(), own, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	remain(t, namespace, "one of the other", "a-lost", "a-second", "a-third", "b-third")
	rendering.UseHistory(platformv1.OperationHistory{TTL: &metav1.Duration{Duration: time.Second}})
	remain(t, namespace, "none of the one that says nothing, nor of what has no Application", "b-third")
}
