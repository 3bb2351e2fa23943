// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// toTarget is a replication that says no more than it has to.
const toTarget = `name: r, bucket: copy, accessKey: abc, secretKeyFrom: {name: x}`

// replicating is a bucket with one replication.
func replicating(with string) string {
	return `buckets: [{name: abc, versioning: Enabled, replication: [{` + with + `}]}]`
}

func TestCreateReplications(t *testing.T) {
	namespace := env.Namespace(t)
	const away = `, endpoint: "https://s3.example.com:9000"`
	for title, c := range map[string]struct{ name, spec, want string }{
		"to another object": {"a", replicating(toTarget + `, objectStorageRef: {name: b}`), ""},
		"to another bucket": {"c", replicating(toTarget + `, objectStorageRef: {name: c}`), ""},
		"to an endpoint": {"d", replicating(toTarget + away +
			`, prefix: logs/, deleteMarkers: true, deletes: true, existingObjects: true, bandwidth: 100M, synchronous: true`),
			""},
		"none": {"e", `buckets: [{name: abc, replication: []}]`, ""},
		"to itself": {"b", replicating(
			`name: r, bucket: abc, accessKey: abc, secretKeyFrom: {name: x}, objectStorageRef: {name: b}`),
			"cannot be replicated to itself"},
		"to nothing": {"b", replicating(toTarget), "needs one target"},
		"to both":    {"b", replicating(toTarget + away + `, objectStorageRef: {name: a}`), "needs one target"},
		"without versioning": {"b", `buckets: [{name: abc, replication: [{` + toTarget + away + `}]}]`,
			"replication needs versioning"},
		"with suspended": {"b", `buckets: [{name: abc, versioning: Suspended, replication: [{` + toTarget + away +
			`}]}]`, "replication needs versioning"},
		"an endpoint with a path": {"b", replicating(toTarget + `, endpoint: "https://s3.example.com/x"`), "without a path"},
		"little bandwidth":        {"b", replicating(toTarget + away + `, bandwidth: 99M`), "at least 100M"},
		"a name with a slash": {"b", `buckets: [{name: abc, versioning: Enabled, replication: [{name: a/b, bucket: ` +
			`copy, accessKey: abc, secretKeyFrom: {name: x}` + away + `}]}]`, "replication[0].name"},
		"no account":           {"b", replicating(`name: r, bucket: copy, secretKeyFrom: {name: x}` + away), "accessKey"},
		"a prefix with a star": {"b", replicating(toTarget + away + `, prefix: "a*"`), "prefix"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), storage(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
	testkit.Refused(t, env.Client.Create(t.Context(), external(t, namespace, "g", `trustedCASecretRef: {name: x}`),
		testkit.Strict), "trustedCASecretRef is for targets of replication")
	testkit.Refused(t, env.Client.Create(t.Context(), external(t, namespace, "f", replicating(toTarget+away)),
		testkit.Strict), "with backend External replication is set where the storage is")
}

func TestUpdateReplications(t *testing.T) {
	namespace := env.Namespace(t)
	before := replicating(toTarget + `, endpoint: "https://s3.example.com:9000"`)
	for title, c := range map[string]struct{ after, want string }{
		"another bucket": {strings.Replace(before, "bucket: copy", "bucket: other", 1),
			"bucket of a replication is immutable"},
		"another endpoint": {strings.Replace(before, "s3.example", "s4.example", 1), ""},
		"it goes":          {`buckets: [{name: abc, versioning: Enabled}]`, ""},
	} {
		t.Run(title, func(t *testing.T) {
			name := strings.ReplaceAll(title, " ", "-")
			obj := storage(t, namespace, name, before)
			if err := env.Client.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			after := storage(t, namespace, name, c.after)
			after.SetResourceVersion(obj.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), after), c.want)
		})
	}
}
