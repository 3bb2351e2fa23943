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

// newModel returns a Model of the format GGUF with the version 1.0 whose spec has what the YAML adds.
func newModel(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	version := map[string]any{"name": "1.0", "sha256": strings.Repeat("a", 64),
		"source": map[string]any{"http": map[string]any{"url": "https://models.example.com/a.gguf"}}}
	return testkit.Object(t, aiv1.GroupVersion.WithKind("Model"), namespace, name,
		map[string]any{"format": "GGUF", "versions": []any{version}}, spec)
}

// version is one in YAML, with what the text adds to its name and digest.
func version(name, rest string) string {
	return `{name: "` + name + `", sha256: ` + strings.Repeat("a", 64) + `, ` + rest + `}`
}

// publicKey begins as one; what follows is not for the schema.
const publicKey = `verification: {publicKey: "-----BEGIN PUBLIC KEY-----"}`

// cached begins a spec with a cache.
const cached = `{cache: {serviceAccountName: preparer, storage: {size: 1Gi}}`

const fromHTTP = `source: {http: {url: "http://a/b"}}`

func TestModelCreate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"smallest": {"a", ``, ""},
		"claim": {"b", `versions: [` +
			version("1.0", `size: 501728, source: {pvc: {claimName: models, path: chat/q4.gguf}}`) + `]`, ""},
		"bucket": {"c", `versions: [` +
			version("1.0", `source: {s3: {endpoint: "https://s3.example.com", bucket: models, key: a b, credentialsSecretRef: `+
				`{name: account}}}`) + `]`, ""},
		"bucket by IPv6": {"i", `versions: [` +
			version("1.0", `source: {s3: {endpoint: "http://[fd00::7]:9000", bucket: models, key: a b}}`) + `]`, ""},
		"image": {"g", `versions: [` + version("1.0", `source: {oci: {image: "registry.example.com/models/chat:1.0", `+
			`path: models/q4.gguf, pullSecretRef: {name: puller}}}`) + `]`, ""},
		"image by its digest": {"h", `versions: [` + version("1.0", `source: {oci: {image: "registry:5000/chat@sha256:`+
			strings.Repeat("b", 64)+`", path: q4.gguf}}`) + `]`, ""},
		"private": {"l", `versions: [` + version("1", `source: {http: {url: "https://a/b", caSecretRef: {name: ca}, `+
			`tokenSecretRef: {name: t, key: token}}}`) + `, ` + version("2", `source: {http: {url: "https://a/b", `+
			`credentialsSecretRef: {name: u}}}`) + `, ` + version("3", `source: {s3: {endpoint: "https://a", bucket: `+
			`models, key: k, caSecretRef: {name: ca, key: ca.pem}}}`) + `, ` + version("4", `source: {oci: {image: a.b/c, `+
			`path: d, caSecretRef: {name: ca}}}`) + `]`, ""},
		"a token without TLS": {"x", `versions: [` +
			version("1", `source: {http: {url: "http://a/b", tokenSecretRef: {name: t}}}`) + `]`, "of the scheme https"},
		"an authority without TLS": {"x", `versions: [` + version("1", `source: {s3: {endpoint: "http://a", bucket: models, `+
			`key: k, caSecretRef: {name: ca}}}`) + `]`, "of the scheme https"},
		"a token and a password": {"x", `versions: [` + version("1", `source: {http: {url: "https://a/b", tokenSecretRef: `+
			`{name: t}, credentialsSecretRef: {name: u}}}`) + `]`, "at most one of tokenSecretRef"},
		"image without a registry": {"x", `versions: [` +
			version("1", `source: {oci: {image: models/chat, path: q4.gguf}}`) + `]`, "begin with the host of its registry"},
		"image with a scheme": {"x", `versions: [` +
			version("1", `source: {oci: {image: "https://a.b/chat", path: q4.gguf}}`) + `]`, "source.oci.image"},
		"image without a path": {"x", `versions: [` + version("1", `source: {oci: {image: a.b/chat}}`) + `]`,
			"source.oci.path"},
		"stages":         {"d", `stages: {Staging: "1.0", Production: "1.0"}`, ""},
		"no format":      {"x", `format: null`, "spec.format"},
		"unknown format": {"x", `format: TAR`, "spec.format"},
		"no versions":    {"x", `versions: []`, "spec.versions"},
		"the same name twice": {"x", `versions: [` + version("1", fromHTTP) + `, ` + version("1", fromHTTP) + `]`,
			"Duplicate value"},
		"no source": {"x", `versions: [` + version("1", `source: {}`) + `]`, "exactly one of http, pvc, s3 and oci"},
		"two sources": {"x", `versions: [` +
			version("1", `source: {http: {url: "http://a"}, pvc: {claimName: a, path: b}}`) + `]`,
			"exactly one of http, pvc, s3 and oci"},
		"no digest": {"x", `versions: [{name: a, ` + fromHTTP + `}]`, "sha256"},
		"digest in upper case": {"x", `versions: [{name: a, sha256: ` + strings.Repeat("A", 64) + `, ` + fromHTTP + `}]`,
			"sha256"},
		"size": {"x", `versions: [` + version("1", `size: 0, `+fromHTTP) + `]`, "size must be above 0"},
		"parameters": {"f", `versions: [` +
			version("1", `parameters: {count: 1.1B, quantisation: Q4_K_M}, `+fromHTTP) + `]`, ""},
		"a count in words": {"x", `versions: [` + version("1", `parameters: {count: many}, `+fromHTTP) + `]`,
			"parameters.count"},
		"quantised by two": {"x", `versions: [` + version("1", `parameters: {quantisation: Q4 Q8}, `+fromHTTP) + `]`,
			"parameters.quantisation"},
		"empty parameters": {"x", `versions: [` + version("1", `parameters: {}, `+fromHTTP) + `]`, "parameters"},
		"another scheme":   {"x", `versions: [` + version("1", `source: {http: {url: "ftp://a/b"}}`) + `]`, "url"},
		"a path upwards": {"x", `versions: [` + version("1", `source: {pvc: {claimName: a, path: a/../b}}`) + `]`,
			"two dots"},
		"an absolute path":    {"x", `versions: [` + version("1", `source: {pvc: {claimName: a, path: /a}}`) + `]`, "path"},
		"unknown stage":       {"x", `stages: {Canary: "1.0"}`, "stages are Staging, Production and Archived"},
		"stage of no version": {"x", `stages: {Production: "2.0"}`, "not in versions"},
		"requires":            {"e", `requires: [{name: base}]`, ""},
		"unknown field":       {"x", `tags: [a]`, "spec.tags"},
		"signed": {"k", `{` + publicKey + `, versions: [` +
			version("1", `signature: MEUCIQDabcdefg==, `+fromHTTP) + `]}`, ""},
		"a key and no signature": {"j", publicKey, ""},
		"a signature and no key": {"x", `versions: [` + version("1", `signature: MEUCIQDabcdefg==, `+fromHTTP) + `]`,
			"signatures are verified by a public key"},
		"a signature on two lines": {"x", `{` + publicKey + `, versions: [` +
			version("1", `signature: "MEUCIQDabcdefg\nabcdefghijkl", `+fromHTTP) + `]}`, "signature"},
		"a private key": {"x", `verification: {publicKey: "-----BEGIN PRIVATE KEY-----"}`,
			"A private key belongs in no Model"},
		"verification without a key": {"x", `verification: {}`, "publicKey"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), newModel(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

func TestModelWithACacheCreate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"cache": {"cached", cached + `, versions: [` + version("1.0", fromHTTP) + `, ` +
			version("2.0", `source: {s3: {endpoint: "https://s3.example.com", bucket: models, key: a/b}}`) + `]}`, ""},
		"cache by a long name":     {strings.Repeat("a", 35), cached + `}`, "at most 34 characters"},
		"cache by a dot":           {"a.b", cached + `}`, "no dots"},
		"cache without an account": {"x", `cache: {storage: {size: 1Gi}}`, "spec.cache.serviceAccountName"},
		"cache of nothing":         {"x", `cache: {serviceAccountName: a, storage: {size: 0}}`, "size must be above 0"},
		"cache of a claim": {"x", cached + `, versions: [` +
			version("1.0", `source: {pvc: {claimName: models, path: a}}`) + `]}`, "only files of web servers and buckets"},
		"cache of an image": {"x", cached + `, versions: [` +
			version("1.0", `source: {oci: {image: "a.b/chat", path: a}}`) + `]}`, "only files of web servers and buckets"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), newModel(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

func TestModelWithAMinimumCreate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"minimum":          {"a", `minimum: {runtime: {name: llama-cpp, version: "0.7"}, memory: 8Gi, gpus: 2}`, ""},
		"of a runtime":     {"b", `minimum: {runtime: {name: onnxruntime}}`, ""},
		"of nothing":       {"x", `minimum: {}`, "spec.minimum"},
		"of no memory":     {"x", `minimum: {memory: 0}`, "memory must be above 0"},
		"of no GPUs":       {"x", `minimum: {gpus: 0}`, "spec.minimum.gpus"},
		"of a version":     {"x", `minimum: {runtime: {version: "0.7"}}`, "spec.minimum.runtime.name"},
		"version in words": {"x", `minimum: {runtime: {name: a, version: latest}}`, "spec.minimum.runtime.version"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), newModel(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

func TestModelChange(t *testing.T) {
	namespace := env.Namespace(t)
	two := `versions: [` + version("1.0", fromHTTP) + `, ` + version("2.0", fromHTTP) + `]`
	obj := newModel(t, namespace, "a", two)
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	status := client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"inUse":1,"versions":[{"name":"1.0","inUse":1},{"name":"2.0","inUse":0}]}}`))
	if err := env.Client.Status().Patch(t.Context(), obj, status); err != nil {
		t.Fatal(err)
	}
	for title, c := range map[string]struct{ spec, want string }{
		"another version more": {`versions: [` + version("1.0", fromHTTP) + `, ` + version("2.0", fromHTTP) + `, ` +
			version("3.0", fromHTTP) + `]`, ""},
		"a version that nobody uses": {`versions: [` + version("1.0", fromHTTP) + `]`, ""},
		"a version in use": {`versions: [` + version("2.0", fromHTTP) + `]`,
			"a version that an Inference uses cannot be taken out"},
		"another source of a version": {`versions: [` + version("1.0", `source: {http: {url: "http://a/c"}}`) + `, ` +
			version("2.0", fromHTTP) + `]`, "a version is immutable"},
		"another format":               {`{format: ONNX, ` + two + `}`, "format is immutable"},
		"a stage":                      {`{stages: {Production: "2.0"}, ` + two + `}`, ""},
		"a stage of a version not set": {`{stages: {Production: "3.0"}, ` + two + `}`, "not in versions"},
		"notes on a version": {`versions: [` + version("1.0", `parameters: {count: 7B}, `+fromHTTP) + `, ` +
			version("2.0", fromHTTP) + `]`,
			"a version is immutable"},
		"a size of a version": {`versions: [` + version("1.0", `size: 1, `+fromHTTP) + `, ` + version("2.0", fromHTTP) + `]`,
			"a version is immutable"},
		"another digest": {`versions: [` + strings.Replace(version("1.0", fromHTTP), "aa", "bb", 1) + `, ` +
			version("2.0", fromHTTP) + `]`, "a version is immutable"},
		"a signature": {`{` + publicKey + `, versions: [` + version("1.0", `signature: MEUCIQDabcdefg==, `+fromHTTP) + `, ` +
			version("2.0", fromHTTP) + `]}`, ""},
	} {
		t.Run(title, func(t *testing.T) {
			changed := newModel(t, namespace, "a", c.spec)
			changed.SetResourceVersion(obj.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), changed, client.DryRunAll), c.want)
		})
	}
}

// A cache comes and goes, and its storage is always the same.
func TestModelCacheChange(t *testing.T) {
	namespace := env.Namespace(t)
	obj := newModel(t, namespace, "a", cached+`}`)
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	for title, c := range map[string]struct{ spec, want string }{
		"no cache":        {`cache: null`, ""},
		"another account": {`cache: {serviceAccountName: other, storage: {size: 1Gi}}`, ""},
		"another size": {`cache: {serviceAccountName: preparer, storage: {size: 2Gi}}`,
			"storage is immutable: take cache out"},
		"another mode": {`cache: {serviceAccountName: preparer, storage: {size: 1Gi, accessMode: ReadWriteMany}}`,
			"storage is immutable"},
		"a version of an image": {cached + `, versions: [` + version("1.0", `source: {http: {url: `+
			`"https://models.example.com/a.gguf"}}`) + `, ` + version("2.0", `source: {oci: {image: "a.b/c", path: d}}`) + `]}`,
			"only files of web servers and buckets"},
	} {
		t.Run(title, func(t *testing.T) {
			changed := newModel(t, namespace, "a", c.spec)
			changed.SetResourceVersion(obj.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), changed, client.DryRunAll), c.want)
		})
	}
}

func TestModelSamplesApply(t *testing.T) {
	testkit.Samples(t, env.Client, env.Namespace(t), "../../config/samples/*_v1_model*.yaml")
}
