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

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/message-operator/config/crd"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		AddToScheme: []func(*runtime.Scheme) error{messagev1.AddToScheme},
		CRDs:        []fs.FS{crd.FS},
	})
}

// made returns an object of a kind whose spec has what the YAML adds.
type made func(t *testing.T, namespace, name, spec string) *unstructured.Unstructured

// cluster is a KafkaCluster of version 4.4.
func cluster(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return testkit.Object(t, messagev1.GroupVersion.WithKind("KafkaCluster"), namespace, name,
		map[string]any{"version": "4.4"}, spec)
}

// creation is an object that is made.
type creation struct{ name, spec, want string }

func createEach(t *testing.T, of made, all map[string]creation) {
	t.Helper()
	namespace := env.Namespace(t)
	for title, c := range all {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), of(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

// update is an object that is made and then changed.
type update struct{ before, after, want string }

func updateEach(t *testing.T, of made, all map[string]update) {
	t.Helper()
	namespace := env.Namespace(t)
	for title, c := range all {
		t.Run(title, func(t *testing.T) {
			name := strings.ToLower(strings.ReplaceAll(title, " ", "-"))
			before := of(t, namespace, name, c.before)
			if err := env.Client.Create(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			after := of(t, namespace, name, c.after)
			after.SetResourceVersion(before.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), after), c.want)
		})
	}
}

func TestCreateCluster(t *testing.T) {
	createEach(t, cluster, map[string]creation{
		"smallest":        {"a", ``, ""},
		"name of 25":      {strings.Repeat("a", 25), ``, ""},
		"name of 26":      {strings.Repeat("a", 26), ``, "at most 25 characters"},
		"name with a dot": {"a.b", ``, "cannot hold a dot"},
		"no version":      {"x", `version: null`, "version is required"},
		"one node":        {"b", `replicas: 1`, ""},
		"five nodes":      {"c", `replicas: 5`, ""},
		"four nodes":      {"x", `replicas: 4`, "replicas must be 1, 3 or 5"},
		"no brokers":      {"x", `replicas: 0`, "spec.replicas"},
		"four brokers":    {"d", `{replicas: 4, controllers: {replicas: 5}}`, ""},
		"60 brokers":      {"e", `{replicas: 60, controllers: {}}`, ""},
		"61 brokers":      {"x", `{replicas: 61, controllers: {}}`, "spec.replicas"},
		"two controllers": {"x", `controllers: {replicas: 2}`, "spec.controllers.replicas"},
		"claims of controllers": {"x", `controllers: {resources: {claims: [{name: x}]}}`,
			"controllers.resources.claims is not supported"},
		"no size of controllers": {"x", `controllers: {storage: {size: "0"}}`, "storage.size must be greater than 0"},
		"profile":                {"f", `profile: Durability`, ""},
		"profile in lower case":  {"x", `profile: durability`, "spec.profile"},
		"durability of one": {"x", `{replicas: 1, profile: Durability}`,
			"profile Durability keeps each record on 3 brokers"},
		"durability of two brokers": {"x", `{replicas: 2, controllers: {}, profile: Durability}`,
			"profile Durability keeps each record on 3 brokers"},
		"throughput of one": {"g", `{replicas: 1, profile: Throughput}`, ""},
		"in-sync replicas":  {"h", `parameters: {min.insync.replicas: 3}`, ""},
		"in-sync replicas as text": {"x", `parameters: {min.insync.replicas: "4"}`,
			"the parameter min.insync.replicas cannot be above replicas"},
		"too many in-sync replicas": {"x", `{replicas: 1, parameters: {min.insync.replicas: 2}}`,
			"the parameter min.insync.replicas cannot be above replicas"},
		"in-sync replicas, no number": {"i", `parameters: {min.insync.replicas: many}`, ""},
		"copies":                      {"j", `parameters: {default.replication.factor: 3}`, ""},
		"too many copies": {"x", `{replicas: 1, parameters: {default.replication.factor: 3}}`,
			"the parameter default.replication.factor cannot be above replicas"},
		"copies, no number":   {"k", `parameters: {default.replication.factor: all}`, ""},
		"retention":           {"ret-a", `{storage: {size: 20Gi}, parameters: {log.retention.bytes: 21474836480}}`, ""},
		"retention, no limit": {"ret-b", `parameters: {log.retention.bytes: -1}`, ""},
		"retention above the volume": {"x", `{storage: {size: 20Gi}, parameters: {log.retention.bytes: 21474836481}}`,
			"log.retention.bytes is above storage.size"},
		"retention above the default": {"x", `parameters: {log.retention.bytes: "10737418241"}`,
			"log.retention.bytes is above storage.size"},
		"a backup": {"x", `restoreFrom: {backup: b}`, "restoreFrom needs Backups, and a KafkaCluster has none"},
		"external": {"l", `external: {type: NodePort, nodePorts: [{nodePort: 31092}]}`, ""},
		"ports without nodes": {"x", `external: {nodePorts: [{nodePort: 31092}]}`,
			"nodePorts need the type NodePort or LoadBalancer"},
		"users": {"m",
			`users: [{name: shop, passwordFrom: {name: s}, iterations: 16384, quota: {producerByteRate: 1Mi}},
  {name: Reports@shop, passwordFrom: {name: s}, quota: {requestPercentage: 50}}]`,
			""},
		"user admin": {"x", `users: [{name: admin, passwordFrom: {name: s}}]`,
			"the users admin and internal are the instance's own"},
		"name of a user": {"x", `users: [{name: "a b", passwordFrom: {name: s}}]`, "spec.users[0].name"},
		"two users of a name": {"x",
			`users: [{name: a, passwordFrom: {name: s}}, {name: a, passwordFrom: {name: s}}]`, "spec.users[1]"},
		"user without a password": {"x", `users: [{name: a}]`, "spec.users[0].passwordFrom"},
		"few iterations": {"x", `users: [{name: a, passwordFrom: {name: s}, iterations: 4095}]`,
			"spec.users[0].iterations"},
		"a quota of nothing": {"x", `users: [{name: a, passwordFrom: {name: s}, quota: {}}]`,
			"a quota needs a limit"},
		"a quota of no bytes sent": {"x",
			`users: [{name: a, passwordFrom: {name: s}, quota: {producerByteRate: 0}}]`,
			"producerByteRate must be 1 or more"},
		"a quota of no bytes fetched": {"x",
			`users: [{name: a, passwordFrom: {name: s}, quota: {consumerByteRate: 0}}]`,
			"consumerByteRate must be 1 or more"},
		"a quota of bytes fetched": {"n",
			`users: [{name: a, passwordFrom: {name: s}, quota: {consumerByteRate: 1}}]`, ""},
		"a quota of less than no time": {"x",
			`users: [{name: a, passwordFrom: {name: s}, quota: {requestPercentage: -1}}]`, "requestPercentage"},
		"password":              {"o", `auth: {passwordFrom: {name: s}}`, ""},
		"password from nowhere": {"x", `auth: {passwordFrom: {key: s}}`, "spec.auth.passwordFrom.name"},
		"plugin version":        {"x", `pluginVersion: "1"`, "spec.pluginVersion"},
		"autoscaling":           {"x", `autoscaling: {minReplicas: 1}`, "spec.autoscaling"},
		"logs":                  {"x", `logs: {volume: {size: 1Gi}}`, "spec.logs"},
	})
}

func TestCreateClusterWithSeveralVolumes(t *testing.T) {
	createEach(t, cluster, map[string]creation{
		"volumes": {"vol-a", `{additionalVolumes: [{size: 1Gi}, {size: 1Gi, storageClassName: slow}]}`, ""},
		"seven more volumes": {"x", `additionalVolumes: [{size: 1Gi}, {size: 1Gi}, {size: 1Gi}, {size: 1Gi}, {size: 1Gi},
  {size: 1Gi}, {size: 1Gi}]`, "spec.additionalVolumes"},
		"a volume of nothing": {"x", `additionalVolumes: [{size: 0}]`, "size must be greater than 0"},
		"a volume without a size": {"x", `additionalVolumes: [{storageClassName: slow}]`,
			"spec.additionalVolumes[0].size"},
		"retention, several volumes": {"ret-c",
			`{additionalVolumes: [{size: 20Gi}], storage: {size: 20Gi}, parameters: {log.retention.bytes: 21474836480}}`, ""},
		"retention above an additional volume": {"x",
			`{additionalVolumes: [{size: 20Gi}, {size: 5Gi}], storage: {size: 20Gi},
  parameters: {log.retention.bytes: 5368709121}}`, "above the size of one of additionalVolumes"},
	})
}

func TestCreateClusterWithZooKeeper(t *testing.T) {
	createEach(t, cluster, map[string]creation{
		"with zookeeper":         {"zk-a", `{version: "3.9", replicas: 2, zookeeper: {}}`, ""},
		"zookeeper of version 4": {"x", `zookeeper: {}`, "Kafka 4 has no ZooKeeper"},
		"two of zookeeper":       {"x", `{version: "3.9", zookeeper: {replicas: 2}}`, "spec.zookeeper.replicas"},
		"claims of zookeeper": {"x", `{version: "3.9", zookeeper: {resources: {claims: [{name: x}]}}}`,
			"zookeeper.resources.claims is not supported"},
		"no such stage":     {"x", `{version: "3.9", zookeeper: {stage: Done}}`, "spec.zookeeper.stage"},
		"controllers to be": {"zk-b", `{version: "3.9", controllers: {}, zookeeper: {}}`, ""},
	})
}

func TestUpdateCluster(t *testing.T) {
	updateEach(t, cluster, map[string]update{
		"size grows":              {`storage: {size: 10Gi}`, `storage: {size: 11Gi}`, ""},
		"size shrinks":            {`storage: {size: 10Gi}`, `storage: {size: 9Gi}`, "storage.size cannot shrink"},
		"size shrinks to default": {`storage: {size: 20Gi}`, ``, "storage.size cannot shrink"},
		"first volume added":      {``, `additionalVolumes: [{size: 1Gi}]`, ""},
		"another volume added": {`additionalVolumes: [{size: 1Gi}]`, `additionalVolumes: [{size: 2Gi}, {size: 1Gi}]`,
			""},
		// Whether there is a volume for it, its claims say.
		"one volume less":      {`additionalVolumes: [{size: 2Gi}, {size: 1Gi}]`, `additionalVolumes: [{size: 2Gi}]`, ""},
		"class appears":        {``, `storage: {storageClassName: b}`, "storage.storageClassName is immutable"},
		"controllers later":    {``, `controllers: {}`, "controllers can neither be added nor taken out"},
		"controllers no more":  {`controllers: {}`, ``, "controllers can neither be added nor taken out"},
		"more controllers":     {`controllers: {}`, `controllers: {replicas: 5}`, ""},
		"more for controllers": {`controllers: {}`, `controllers: {storage: {size: 3Gi}}`, ""},
		"less for controllers": {`controllers: {}`, `controllers: {storage: {size: 1Gi}}`,
			"controllers.storage.size cannot shrink"},
		"default for controllers": {`controllers: {storage: {size: 3Gi}}`, `controllers: {}`,
			"controllers.storage.size cannot shrink"},
		"class of controllers": {`controllers: {}`, `controllers: {storage: {storageClassName: b}}`,
			"controllers.storage.storageClassName is immutable"},
		"class of theirs changes": {`controllers: {storage: {storageClassName: a}}`,
			`controllers: {storage: {storageClassName: b}}`, "controllers.storage.storageClassName is immutable"},
		"class of theirs stays": {`controllers: {storage: {storageClassName: a}}`,
			`controllers: {storage: {storageClassName: a, size: 3Gi}}`, ""},
		"more nodes": {`replicas: 3`, `replicas: 5`, ""},
		"fewer than durability has": {`{replicas: 3, profile: Durability}`, `{replicas: 1, profile: Durability}`,
			"profile Durability keeps each record on 3 brokers"},
		"version":         {`version: "4.3"`, `version: "4.4"`, ""},
		"zookeeper later": {`version: "3.9"`, `{version: "3.9", zookeeper: {}}`, "zookeeper cannot be added"},
		"zookeeper taken out": {`{version: "3.9", zookeeper: {}}`, `version: "3.9"`,
			"zookeeper has the metadata of the cluster, and cannot be taken out before"},
		"more of zookeeper": {`{version: "3.9", zookeeper: {replicas: 1}}`, `{version: "3.9", zookeeper: {}}`,
			"zookeeper.replicas is immutable"},
		"the migration begins": {`{version: "3.9", zookeeper: {}}`,
			`{version: "3.9", controllers: {}, zookeeper: {stage: Prepared}}`, ""},
		"migration without those": {`{version: "3.9", zookeeper: {}}`,
			`{version: "3.9", zookeeper: {stage: Prepared}}`, "controllers take over from ZooKeeper in this zookeeper.stage"},
		"a stage left out": {`{version: "3.9", controllers: {}, zookeeper: {stage: Prepared}}`,
			`{version: "3.9", controllers: {}, zookeeper: {stage: Migrated}}`,
			"zookeeper.stage goes from ZooKeeper to Prepared"},
		"a stage back": {`{version: "3.9", controllers: {}, zookeeper: {stage: Migrated}}`,
			`{version: "3.9", controllers: {}, zookeeper: {stage: Migrating}}`, ""},
		"no way back": {`{version: "3.9", controllers: {}, zookeeper: {stage: Apart}}`,
			`{version: "3.9", controllers: {}, zookeeper: {stage: Migrated}}`, "zookeeper.stage goes from"},
		"zookeeper is gone": {`{version: "3.9", controllers: {}, zookeeper: {stage: KRaft}}`,
			`{version: "4.4", controllers: {}}`, ""},
		"neither of both": {`{version: "3.9", controllers: {}, zookeeper: {stage: KRaft}}`,
			`{version: "3.9"}`, "the cluster cannot do without them"},
		"zookeeper and version 4": {`{version: "3.9", zookeeper: {}}`, `{version: "4.4", zookeeper: {}}`,
			"Kafka 4 has no ZooKeeper"},
		"less for zookeeper": {`{version: "3.9", zookeeper: {storage: {size: 3Gi}}}`, `{version: "3.9", zookeeper: {}}`,
			"zookeeper.storage.size cannot shrink"},
		"class of zookeeper": {`{version: "3.9", zookeeper: {}}`,
			`{version: "3.9", zookeeper: {storage: {storageClassName: b}}}`, "zookeeper.storage.storageClassName is immutable"},
	})
}

// A size that the volumes have not got yet can be taken back, whatever the object waits for.
func TestASizeThatIsNotThereYetIsTakenBack(t *testing.T) {
	namespace := env.Namespace(t)
	t.Run("brokers", func(t *testing.T) {
		testkit.SizeTakenBack(t, env.Client, func(name, spec string) *unstructured.Unstructured {
			return cluster(t, namespace, name, spec)
		})
	})
}

// TestDefaultsOfACluster shows what the server fills in when a Go client sends no more than the version.
func TestDefaultsOfACluster(t *testing.T) {
	got := &messagev1.KafkaCluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "defaults"},
		Spec: messagev1.KafkaClusterSpec{InstanceSpec: platformv1.InstanceSpec{Version: "4.4"},
			Controllers: &messagev1.KafkaControllers{}}}
	if err := env.Client.Create(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	spec := got.Spec
	if spec.Replicas != 3 || spec.Controllers.Replicas != 3 || !*spec.Running || spec.DeletionPolicy != "Retain" ||
		spec.PluginVersion != "1.0.0" {
		t.Errorf("the defaults are %+v", spec)
	}
}

// What the kinds compile in their own tests can be applied, and so can the samples.
func TestSamplesApply(t *testing.T) {
	namespace := env.Namespace(t)
	for _, files := range []string{"../../config/samples/message_v1_*.yaml", "../../internal/kind/*/testdata/*.in.yaml",
		"../../internal/kind/*/testdata/entities/*.in.yaml"} {
		testkit.Samples(t, env.Client, namespace, files)
	}
}

// A cluster that something else runs has nothing of brokers.
func TestBootstrapOfACluster(t *testing.T) {
	of := func(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
		t.Helper()
		return testkit.Object(t, messagev1.GroupVersion.WithKind("KafkaCluster"), namespace, name, map[string]any{}, spec)
	}
	const alone = `bootstrap: {servers: ["kafka-0.example.com:9093"], credentialsSecretRef: {name: account}}`
	refused := map[string]creation{
		"alone": {"alone", alone, ""},
		"all of it": {"all", `bootstrap: {servers: ["a:1", "[2001:db8::7]:9093"], security: SASL_PLAINTEXT, mechanism: ` +
			`PLAIN, credentialsSecretRef: {name: account}, caSecretRef: {name: ca}}`, ""},
		"no port": {"port", `bootstrap: {servers: [kafka-0.example.com], credentialsSecretRef: {name: account}}`,
			"should match"},
		"no servers": {"servers", `bootstrap: {servers: [], credentialsSecretRef: {name: account}}`, "at least 1 items"},
		"mechanism": {"mechanism", `bootstrap: {servers: ["a:1"], mechanism: GSSAPI, credentialsSecretRef: {name: account}}`,
			"Unsupported value"},
	}
	for field, value := range map[string]string{
		"version": `"4.4"`, "profile": "Latency", "parameters": `{num.io.threads: "4"}`, "storage": "{size: 1Gi}",
		"controllers": "{replicas: 1}", "service": "{type: NodePort}", "external": "{type: NodePort}",
		"tls":  "{enabled: true}",
		"auth": "{passwordFrom: {name: a, key: b}}", "users": "[{name: shop, passwordFrom: {name: a, key: b}}]",
		"podDisruptionBudget": "{maxUnavailable: 1}", "networkPolicy": "{}", "monitoring": "{enabled: true}",
		"adoptVolumes": "0a0a0a0a-0000-4000-8000-000000000000", "replicas": "1", "deletionPolicy": "Delete",
		"replicaSelector": "Leader", "additionalVolumes": "[{size: 1Gi}]",
	} {
		refused[field] = creation{strings.ToLower(field), alone + "\n" + field + ": " + value, "with bootstrap"}
	}
	createEach(t, of, refused)
	updateEach(t, of, map[string]update{
		"another server": {alone, `bootstrap: {servers: ["b:9093"], credentialsSecretRef: {name: account}}`, ""},
		"taken out":      {alone, `version: "4.4"`, "bootstrap can neither be added nor taken out"},
	})
}

// A version that cannot read what the cluster writes is refused, and any other change goes on.
func TestVersionBelowMetadataVersion(t *testing.T) {
	const refusal = "version cannot be below status.metadataVersion"
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ metadata, version, want string }{
		"not known":       {"", "4.3", ""},
		"the same":        {"4.3", "4.3", ""},
		"later":           {"4.3", "4.10", ""},
		"earlier":         {"4.4", "4.3", refusal},
		"patch of it":     {"4.4", "4.4.1", ""},
		"patch of before": {"4.4", "4.3.9", refusal},
		"major before":    {"4.3", "3.9", refusal},
		"major":           {"4.3", "5", ""},
	} {
		t.Run(title, func(t *testing.T) {
			obj := cluster(t, namespace, strings.ReplaceAll(title, " ", "-"), ``)
			if err := env.Client.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			if c.metadata != "" {
				if err := unstructured.SetNestedField(obj.Object, c.metadata, "status", "metadataVersion"); err != nil {
					t.Fatal(err)
				}
				if err := env.Client.Status().Update(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
			}
			if err := unstructured.SetNestedField(obj.Object, c.version, "spec", "version"); err != nil {
				t.Fatal(err)
			}
			testkit.Refused(t, env.Client.Update(t.Context(), obj), c.want)
		})
	}
}

// Where metadata.version was raised after the version had been set back, the object can be mended, and its status be
// written.
func TestObjectBelowMetadataVersionCanBeMended(t *testing.T) {
	obj := cluster(t, env.Namespace(t), "a", `version: "4.3"`)
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(obj.Object, "4.4", "status", "metadataVersion"); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{"profile": "Latency", "version": "4.4"} {
		if err := unstructured.SetNestedField(obj.Object, value, "spec", field); err != nil {
			t.Fatal(err)
		}
		if err := env.Client.Update(t.Context(), obj); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}
