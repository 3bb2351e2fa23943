// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/storage-operator/config/crd"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		AddToScheme: []func(*runtime.Scheme) error{storagev1.AddToScheme},
		CRDs:        []fs.FS{crd.FS},
	})
}

// storage returns an ObjectStorage whose spec has what the YAML adds.
func storage(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return testkit.Object(t, storagev1.GroupVersion.WithKind("ObjectStorage"), namespace, name,
		map[string]any{"backend": "Minio", "version": "2026.2"}, spec)
}

// objectStorages are specs, and what is said of those that are wrong.
var objectStorages = map[string]struct{ name, spec, want string }{
	"smallest":                    {"a", ``, ""},
	"name of 24":                  {strings.Repeat("a", 24), ``, ""},
	"name of 25":                  {strings.Repeat("a", 25), ``, "at most 24 characters"},
	"name with a dot":             {"a.b", ``, "cannot hold a dot"},
	"name with a digit first":     {"1web", ``, ""},
	"version":                     {"b", `version: latest`, "spec.version"},
	"backend":                     {"b", `backend: Ceph`, "spec.backend"},
	"claims":                      {"b", `resources: {claims: [{name: x}]}`, "resources.claims is not supported"},
	"no size":                     {"b", `storage: {size: "0"}`, "storage.size must be greater than 0"},
	"a field that does not exist": {"b", `replicas: 3`, "spec.replicas"},
	"pools":                       {"c", `{parity: 2, pools: [{name: a, servers: 4}, {name: b, servers: 16}]}`, ""},
	"pools by default":            {"d", `pools: [{name: a, servers: 5}, {name: b, servers: 4}]`, ""},
	"no pool":                     {"b", `pools: []`, "spec.pools"},
	"pool of three":               {"b", `pools: [{name: a, servers: 3}]`, "spec.pools[0].servers"},
	"pool of 17":                  {"b", `pools: [{name: a, servers: 17}]`, "spec.pools[0].servers"},
	"name of a pool":              {"b", `pools: [{name: a_b, servers: 4}]`, "spec.pools[0].name"},
	"long name of a pool":         {"b", `pools: [{name: seventh, servers: 4}]`, "spec.pools[0].name"},
	"two pools of a name":         {"b", `pools: [{name: a, servers: 4}, {name: a, servers: 4}]`, "spec.pools[1]"},
	"parity of one alone":         {"b", `parity: 2`, "parity needs pools"},
	"parity of half and more": {"b", `{parity: 3, pools: [{name: a, servers: 5}]}`,
		"at least twice as many servers"},
	"parity of a later pool": {"b", `{parity: 4, pools: [{name: a, servers: 8}, {name: b, servers: 6}]}`,
		"at least twice as many servers"},
	"parity by default": {"b", `pools: [{name: a, servers: 8}, {name: b, servers: 6}]`,
		"at least twice as many servers"},
	"parity of six by default": {"b", `pools: [{name: a, servers: 6}, {name: b, servers: 5}]`,
		"at least twice as many servers"},
	"parity of nothing":   {"b", `{parity: 0, pools: [{name: a, servers: 4}]}`, "spec.parity"},
	"parameter of parity": {"b", `parameters: {storage_class_standard: EC:2}`, "set spec.parity in place"},
	"buckets": {"e", `buckets: [{name: a.b-c}, {name: full, versioning: Enabled, objectLock: ` +
		`true, retention: {mode: Compliance, days: 1}, access: Public, quota: 10Gi, lifecycle: [{name: a, expireDays: 1}]}]`,
		""},
	"bucket with a policy":   {"f", `buckets: [{name: abc, policy: '{"Version": "2012-10-17"}'}]`, ""},
	"policy that is no JSON": {"b", `buckets: [{name: abc, policy: everybody}]`, "spec.buckets[0].policy"},
	"access and policy": {"b", `buckets: [{name: abc, access: None, policy: '{}'}]`,
		"access and policy both say"},
	"access":                  {"b", `buckets: [{name: abc, access: Write}]`, "spec.buckets[0].access"},
	"bucket of two letters":   {"b", `buckets: [{name: ab}]`, "spec.buckets[0].name"},
	"bucket in capitals":      {"b", `buckets: [{name: Abc}]`, "spec.buckets[0].name"},
	"bucket like an address":  {"b", `buckets: [{name: 10.0.0.1}]`, "like an address of a host"},
	"bucket with two dots":    {"b", `buckets: [{name: a..b}]`, "a dot beside a dot or a dash"},
	"bucket minio":            {"b", `buckets: [{name: minio}]`, "not called minio"},
	"two buckets of a name":   {"b", `buckets: [{name: abc}, {name: abc}]`, "spec.buckets[1]"},
	"lock without versioning": {"b", `buckets: [{name: abc, objectLock: true}]`, "objectLock needs versioning"},
	"lock with suspended": {"b", `buckets: [{name: abc, versioning: Suspended, objectLock: true}]`,
		"objectLock needs versioning"},
	"retention without lock": {"b", `buckets: [{name: abc, retention: {mode: Governance, days: 1}}]`,
		"retention needs objectLock"},
	"retention for no time": {"b",
		`buckets: [{name: abc, versioning: Enabled, objectLock: true, retention: {mode: Governance, days: 0}}]`,
		"retention.days"},
	"rule that says nothing": {"b", `buckets: [{name: abc, lifecycle: [{name: a}]}]`,
		"needs expireDays or noncurrentDays"},
	"two rules of a name": {"b",
		`buckets: [{name: abc, lifecycle: [{name: a, expireDays: 1}, {name: a, expireDays: 2}]}]`, "lifecycle[1]"},
	"quota of nothing": {"b", `buckets: [{name: abc, quota: "0"}]`, "spec.buckets[0].quota"},
	"quota of words":   {"b", `buckets: [{name: abc, quota: much}]`, "spec.buckets[0].quota"},
	"deletion policy of a bucket": {"b", `buckets: [{name: abc, deletionPolicy: Snapshot}]`,
		"spec.buckets[0].deletionPolicy"},
	"policies":          {"g", `policies: [{name: reports, document: '{"Version": "2012-10-17"}'}]`, ""},
	"policy of MinIO's": {"b", `policies: [{name: readonly, document: '{}'}]`, "are MinIO's own"},
	"policy of grants": {"b", `policies: [{name: a.grants, document: '{}'}]`,
		"those of the grants of users"},
	"policy without a document": {"b", `policies: [{name: a}]`, "spec.policies[0].document"},
	"users": {"h", `users: [{name: app, secretKeyFrom: {name: x}, policies: [readonly], ` +
		`grants: [{bucket: abc, access: Read, prefix: a/}]}, {name: Ops@shop, secretKeyFrom: {name: x}}]`, ""},
	"user of the instance": {"b", `users: [{name: zeroinfra, secretKeyFrom: {name: x}}]`,
		"is the instance's own"},
	"user of two letters": {"b", `users: [{name: ab, secretKeyFrom: {name: x}}]`, "spec.users[0].name"},
	"user without a key":  {"b", `users: [{name: app}]`, "spec.users[0].secretKeyFrom"},
	"user who is a boss": {"b", `users: [{name: app, secretKeyFrom: {name: x}, policies: [consoleAdmin]}]`,
		"past the engine"},
	"grant of nothing": {"b",
		`users: [{name: app, secretKeyFrom: {name: x}, grants: [{bucket: abc, access: None}]}]`, "access"},
	"grant with a pattern": {"b",
		`users: [{name: app, secretKeyFrom: {name: x}, grants: [{bucket: abc, access: Read, prefix: "a*"}]}]`, "prefix"},
	"two grants of a bucket": {"b",
		`users: [{name: app, secretKeyFrom: {name: x}, ` +
			`grants: [{bucket: abc, access: Read}, {bucket: abc, access: Write}]}]`, "grants[1]"},
	"service type":                  {"b", `service: {type: ExternalName}`, "spec.service.type"},
	"plugin version":                {"b", `pluginVersion: "1"`, "spec.pluginVersion"},
	"deletion policy":               {"b", `deletionPolicy: Forget`, "spec.deletionPolicy"},
	"storage class, size by itself": {"i", `storage: {storageClassName: fast}`, ""},
}

func TestCreate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range objectStorages {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), storage(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

func TestUpdate(t *testing.T) {
	namespace := env.Namespace(t)
	const two = `pools: [{name: a, servers: 4}, {name: b, servers: 6}]`
	for title, c := range map[string]struct{ before, after, want string }{
		"size grows":          {`storage: {size: 1Gi}`, `storage: {size: 1025Mi}`, ""},
		"size shrinks":        {`storage: {size: 1Gi}`, `storage: {size: 1023Mi}`, "storage.size cannot shrink"},
		"size by default":     {``, `storage: {size: 9Gi}`, "storage.size cannot shrink"},
		"size is left out":    {`storage: {size: 11Gi}`, ``, "storage.size cannot shrink"},
		"size said as it is":  {``, `storage: {size: 10Gi}`, ""},
		"storage class comes": {``, `storage: {storageClassName: b}`, "storageClassName is immutable"},
		"storage class goes":  {`storage: {storageClassName: a}`, ``, "storageClassName is immutable"},
		"storage class changes": {`storage: {storageClassName: a}`, `storage: {storageClassName: b}`,
			"storageClassName is immutable"},
		"one more pool": {two, `pools: [{name: a, servers: 4}, {name: b, servers: 6}, {name: c, servers: 4}]`, ""},
		"a pool first": {two, `pools: [{name: c, servers: 4}, {name: a, servers: 4}, {name: b, servers: 6}]`,
			"a pool cannot go, nor change its name or its place"},
		"pools change places": {two, `pools: [{name: b, servers: 6}, {name: a, servers: 4}]`,
			"a pool cannot go, nor change its name or its place"},
		"a pool goes": {two, `pools: [{name: a, servers: 4}]`, "a pool cannot go"},
		"a pool with a new name": {two, `pools: [{name: a, servers: 4}, {name: c, servers: 6}]`,
			"a pool cannot go, nor change its name"},
		"more servers": {two, `pools: [{name: a, servers: 8}, {name: b, servers: 6}]`,
			"servers of a pool are immutable"},
		"fewer servers": {two, `pools: [{name: a, servers: 4}, {name: b, servers: 4}]`,
			"servers of a pool are immutable"},
		"pools for one alone": {``, two, "pools can neither be added to a single server nor taken out"},
		"pools taken out":     {two, ``, "pools can neither be added to a single server nor taken out"},
		"a pool that is small": {`pools: [{name: a, servers: 8}]`, `pools: [{name: a, servers: 8}, {name: b, servers: 4}]`,
			"at least twice as many servers"},
		"with a lower parity": {`pools: [{name: a, servers: 8}]`,
			`{parity: 2, pools: [{name: a, servers: 8}, {name: b, servers: 4}]}`, ""},
		"lock later": {`buckets: [{name: abc, versioning: Enabled}]`,
			`buckets: [{name: abc, versioning: Enabled, objectLock: true}]`, "objectLock is decided when the bucket is made"},
		"lock taken out": {`buckets: [{name: abc, versioning: Enabled, objectLock: true}]`,
			`buckets: [{name: abc, versioning: Enabled}]`, "objectLock is decided when the bucket is made"},
		"versioning off again": {`buckets: [{name: abc, versioning: Enabled}]`, `buckets: [{name: abc}]`,
			"versioning cannot be off again"},
		"versioning is suspended": {`buckets: [{name: abc, versioning: Enabled}]`,
			`buckets: [{name: abc, versioning: Suspended}]`, ""},
		"versioning later": {`buckets: [{name: abc}]`, `buckets: [{name: abc, versioning: Enabled}]`, ""},
		"a bucket goes":    {`buckets: [{name: abc}]`, ``, ""},
	} {
		t.Run(title, func(t *testing.T) {
			name := strings.ToLower(strings.ReplaceAll(title, " ", "-"))
			before := storage(t, namespace, name, c.before)
			if err := env.Client.Create(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			after := storage(t, namespace, name, c.after)
			after.SetResourceVersion(before.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), after), c.want)
		})
	}
}

// external returns an ObjectStorage with the backend External whose spec has what the YAML adds.
func external(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return testkit.Object(t, storagev1.GroupVersion.WithKind("ObjectStorage"), namespace, name,
		map[string]any{"backend": "External",
			"external": map[string]any{"endpoint": "https://s3.example.com",
				"credentialsSecretRef": map[string]any{"name": "account"}}}, spec)
}

func TestCreateExternal(t *testing.T) {
	namespace := env.Namespace(t)
	const account = `credentialsSecretRef: {name: x}`
	for title, c := range map[string]struct{ spec, want string }{
		"smallest": {``, ""},
		"all that it can have": {
			`{external: {endpoint: "http://10.0.0.7:9000", region: eu-1, addressingStyle: VirtualHost, ` + account +
				`}, resources: {limits: {memory: 64Mi}}, running: false, deletionPolicy: Retain, deletionProtection: true, ` +
				`scheduling: {nodeSelector: {a: b}}, maintenance: {windows: [{schedule: "0 3 * * *", duration: 1h, timeZone: ` +
				`UTC}]}}`, ""},
		"an authority": {`external: {endpoint: "https://s3.example.com:9000", ` + account + `, caSecretRef: {name: x}}`, ""},
		"buckets": {`buckets: [{name: full, versioning: Enabled, objectLock: true, retention: {mode: Compliance, ` +
			`days: 1}, access: Public, adopt: true, deletionPolicy: Delete, lifecycle: [{name: a, expireDays: 1}]}]`, ""},

		"external with Minio": {`{backend: Minio, version: "2026.2"}`,
			"external is for a storage that is only referenced"},
		"an authority and no TLS": {`external: {endpoint: "http://s3.example.com", ` + account + `, caSecretRef: {name: x}}`,
			"over http there is none"},
		"no endpoint": {`external: {` + account + `}`, "spec.external.endpoint"},
		"endpoint with a path": {`external: {endpoint: "https://s3.example.com/a", ` + account + `}`,
			"must be a URL of a scheme and a host"},
		"endpoint without scheme": {`external: {endpoint: "s3.example.com:9000", ` + account + `}`,
			"must be a URL of a scheme and a host"},
		"endpoint with two ports": {`external: {endpoint: "https://s3.example.com:1:2", ` + account + `}`,
			"must be a URL of a scheme and a host"},
		"region": {`external: {endpoint: "https://a", ` + account + `, region: EU}`,
			"spec.external.region"},
		"addressing style": {`external: {endpoint: "https://a", ` + account + `, addressingStyle: Auto}`,
			"spec.external.addressingStyle"},
		"no account": {`external: {endpoint: "https://a"}`, "spec.external.credentialsSecretRef"},
		"an account without name": {`external: {endpoint: "https://a", credentialsSecretRef: {name: ""}}`,
			"spec.external.credentialsSecretRef.name"},
		"a field there that isn't": {`external: {endpoint: "https://a", ` + account + `, accessKey: a}`,
			"spec.external.accessKey"},

		"version":    {`version: "2026.2"`, "version is of servers that run here"},
		"pools":      {`pools: [{name: a, servers: 4}]`, "pools are servers"},
		"parity":     {`parity: 2`, "parity needs pools"},
		"storage":    {`storage: {size: 10Gi}`, "storage is of servers that run here"},
		"parameters": {`parameters: {scanner_speed: slow}`, "parameters are of servers"},
		"service":    {`service: {type: NodePort}`, "clients go to external.endpoint"},
		"tls": {`tls: {enabled: true, issuerRef: {name: a}}`,
			"set external.endpoint to https and external.caSecretRef"},
		"tls that is off":       {`tls: {enabled: false}`, "take tls out"},
		"podDisruptionBudget":   {`podDisruptionBudget: {maxUnavailable: 1}`, "take podDisruptionBudget out"},
		"networkPolicy":         {`networkPolicy: {}`, "take networkPolicy out"},
		"monitoring":            {`monitoring: {enabled: true}`, "the metrics are where the storage is"},
		"users":                 {`users: [{name: app, secretKeyFrom: {name: x}}]`, "S3 has no word for users"},
		"policies":              {`policies: [{name: reports, document: '{}'}]`, "S3 has no word for policies of users"},
		"quota":                 {`buckets: [{name: abc}, {name: abd, quota: 1Gi}]`, "S3 has no word for a quota"},
		"volumes to delete":     {`deletionPolicy: Delete`, "deletionPolicy is of volumes"},
		"volumes to adopt":      {`adoptVolumes: 0b1c`, "no volumes to adopt"},
		"lock of no versioning": {`buckets: [{name: abc, objectLock: true}]`, "objectLock needs versioning"},
		"a backup":              {`restoreFrom: {backup: nightly}`, "restoreFrom puts objects into servers that run here"},
	} {
		t.Run(title, func(t *testing.T) {
			name := "e-" + fmt.Sprintf("%x", len(title)) + strings.ToLower(strings.ReplaceAll(title, " ", "-"))
			testkit.Refused(t, env.Client.Create(t.Context(), external(t, namespace, name[:min(len(name), 24)], c.spec),
				testkit.Strict), c.want)
		})
	}
	for backend, want := range map[string]string{"External": "backend External needs external",
		"Minio": "version is required"} {
		bare := testkit.Object(t, storagev1.GroupVersion.WithKind("ObjectStorage"), namespace, "bare",
			map[string]any{"backend": backend}, ``)
		testkit.Refused(t, env.Client.Create(t.Context(), bare, testkit.Strict), want)
	}
}

func TestUpdateExternal(t *testing.T) {
	namespace := env.Namespace(t)
	const at = `endpoint: "https://s3.example.com:9000", credentialsSecretRef: {name: x}`
	for title, c := range map[string]struct{ before, after, want string }{
		"another host": {`external: {` + at + `}`,
			`external: {endpoint: "https://s4.example.com:9000", credentialsSecretRef: {name: x}}`,
			"external.endpoint is immutable"},
		"another region": {`external: {` + at + `}`, `external: {` + at + `, region: eu-1}`,
			"external.region is immutable"},
		"another account": {`external: {` + at + `}`,
			`external: {endpoint: "https://s3.example.com:9000", credentialsSecretRef: {name: another}}`, ""},
		"another style":      {`external: {` + at + `}`, `external: {` + at + `, addressingStyle: VirtualHost}`, ""},
		"an authority comes": {`external: {` + at + `}`, `external: {` + at + `, caSecretRef: {name: x}}`, ""},
		"a quota comes":      {`buckets: [{name: abc}]`, `buckets: [{name: abc, quota: 1Gi}]`, "S3 has no word for a quota"},
		"a lock comes": {`buckets: [{name: abc, versioning: Enabled}]`,
			`buckets: [{name: abc, versioning: Enabled, objectLock: true}]`, "objectLock is decided"},
	} {
		t.Run(title, func(t *testing.T) {
			name := strings.ReplaceAll(title, " ", "-")
			before := external(t, namespace, name, c.before)
			if err := env.Client.Create(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			after := external(t, namespace, name, c.after)
			after.SetResourceVersion(before.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), after), c.want)
		})
	}
}

// TestDefaults shows what the server fills in when a Go client sends no more than it has to.
func TestDefaults(t *testing.T) {
	got := &storagev1.ObjectStorage{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "defaults"},
		Spec: storagev1.ObjectStorageSpec{
			InstanceSpec: platformv1.InstanceSpec{Version: "2026.2"},
			Backend:      storagev1.BackendMinio,
			Buckets:      []storagev1.ObjectStorageBucket{{Name: "abc"}},
		}}
	if err := env.Client.Create(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	s := got.Spec
	bucket := s.Buckets[0]
	if said := fmt.Sprintln(*s.Running, s.DeletionPolicy, s.PluginVersion, bucket.Versioning,
		bucket.DeletionPolicy); said != "true Retain 1.0.0 Off Retain\n" {
		t.Errorf("got %q", said)
	}
}
