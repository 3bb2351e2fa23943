// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
)

var storageOperator = filepath.Join("..", "..", "..", "storage-operator")

// storage returns a plugin of storages, and an Application of it.
func storage(t *testing.T, name, version, topology string) (*plugin.Bundle, *platformv1.Application) {
	t.Helper()
	bundle, _, errs := pluginfolder.Load(filepath.Join(storageOperator, "plugins", name, "1.0.0"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	app := testApp()
	app.Spec.Plugin, app.Spec.Version, app.Spec.Topology = name, version, topology
	return bundle, app
}

// The plugins take all that an ObjectStorage declares inside.
func TestWhatAnObjectStorageDeclaresInsideIsTaken(t *testing.T) {
	minio, servers := storage(t, "minio", "2026.2", "standalone")
	s3, keeper := storage(t, "s3-external", "2006.3", "external")
	files, err := filepath.Glob(filepath.Join(storageOperator, "internal/kind/objectstorage/testdata/entities/*.out.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no outputs (%v)", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var specs []platformv1.EntitySpec
		if err := yaml.UnmarshalStrict(data, &specs); err != nil {
			t.Fatal(err)
		}
		bundle, app := minio, servers
		if strings.HasPrefix(filepath.Base(file), "external") {
			bundle, app = s3, keeper
		}
		for _, spec := range specs {
			_, refusals := Entity(&platformv1.Entity{Spec: spec}, app, bundle)
			says(t, file+": "+spec.Type+" "+spec.Name, sentences(refusals))
		}
	}
}

// What is no JSON is refused before anybody asks the storage.
func TestDocumentsOfAnObjectStorageThatAreNoJSON(t *testing.T) {
	bundle, app := storage(t, "minio", "2026.2", "standalone")
	const policy, rules, grants = "a policy as JSON", "a list of rules as JSON", "a list of grants as JSON"
	for _, c := range []struct{ of, parameter, value, want string }{
		{"policy", "document", `{"Statement":[]}`, ""},
		{"policy", "document", `{]`, policy},
		{"policy", "document", `{} {}`, policy},
		{"policy", "document", `[]`, policy},
		{"policy", "document", ``, policy},
		{"bucket", "policy", `{"Statement":[]}`, ""},
		{"bucket", "policy", ``, ""},
		{"bucket", "policy", `{`, policy},
		{"bucket", "policy", `download`, policy},
		{"bucket", "lifecycle", `[{"name":"a","expireDays":1}]`, ""},
		{"bucket", "lifecycle", ``, ""},
		{"bucket", "lifecycle", `{"name":"a"}`, rules},
		{"bucket", "lifecycle", `[`, rules},
		{"user", "grants", `[{"bucket":"abc","access":"Read","prefix":"a/"},{"bucket":"abd","access":"ReadWrite"}]`, ""},
		{"user", "grants", ``, ""},
		{"user", "grants", `[{"bucket":"abc"}]`, grants},
		{"user", "grants", `[{"bucket":"abc","access":"Admin"}]`, grants},
		{"user", "grants", `[{"bucket":"abc","access":"Read","path":"a"}]`, grants},
	} {
		spec := platformv1.EntitySpec{Type: c.of, Name: "abc",
			Parameters: platformv1.Parameters{c.parameter: platformv1.ParameterValue(c.value)}}
		if c.of == "user" {
			spec.PasswordFrom = &platformv1.SecretKeyReference{Name: "s", Key: "password"}
		}
		_, refusals := Entity(&platformv1.Entity{Spec: spec}, app, bundle)
		want := []string{"it must be " + c.want}
		if c.want == "" {
			want = nil
		}
		says(t, c.of+" with "+c.value, sentences(refusals), want...)
	}
	_, refusals := Entity(&platformv1.Entity{Spec: platformv1.EntitySpec{Type: "policy", Name: "app.grants"}}, app, bundle)
	says(t, "a policy called like grants", sentences(refusals), "what ends with .grants")
}
