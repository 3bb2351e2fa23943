// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// newDataset returns a Dataset with the version 1.0 whose spec has what the YAML adds.
func newDataset(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	version := map[string]any{"name": "1.0",
		"files":  []any{map[string]any{"path": "a.csv", "sha256": strings.Repeat("a", 64)}},
		"source": map[string]any{"http": map[string]any{"url": "https://data.example.com/sets"}}}
	return testkit.Object(t, aiv1.GroupVersion.WithKind("Dataset"), namespace, name,
		map[string]any{"serviceAccountName": "preparer", "storage": map[string]any{"size": "1Gi"},
			"versions": []any{version}}, spec)
}

// set is a version in YAML of one file, with what the text adds to its name.
func set(name, rest string) string {
	return `{name: "` + name + `", files: [{path: a.csv, sha256: ` + strings.Repeat("a", 64) + `}], ` + rest + `}`
}

// made is one that is made from another.
func made(name, from, rest string) string {
	return `{name: "` + name + `", from: {version: "` + from + `", steps: [{name: clean, image: a` + rest + `}]}}`
}

// fileAt is the version 1 with one file.
func fileAt(path string) string {
	return `versions: [{name: "1", files: [{path: "` + path + `", sha256: ` + strings.Repeat("a", 64) + `}], ` + fromHTTP +
		`}]`
}

func TestDatasetCreate(t *testing.T) {
	namespace := env.Namespace(t)
	manifest := `manifest: {path: SHA256SUMS, sha256: ` + strings.Repeat("b", 64) + `}`
	for title, c := range map[string]struct{ name, spec, want string }{
		"smallest": {"a", ``, ""},
		"claim": {"b", `versions: [` + set("1.0", `source: {pvc: {claimName: sets, path: digits/train}}`) + `]`,
			""},
		"bucket": {"c", `versions: [` + set("1.0", `size: 2Gi, source: {s3: {endpoint: `+
			`"https://s3.example.com", bucket: sets, prefix: digits/, credentialsSecretRef: {name: account}}}`) + `]`, ""},
		"bucket by IPv6": {"i", `versions: [` +
			set("1.0", `size: 2Gi, source: {s3: {endpoint: "http://[fd00::7]:9000", bucket: sets, prefix: digits/}}`) + `]`, ""},
		"private": {"j", `versions: [` + set("1", `source: {http: {url: "https://a/b", caSecretRef: {name: ca}, `+
			`tokenSecretRef: {name: t, key: token}}}`) + `, ` + set("2", `source: {http: {url: "https://a/b", `+
			`credentialsSecretRef: {name: u}}}`) + `, ` + set("3", `source: {s3: {endpoint: "https://a", bucket: sets, `+
			`caSecretRef: {name: ca, key: ca.pem}}}`) + `]`, ""},
		"a password without TLS": {"x", `versions: [` +
			set("1", `source: {http: {url: "http://a/b", credentialsSecretRef: {name: u}}}`) + `]`, "of the scheme https"},
		"a token and a password": {"x", `versions: [` + set("1", `source: {http: {url: "https://a/b", tokenSecretRef: `+
			`{name: t}, credentialsSecretRef: {name: u}}}`) + `]`, "at most one of tokenSecretRef"},
		"manifest": {"d", `versions: [{name: "1.0", ` + manifest + `, ` + fromHTTP + `}]`, ""},
		"made":     {"e", `versions: [` + set("1.0", fromHTTP) + `, ` + made("1.0-clean", "1.0", "") + `]`, ""},
		"retention": {"f", `{retention: {deletionPolicy: Delete, keep: 2, expireAfter: 720h}, maxSize: 10Gi, ` +
			`storage: {size: 1Gi, storageClassName: nfs, accessMode: ReadWriteMany}}`, ""},
		"no account":      {"x", `serviceAccountName: null`, "serviceAccountName"},
		"no size":         {"x", `storage: {size: null}`, "storage.size"},
		"size of nothing": {"x", `storage: {size: 0}`, "size must be above 0"},
		"access mode":     {"x", `storage: {size: 1Gi, accessMode: ReadOnlyMany}`, "Unsupported value"},
		"no versions":     {"x", `versions: []`, "spec.versions"},
		"same name":       {"x", `versions: [` + set("1", fromHTTP) + `, ` + set("1", fromHTTP) + `]`, "Duplicate value"},
		"no source":       {"x", `versions: [` + set("1", `source: {}`) + `]`, "exactly one of http, pvc and s3"},
		"neither":         {"x", `versions: [{name: "1"}]`, "set exactly one of source and from"},
		"no files":        {"x", `versions: [{name: "1", ` + fromHTTP + `}]`, "exactly one of files and manifest"},
		"files and manifest": {"x", `versions: [` + set("1", manifest+`, `+fromHTTP) + `]`,
			"exactly one of files and manifest"},
		"files made": {"x", `versions: [` + set("1", fromHTTP) + `, ` +
			set("2", `from: {version: "1", steps: [{name: a, image: a}]}`) + `]`, "one that is made from another has none"},
		"same file": {"x", `versions: [{name: "1", files: [{path: a, sha256: ` + strings.Repeat("a", 64) +
			`}, {path: a, sha256: ` + strings.Repeat("b", 64) + `}], ` + fromHTTP + `}]`, "Duplicate value"},
		"digest":           {"x", `versions: [{name: "1", files: [{path: a, sha256: ABC}], ` + fromHTTP + `}]`, "sha256"},
		"a path upwards":   {"x", fileAt("a/../b"), "two dots"},
		"an absolute path": {"x", fileAt("/a"), "path"},
		"a hidden path":    {"x", fileAt(".zeroinfra/a"), "path"},
		"a folder":         {"x", fileAt("a/"), "ends with the name of a file"},
		"an expression":    {"x", fileAt("${a}"), "path"},
		"a query":          {"x", `versions: [` + set("1", `source: {http: {url: "http://a/b?token=x"}}`) + `]`, "url"},
		"size of no claim": {"x", `versions: [` + set("1", `size: 1Gi, source: {pvc: {claimName: a}}`) + `]`,
			"none is for source.pvc"},
		"made from itself": {"x", `versions: [` + made("1", "1", "") + `]`, "from.version names the version itself"},
		"made from none": {"x", `versions: [` + set("1", fromHTTP) + `, ` + made("2", "3", "") + `]`,
			"one that is not in versions"},
		"root": {"x", `versions: [` + set("1", fromHTTP) + `, ` + made("2", "1", ", runAsUser: 0") + `]`,
			"runAsUser"},
		"seal": {"x", `versions: [` + set("1", fromHTTP) +
			`, {name: "2", from: {version: "1", steps: [{name: seal, image: a}]}}]`, "the name seal is taken"},
		"keep and retain": {"x", `retention: {keep: 1}`, "set deletionPolicy: Delete with them"},
		"expire and retain": {"x", `retention: {deletionPolicy: Retain, expireAfter: 1h}`,
			"set deletionPolicy: Delete with them"},
		"a short time":      {"x", `retention: {deletionPolicy: Delete, expireAfter: 1s}`, "expireAfter must be at least 1m"},
		"a name with a dot": {"x.y", ``, "at most 40 characters and no dots"},
		"a long name":       {strings.Repeat("x", 41), ``, "at most 40 characters and no dots"},
		"unknown field":     {"x", `tags: [a]`, "spec.tags"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), newDataset(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

func TestDatasetChange(t *testing.T) {
	namespace := env.Namespace(t)
	one := set("1.0", fromHTTP)
	obj := newDataset(t, namespace, "a", `versions: [`+one+`, `+made("1.0-clean", "1.0", "")+`]`)
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	for title, c := range map[string]struct{ spec, want string }{
		"another version more": {`versions: [` + one + `, ` + made("1.0-clean", "1.0", "") + `, ` +
			set("2.0", fromHTTP) + `]`, ""},
		"one taken out":               {`versions: [` + one + `]`, ""},
		"one that another is made of": {`versions: [` + made("1.0-clean", "1.0", "") + `]`, "one that is not in versions"},
		"another source": {`versions: [` + set("1.0", `source: {http: {url: "http://a/c"}}`) + `]`,
			"a version is immutable"},
		"another step": {`versions: [` + one + `, ` + made("1.0-clean", "1.0", ", args: [a]") + `]`,
			"a version is immutable"},
		"another storage": {`storage: {size: 2Gi}`, "storage is immutable"},
		"retention":       {`{retention: {deletionPolicy: Delete}, versions: [` + one + `]}`, ""},
		"account":         {`{serviceAccountName: other, versions: [` + one + `]}`, ""},
	} {
		t.Run(title, func(t *testing.T) {
			changed := newDataset(t, namespace, "a", c.spec)
			changed.SetResourceVersion(obj.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), changed, client.DryRunAll), c.want)
		})
	}
}

func TestDatasetSamplesApply(t *testing.T) {
	testkit.Samples(t, env.Client, env.Namespace(t), "../../config/samples/*_v1_dataset.yaml")
}
