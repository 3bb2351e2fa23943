// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func TestCreateCluster(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"smallest":                {"a", ``, ""},
		"name of 25":              {strings.Repeat("a", 25), ``, ""},
		"name of 26":              {strings.Repeat("a", 26), ``, "at most 25 characters"},
		"name with a dot":         {"a.b", ``, "cannot hold a dot"},
		"name with a digit first": {"1web", ``, ""},
		"version":                 {"b", `version: latest`, "spec.version"},
		"many shards":             {"c", `{shards: 64, replicasPerShard: 4}`, ""},
		"no replicas":             {"d", `replicasPerShard: 0`, ""},
		"two shards":              {"b", `shards: 2`, "spec.shards"},
		"too many shards":         {"b", `shards: 65`, "spec.shards"},
		"too many replicas":       {"b", `replicasPerShard: 5`, "spec.replicasPerShard"},
		"negative replicas":       {"b", `replicasPerShard: -1`, "spec.replicasPerShard"},
		"snapshots only":          {"b", `persistence: {mode: RDB}`, "persistence.mode must be AOF or Both"},
		"memory only":             {"b", `persistence: {mode: None}`, "persistence.mode must be AOF or Both"},
		"both": {"e",
			`persistence: {mode: Both, appendFsync: Always, saveRules: [{seconds: 1, changes: 1}]}`, ""},
		"maxmemory above the limit": {"b", `{maxmemory: 257Mi, resources: {limits: {memory: 256Mi}}}`,
			"maxmemory cannot be above resources.limits.memory"},
		"no size":               {"b", `storage: {size: "0"}`, "storage.size must be greater than 0"},
		"parameters":            {"f", `parameters: {cluster-node-timeout: 3000}`, ""},
		"parameter appendonly":  {"b", `parameters: {appendonly: x}`, "set spec.persistence.mode in place"},
		"parameter maxmemory":   {"b", `parameters: {maxmemory: 1}`, "set spec.maxmemory in place"},
		"parameter requirepass": {"b", `parameters: {requirepass: x}`, "set spec.auth.passwordFrom in place"},
		"claims":                {"b", `resources: {claims: [{name: x}]}`, "resources.claims is not supported"},
		"failover":              {"b", `failover: {mode: Auto}`, "spec.failover"},
		"users": {"g",
			`users: [{name: app, passwordFrom: {name: x}, keys: "~app:*", commands: "+@read"}]`, ""},
		"user default": {"b", `users: [{name: default, passwordFrom: {name: x}}]`,
			"the user default is the instance's own"},
		"user without a password":     {"b", `users: [{name: a}]`, "spec.users[0].passwordFrom"},
		"a field that does not exist": {"b", `replicas: 3`, "spec.replicas"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), of(t, "RedisCluster", namespace, c.name, c.spec), testkit.Strict),
				c.want)
		})
	}
}

func TestUpdateCluster(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ before, after, want string }{
		"more shards":    {`shards: 3`, `shards: 5`, ""},
		"fewer shards":   {`shards: 5`, `shards: 3`, ""},
		"too few shards": {`shards: 3`, `shards: 1`, "spec.shards"},
		"other replicas": {`replicasPerShard: 1`, `replicasPerShard: 2`, ""},
		"size grows":     {`storage: {size: 1Gi}`, `storage: {size: 2Gi}`, ""},
		"size shrinks":   {`storage: {size: 2Gi}`, `storage: {size: 1Gi}`, "storage.size cannot shrink"},
		"another class": {`storage: {storageClassName: a}`, `storage: {storageClassName: b}`,
			"storage.storageClassName is immutable"},
		"another backup": {`restoreFrom: {backup: a}`, `restoreFrom: {backup: b}`,
			"restoreFrom is for an object that is made, and immutable"},
		"a backup appears": {``, `restoreFrom: {backup: b}`,
			"restoreFrom is for an object that is made, and immutable"},
		"a backup goes": {`restoreFrom: {backup: a}`, ``,
			"restoreFrom is for an object that is made, and immutable"},
		"a backup stays":         {`restoreFrom: {backup: a}`, `{restoreFrom: {backup: a}, shards: 5}`, ""},
		"persistence with both":  {`persistence: {mode: AOF}`, `persistence: {mode: Both}`, ""},
		"persistence of nothing": {`persistence: {mode: AOF}`, `persistence: {mode: None}`, "persistence.mode"},
		"too many shards":        {`shards: 3`, `shards: 65`, "spec.shards"},
		"too many replicas":      {`replicasPerShard: 1`, `replicasPerShard: 5`, "spec.replicasPerShard"},
		"no version":             {`version: "7.0"`, `version: seven`, "spec.version"},
		"a class appears":        {``, `storage: {storageClassName: b}`, "storage.storageClassName is immutable"},
		"a negative size":        {`storage: {size: 1Gi}`, `storage: {size: -1Gi}`, "storage.size"},
		"no room for maxmemory": {`maxmemory: 1Gi`, `{maxmemory: 1Gi, resources: {limits: {memory: 512Mi}}}`,
			"maxmemory cannot be above resources.limits.memory"},
		"an unknown policy": {``, `maxmemoryPolicy: random`, "spec.maxmemoryPolicy"},
		"a parameter of a field": {`parameters: {timeout: 30}`, `parameters: {timeout: 30, appendonly: "no"}`,
			"set spec.persistence.mode in place"},
		"a line break": {``, `parameters: {notify-keyspace-events: "Ex\nrequirepass x"}`, "spec.parameters"},
		"a password in a rule": {``, `users: [{name: app, passwordFrom: {name: x}, commands: "+@read >secret"}]`,
			"commands"},
		"a Secret without name": {``, `auth: {passwordFrom: {name: ""}}`, "spec.auth.passwordFrom.name"},
		"an unknown Service":    {``, `service: {type: Magic}`, "spec.service.type"},
		"a field of another":    {``, `sentinel: {}`, "spec.sentinel"},
	} {
		t.Run(title, func(t *testing.T) {
			name := strings.ToLower(strings.ReplaceAll(title, " ", "-"))
			before := of(t, "RedisCluster", namespace, name, c.before)
			if err := env.Client.Create(t.Context(), before, testkit.Strict); err != nil {
				t.Fatal(err)
			}
			after := of(t, "RedisCluster", namespace, name, c.after)
			after.SetResourceVersion(before.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), after, testkit.Strict, client.FieldOwner("test")), c.want)
		})
	}
}
