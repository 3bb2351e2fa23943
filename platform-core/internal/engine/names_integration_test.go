// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A name that no Service can have is refused before the Application is stored.
func TestNamesOfApplications(t *testing.T) {
	namespace := env.Namespace(t)
	const letters = "lower-case letters, digits and hyphens, with a letter first"
	for name, refused := range map[string]string{
		"a": "", "web-1": "", strings.Repeat("a", 38): "", strings.Repeat("a", 39): "at most 38",
		"1web": letters, "my.app": letters,
	} {
		app := testkit.BuildApplication(namespace, name).Plugin("redis", "1.0.0").Version("7").Topology("alone").Build()
		testkit.Refused(t, env.Client.Create(t.Context(), app, client.DryRunAll), refused)
	}
}
