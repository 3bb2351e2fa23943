// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// What could be applied before the kinds shared an InstanceSpec can be applied since: testdata/samples are samples of
// then, and stay as they are. What the kinds compile in their own tests can be applied as well.
func TestSamplesOfBeforeApply(t *testing.T) {
	namespace := env.Namespace(t)
	for _, files := range []string{
		"testdata/samples/*.yaml", "../../internal/kind/redis/testdata/*.in.yaml",
		"../../internal/kind/rediscluster/testdata/*.in.yaml",
		"../../internal/kind/postgresql/testdata/*.in.yaml",
	} {
		testkit.Samples(t, env.Client, namespace, files)
	}
}
