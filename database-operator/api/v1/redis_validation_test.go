// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"io/fs"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/config/crd"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		AddToScheme: []func(*runtime.Scheme) error{databasev1.AddToScheme},
		CRDs:        []fs.FS{crd.FS},
	})
}

// redis returns a Redis of version 7.0 whose spec has what the YAML adds.
func redis(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return of(t, "Redis", namespace, name, spec)
}

// of returns an object of a kind of Redis, of version 7.0, whose spec has what the YAML adds.
func of(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return versioned(t, kind, "7.0", namespace, name, spec)
}

// versioned returns an object of a kind and version whose spec has what the YAML adds.
func versioned(t *testing.T, kind, version, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return testkit.Object(t, databasev1.GroupVersion.WithKind(kind), namespace, name, map[string]any{"version": version},
		spec)
}

// creation makes each Redis in one namespace, or sees it refused.
func creation(t *testing.T) func(t *testing.T, name, spec, want string) {
	namespace := env.Namespace(t)
	return func(t *testing.T, name, spec, want string) {
		t.Helper()
		testkit.Refused(t, env.Client.Create(t.Context(), redis(t, namespace, name, spec), testkit.Strict), want)
	}
}

// redisSpecs are specs, and what is said of those that are wrong.
var redisSpecs = map[string]struct{ name, spec, want string }{
	"smallest":                {"a", ``, ""},
	"name of 32":              {strings.Repeat("a", 32), ``, ""},
	"name of 33":              {strings.Repeat("a", 33), ``, "at most 32 characters"},
	"name with a dot":         {"a.b", ``, "cannot hold a dot"},
	"name with a digit first": {"1web", ``, ""},
	"version":                 {"b", `version: latest`, "spec.version"},
	"point in time": {"b", `restoreFrom: {backup: b, target: {time: "2026-01-31T12:00:00Z"}}`,
		"an archived log, and Redis has none"},
	"claims":                 {"b", `resources: {claims: [{name: x}]}`, "resources.claims is not supported"},
	"maxmemory at the limit": {"c", `{maxmemory: 256Mi, resources: {limits: {memory: 256Mi}}}`, ""},
	"maxmemory above the limit": {"b", `{maxmemory: 257Mi, resources: {limits: {memory: 256Mi}}}`,
		"maxmemory cannot be above resources.limits.memory"},
	"maxmemory as a number": {"b", `{maxmemory: 536870912, resources: {limits: {memory: 256Mi}}}`,
		"maxmemory cannot be above resources.limits.memory"},
	"maxmemory too small": {"b", `maxmemory: 1Ki`, "maxmemory must be between 1Mi and 1Pi"},
	"maxmemory too big":   {"b", `maxmemory: 2Pi`, "maxmemory must be between 1Mi and 1Pi"},
	"policy":              {"b", `maxmemoryPolicy: lru`, "spec.maxmemoryPolicy"},
	"no size":             {"b", `storage: {size: "0"}`, "storage.size must be greater than 0"},
	"mode":                {"b", `persistence: {mode: Tape}`, "spec.persistence.mode"},
	"fsync without AOF": {"b", `persistence: {mode: RDB, appendFsync: Always}`,
		"appendFsync needs persistence.mode AOF or Both"},
	"save rules without RDB": {"b", `persistence: {saveRules: [{seconds: 1, changes: 1}]}`,
		"saveRules needs persistence.mode RDB or Both"},
	"save rules":                  {"d", `persistence: {mode: Both, saveRules: [{seconds: 1, changes: 1}]}`, ""},
	"save rule of nothing":        {"b", `persistence: {mode: RDB, saveRules: [{seconds: 0, changes: 1}]}`, "seconds"},
	"parameters":                  {"e", `parameters: {maxclients: 100, loglevel: verbose}`, ""},
	"parameter with a line break": {"b", `parameters: {loglevel: "verbose\nport 1"}`, "spec.parameters.loglevel"},
	"parameter maxmemory":         {"b", `parameters: {maxmemory: 1}`, "set spec.maxmemory in place"},
	"parameter maxmemory-policy":  {"b", `parameters: {maxmemory-policy: x}`, "set spec.maxmemoryPolicy in place"},
	"parameter appendonly":        {"b", `parameters: {appendonly: x}`, "set spec.persistence.mode in place"},
	"parameter appendfsync":       {"b", `parameters: {appendfsync: x}`, "set spec.persistence.appendFsync in place"},
	"parameter save":              {"b", `parameters: {save: x}`, "set spec.persistence.saveRules in place"},
	"parameter requirepass":       {"b", `parameters: {requirepass: x}`, "set spec.auth.passwordFrom in place"},
	"password from nowhere":       {"b", `auth: {passwordFrom: {key: x}}`, "spec.auth.passwordFrom.name"},
	"plugin version":              {"b", `pluginVersion: "1"`, "spec.pluginVersion"},
	"deletion policy":             {"b", `deletionPolicy: Forget`, "spec.deletionPolicy"},
	"kept": {"kept",
		`{deletionProtection: true, adoptVolumes: 6f2c1c1e-55b4-4a0e-9f0c-0f6f0a0d8a11}`, ""},
	"data from two places": {"b",
		`{restoreFrom: {backup: a}, adoptVolumes: 6f2c1c1e-55b4-4a0e-9f0c-0f6f0a0d8a11}`,
		"say both where the data comes from"},
	"no UID":                      {"b", `adoptVolumes: the volumes of the one that there was before`, "adoptVolumes"},
	"a field that does not exist": {"b", `members: 3`, "spec.members"},
	"users": {"i", `users: [{name: app, passwordFrom: {name: x}, keys: "~app:* %R~shared:*", ` +
		`channels: "&a &b.*", commands: "+@read -keys +client|list"}, {name: Ops@shop, passwordFrom: {name: x}}]`, ""},
	"user default": {"b", `users: [{name: default, passwordFrom: {name: x}}]`,
		"the user default is the instance's own"},
	"name of a user": {"b", `users: [{name: "a b", passwordFrom: {name: x}}]`, "spec.users[0].name"},
	"two users of a name": {"b",
		`users: [{name: a, passwordFrom: {name: x}}, {name: a, passwordFrom: {name: y}}]`, "spec.users[1]"},
	"user without a password": {"b", `users: [{name: a}]`, "spec.users[0].passwordFrom"},
	"user of an empty Secret": {"b", `users: [{name: a, passwordFrom: {name: ""}}]`,
		"spec.users[0].passwordFrom.name"},
	"keys without a tilde": {"b", `users: [{name: a, passwordFrom: {name: x}, keys: "app:*"}]`,
		"spec.users[0].keys"},
	"keys with a rule in them": {"b", `users: [{name: a, passwordFrom: {name: x}, keys: "~a +@all"}]`,
		"spec.users[0].keys"},
	"channels without a sign": {"b", `users: [{name: a, passwordFrom: {name: x}, channels: chat}]`,
		"spec.users[0].channels"},
	"commands without a sign": {"b", `users: [{name: a, passwordFrom: {name: x}, commands: "read"}]`,
		"spec.users[0].commands"},
	"a password among commands": {"b", `users: [{name: a, passwordFrom: {name: x}, commands: "+@read >secret"}]`,
		"spec.users[0].commands"},
	"commands with a line break": {"b", `users: [{name: a, passwordFrom: {name: x}, commands: "+@read\n+@all"}]`,
		"spec.users[0].commands"},
	"replicas": {"g",
		`{replicas: 2, failover: {mode: Manual, after: 10s}, durability: {minReplicas: 2}}`, ""},
	"replicas later":    {"h", `{replicas: 0, persistence: {mode: Both}}`, ""},
	"negative replicas": {"b", `replicas: -1`, "spec.replicas"},
	"too many replicas": {"b", `replicas: 5`, "spec.replicas"},
	"replicas with snapshots only": {"b", `{replicas: 1, persistence: {mode: RDB}}`,
		"replicas need persistence.mode AOF or Both"},
	"replicas of memory": {"b", `{replicas: 0, persistence: {mode: None}}`,
		"replicas need persistence.mode AOF or Both"},
	"sentinel":                {"k", `{replicas: 2, sentinel: {replicas: 5, after: 7s}}`, ""},
	"sentinel of three":       {"l", `{replicas: 1, sentinel: {}}`, ""},
	"sentinel of one alone":   {"b", `sentinel: {}`, "sentinel needs replicas"},
	"sentinel and no replica": {"b", `{replicas: 0, sentinel: {}}`, "sentinel needs replicas"},
	"even Sentinels":          {"b", `{replicas: 1, sentinel: {replicas: 4}}`, "spec.sentinel.replicas"},
	"sentinel too soon": {"b", `{replicas: 1, sentinel: {after: 4s}}`,
		"sentinel.after must be between 5s and 10m"},
	"sentinel and failover": {"b", `{replicas: 1, sentinel: {}, failover: {after: 3s}}`,
		"failover is for replicas without sentinel"},
	"user of the instance": {"b", `users: [{name: sentinel, passwordFrom: {name: a}}]`,
		"the user sentinel is the instance's own"},
	"failover of one alone": {"b", `failover: {mode: Auto}`, "failover needs replicas"},
	"mode of failover":      {"b", `{replicas: 1, failover: {mode: Never}}`, "spec.failover.mode"},
	"failover too soon": {"b", `{replicas: 1, failover: {after: 1ms}}`,
		"failover.after must be between 1s and 10m"},
	"failover with a lag": {"b", `{replicas: 1, failover: {maxLag: 1Mi}}`, "spec.failover.maxLag"},
	"durability of one alone": {"b", `durability: {minReplicas: 1}`,
		"durability.minReplicas cannot be above replicas"},
	"durability above replicas": {"b", `{replicas: 1, durability: {minReplicas: 2}}`,
		"durability.minReplicas cannot be above replicas"},
	"durability of nothing": {"b", `{replicas: 1, durability: {minReplicas: 0}}`, "spec.durability.minReplicas"},
	"no time for a replica": {"b", `{replicas: 1, durability: {minReplicas: 1, maxLagSeconds: 1}}`,
		"spec.durability.maxLagSeconds"},
	"parameter of durability": {"b", `parameters: {min-replicas-to-write: 1}`,
		"set spec.durability.minReplicas in place"},
	"parameter of lag": {"b", `parameters: {min-replicas-max-lag: 1}`,
		"set spec.durability.maxLagSeconds in place"},
	"storage class, size by itself": {"f", `storage: {storageClassName: fast}`, ""},
}

func TestCreate(t *testing.T) {
	create := creation(t)
	for title, c := range redisSpecs {
		t.Run(title, func(t *testing.T) { create(t, c.name, c.spec, c.want) })
	}
}

// Settings of Services that cannot be had together are refused.
func TestCreateServices(t *testing.T) {
	create := creation(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"service type": {"b", `service: {type: ExternalName}`, "spec.service.type"},
		"service": {"m", `service: {type: LoadBalancer, loadBalancerSourceRanges: [192.0.2.0/24, ` +
			`"2001:db8::/32"], externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4], ` +
			`overrides: [{name: replica, type: NodePort, externalTrafficPolicy: Local}]}`, ""},
		"ranges without a balancer": {"b", `service: {loadBalancerSourceRanges: [192.0.2.0/24]}`,
			"loadBalancerSourceRanges need the type LoadBalancer"},
		"ranges that are none": {"b", `service: {type: LoadBalancer, loadBalancerSourceRanges: [192.0.2.0/33]}`,
			"spec.service.loadBalancerSourceRanges[0]"},
		"policy of traffic inside": {"b", `service: {externalTrafficPolicy: Local}`,
			"externalTrafficPolicy needs the type NodePort or LoadBalancer"},
		"an override of traffic inside": {"b", `service: {overrides: [{name: replica, externalTrafficPolicy: Local}]}`,
			"externalTrafficPolicy needs the type NodePort or LoadBalancer"},
		"two families, one stack": {"b", `service: {ipFamilies: [IPv4, IPv6]}`, "two ipFamilies need the ipFamilyPolicy"},
		"a family twice": {"b", `service: {ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4, IPv4]}`,
			"each of ipFamilies once"},
		"an unknown family": {"b", `service: {ipFamilies: [IPv5]}`, "spec.service.ipFamilies[0]"},
	} {
		t.Run(title, func(t *testing.T) { create(t, c.name, c.spec, c.want) })
	}
}

// What instances can have beside what is Redis' own.
func TestCreateWithWhatInstancesHave(t *testing.T) {
	create := creation(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"autoscaling": {"n", `{autoscaling: {minReplicas: 1, maxReplicas: 4, cpuUtilization: 70}, ` +
			`durability: {minReplicas: 1}, failover: {after: 3s}}`, ""},
		"autoscaling beside replicas": {"b",
			`{replicas: 1, autoscaling: {minReplicas: 1, maxReplicas: 4, cpuUtilization: 70}}`, "take replicas out"},
		"autoscaling to too many": {"b", `autoscaling: {minReplicas: 1, maxReplicas: 5, cpuUtilization: 70}`,
			"spec.autoscaling.maxReplicas"},
		"autoscaling upside down": {"b", `autoscaling: {minReplicas: 3, maxReplicas: 2, cpuUtilization: 70}`,
			"cannot be above autoscaling.maxReplicas"},
		"autoscaling by nothing": {"b", `autoscaling: {minReplicas: 1, maxReplicas: 2}`,
			"autoscaling needs something to go by"},
		"autoscaling by a metric": {"r", `{monitoring: {enabled: true}, autoscaling: {minReplicas: 1, maxReplicas: 4, ` +
			`metrics: [{name: redis_connected_clients, averageValue: 500}]}}`, ""},
		"autoscaling by a metric that nobody reads": {"b", `{autoscaling: {minReplicas: 1, maxReplicas: 4, ` +
			`metrics: [{name: redis_connected_clients, averageValue: 500}]}}`, "set monitoring.enabled"},
		"autoscaling by less than nothing": {"b", `{monitoring: {enabled: true}, autoscaling: {minReplicas: 1, ` +
			`maxReplicas: 4, metrics: [{name: redis_connected_clients, averageValue: 0}]}}`,
			"averageValue must be greater than 0"},
		"autoscaling of memory alone": {"b",
			`{persistence: {mode: None}, autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}}`,
			"replicas need persistence.mode"},
		"autoscaling under Sentinels": {"b",
			`{sentinel: {}, autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}}`, "sentinel needs replicas"},
		"durability above autoscaling": {"b",
			`{autoscaling: {minReplicas: 1, maxReplicas: 4, cpuUtilization: 70}, durability: {minReplicas: 2}}`,
			"or autoscaling.minReplicas"},
		"a budget of those that stay": {"o", `podDisruptionBudget: {minAvailable: 50%}`, ""},
		"no budget":                   {"p", `podDisruptionBudget: {disabled: true}`, ""},
		"a budget that says nothing":  {"b", `podDisruptionBudget: {}`, "set one of podDisruptionBudget.minAvailable"},
		"a budget that says two things": {"b", `podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}`,
			"set one of podDisruptionBudget.minAvailable"},
		"a budget that is off and on": {"b", `podDisruptionBudget: {disabled: true, maxUnavailable: 1}`,
			"set one of podDisruptionBudget.minAvailable"},
		"suspended, with a history": {"q", `{suspend: true, operationHistory: {ttl: 720h, limit: 100}}`, ""},
		"logs":                      {"b", `logs: {volume: {size: 1Gi}}`, "spec.logs"},
	} {
		t.Run(title, func(t *testing.T) { create(t, c.name, c.spec, c.want) })
	}
}

func TestUpdate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ before, after, want string }{
		"autoscaling for replicas":  {`replicas: 2`, `autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}`, ""},
		"autoscaling for one alone": {``, `autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}`, ""},
		"replicas for autoscaling":  {`autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}`, `replicas: 0`, ""},
		"autoscaling taken out": {`autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}`, ``,
			"to those that stay where autoscaling is taken out"},
		"size grows":              {`storage: {size: 1Gi}`, `storage: {size: 1025Mi}`, ""},
		"size shrinks":            {`storage: {size: 1Gi}`, `storage: {size: 1023Mi}`, "storage.size cannot shrink"},
		"size shrinks to default": {`storage: {size: 2Gi}`, ``, "storage.size cannot shrink"},
		"storage class changes": {`storage: {storageClassName: a}`, `storage: {storageClassName: b}`,
			"storageClassName is immutable"},
		"storage class appears": {``, `storage: {storageClassName: b}`, "storageClassName is immutable"},
		"storage class goes":    {`storage: {storageClassName: a}`, ``, "storageClassName is immutable"},
		"AOF to Both":           {``, `persistence: {mode: Both}`, ""},
		"RDB to AOF": {`persistence: {mode: RDB}`, `persistence: {mode: AOF}`,
			"can change between AOF and Both only"},
		"RDB to the default":   {`persistence: {mode: RDB}`, ``, "can change between AOF and Both only"},
		"AOF to None":          {``, `persistence: {mode: None}`, "can change between AOF and Both only"},
		"version":              {``, `version: "8.0"`, ""},
		"first replicas":       {`replicas: 0`, `replicas: 2`, ""},
		"no replicas any more": {`replicas: 2`, `replicas: 0`, ""},
		"more Sentinels":       {`{replicas: 2, sentinel: {}}`, `{replicas: 1, sentinel: {replicas: 5}}`, ""},
		"sentinel later": {`{replicas: 2}`, `{replicas: 2, sentinel: {}}`,
			"sentinel can neither be added nor taken out"},
		"sentinel no more": {`{replicas: 2, sentinel: {}}`, `{replicas: 2}`,
			"sentinel can neither be added nor taken out"},
		"nobody to elect any more": {`{replicas: 2, sentinel: {}}`, `{replicas: 0, sentinel: {}}`,
			"sentinel needs replicas"},
		"replicas for one alone": {``, `replicas: 2`, ""},
		"replicas for snapshots": {`persistence: {mode: RDB}`, `{replicas: 2, persistence: {mode: RDB}}`,
			"replicas need persistence.mode AOF or Both"},
		"replicas taken out": {`replicas: 2`, ``, "not taken out"},
		"fewer than writes need": {`{replicas: 2, durability: {minReplicas: 2}}`,
			`{replicas: 1, durability: {minReplicas: 2}}`, "cannot be above replicas"},
		"maxmemory above the limit": {`{maxmemory: 1Gi}`, `{maxmemory: 1Gi, resources: {limits: {memory: 512Mi}}}`,
			"maxmemory cannot be above"},
	} {
		t.Run(title, func(t *testing.T) {
			name := strings.ToLower(strings.ReplaceAll(title, " ", "-"))
			before := redis(t, namespace, name, c.before)
			if err := env.Client.Create(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			after := redis(t, namespace, name, c.after)
			after.SetResourceVersion(before.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), after), c.want)
		})
	}
}

// TestDefaults shows what the server fills in when a Go client sends no more than the version.
func TestDefaults(t *testing.T) {
	namespace := env.Namespace(t)
	got := &databasev1.Redis{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "defaults"},
		Spec: databasev1.RedisSpec{
			InstanceSpec: platformv1.InstanceSpec{Version: "7.0"},
		}}
	if err := env.Client.Create(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	spec := got.Spec
	if spec.Persistence.Mode != databasev1.PersistenceAOF || !*spec.Running ||
		spec.DeletionPolicy != "Retain" || spec.PluginVersion != "1.0.0" {
		t.Errorf("the defaults are %+v", spec)
	}
}
