// SPDX-License-Identifier: Apache-2.0

//go:build integration

package claim

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// undecodable returns how many objects of a namespace the metric names.
func undecodable(namespace string) (int, error) {
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		return 0, err
	}
	found := 0
	for _, family := range families {
		if family.GetName() != "zeroinfra_undecodable_objects" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "namespace" && label.GetValue() == namespace {
					found++
				}
			}
		}
	}
	return found, nil
}

func waitUndecodable(t *testing.T, namespace string, want int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d objects in the metric", want), func(context.Context) error {
		got, err := undecodable(namespace)
		if err == nil && got != want {
			err = fmt.Errorf("there are %d", got)
		}
		return err
	})
}

// An Application that nobody can read is claimed by nobody, which a metric says, until it is corrected. Others are
// claimed meanwhile.
func TestAnApplicationThatCannotBeDecodedIsClaimedOnceItIsCorrected(t *testing.T) {
	namespace := env.Namespace(t)
	index := operator(t, "database")
	load(index, "redis", "1.0.0", "database")
	bad := testkit.Object(t, platformv1.GroupVersion.WithKind("Application"), namespace, "bad", map[string]any{
		"plugin": "redis", "pluginVersion": "1.0.0", "version": "7.0", "topology": "standalone",
		"operationHistory": map[string]any{"ttl": "30d"},
	}, "")
	write := func(ctx context.Context) error { return env.Client.Create(ctx, bad) }
	env.Unchecked(t, "applications.platform.zeroinfra.github.com", write)
	waitUndecodable(t, namespace, 1)
	good := testkit.BuildApplication(namespace, "good").Build()
	create(t, good)
	waitDomain(t, good, "database")
	correct := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"operationHistory":{"ttl":"720h"}}}`))
	if err := env.Client.Patch(t.Context(), bad, correct); err != nil {
		t.Fatal(err)
	}
	waitDomain(t, bad, "database")
	waitUndecodable(t, namespace, 0)
}
