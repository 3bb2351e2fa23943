// SPDX-License-Identifier: Apache-2.0

package pluginfolder

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/archive"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

var root = filepath.Join("..", "..", "..")

// redis is the plugin that the tests break.
var redis = filepath.Join(root, "database-operator", "plugins", "redis", "1.0.0")

// folders lists every plugin of the repository.
func folders(t *testing.T) []string {
	t.Helper()
	manifests, err := filepath.Glob(filepath.Join(root, "*-operator", "plugins", "*", "*", "manifest.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("there are no plugins: %v", err)
	}
	var dirs []string
	for _, manifest := range manifests {
		dirs = append(dirs, filepath.Dir(manifest))
	}
	return dirs
}

func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(from)), filepath.Base(from))
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func change(t *testing.T, file, old, new string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(file, bytes.Replace(data, []byte(old), []byte(new), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGoldens(t *testing.T) {
	for _, dir := range folders(t) {
		bundle, _, errs := Load(dir)
		if len(errs) > 0 {
			t.Errorf("%s: %v", dir, errs)
			continue
		}
		results, err := Test(dir, bundle, Compare)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Errorf("%s %s: %v", dir, r.Case, r.Err)
			}
		}
	}
}

func TestTestFindsDifferences(t *testing.T) {
	dir := copyFolder(t, redis)
	bundle, _, errs := Load(dir)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	golden := filepath.Join(dir, "testdata", "minimal.out.yaml")
	fails := func() string {
		t.Helper()
		results, err := Test(dir, bundle, Compare)
		if err != nil {
			t.Fatal(err)
		}
		var text string
		for _, r := range results {
			if r.Err != nil {
				text += r.Case + ": " + r.Err.Error() + "\n"
			}
		}
		return text
	}
	change(t, golden, "  deletionPolicy: Retain", "  deletionPolicy: Delete")
	if got := fails(); !strings.Contains(got, "want:   deletionPolicy: Delete\n  got:    deletionPolicy: Retain") {
		t.Errorf("a changed golden gives %q", got)
	}
	if _, err := Test(dir, bundle, Update); err != nil {
		t.Fatal(err)
	}
	if got := fails(); got != "" {
		t.Errorf("after an update: %q", got)
	}
	if err := os.Remove(golden); err != nil {
		t.Fatal(err)
	}
	if got := fails(); !strings.Contains(got, "make it with --update") {
		t.Errorf("a missing golden gives %q", got)
	}
	if err := os.Rename(filepath.Join(dir, "testdata", "full.in.yaml"),
		filepath.Join(dir, "testdata", "whole.in.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := fails(); !strings.Contains(got, "full: the golden file has no input") {
		t.Errorf("a golden without input gives %q", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	if _, err := Test(dir, bundle, Compare); err == nil {
		t.Error("a plugin without cases passes")
	}
}

// TestLoadRefusesWhatAnOperatorWarnsOf: nobody has instances of what is made now.
func TestLoadRefusesWhatAnOperatorWarnsOf(t *testing.T) {
	dir := copyFolder(t, redis)
	change(t, filepath.Join(dir, "params", "redis.cue"), "maxmemory?: ", "depth?: =~\"^(0$\"\n\tmaxmemory?: ")
	bundle, _, errs := Load(dir)
	if bundle != nil || len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), filepath.Join(dir, "params", "redis.cue")+":") ||
		!strings.Contains(errs[0].Message, "is no regular expression") {
		t.Errorf("Load = %v, %v; want one error", bundle, errs)
	}
}

func TestLoadNamesTheFiles(t *testing.T) {
	dir := copyFolder(t, redis)
	change(t, filepath.Join(dir, "components.yaml"), "authority: engine", "authority: both")
	change(t, filepath.Join(dir, "manifest.yaml"), "domain: database", "domain: sea")
	_, _, errs := Load(dir)
	var text []string
	for _, err := range errs {
		text = append(text, err.Error())
	}
	for _, want := range []string{filepath.Join(dir, "components.yaml") + ":4: ", filepath.Join(dir, "manifest.yaml") +
		":"} {
		if !strings.Contains(strings.Join(text, "\n"), want) {
			t.Errorf("got %q; want %q", text, want)
		}
	}
	moved := filepath.Join(filepath.Dir(dir), "2.0.0")
	if err := os.CopyFS(moved, os.DirFS(redis)); err != nil {
		t.Fatal(err)
	}
	if bundle, _, errs := Load(moved); bundle != nil || len(errs) != 1 ||
		!strings.Contains(errs[0].Message, `the folder is called "2.0.0"`) {
		t.Errorf("another folder name gives %v", errs)
	}
	if _, _, errs := Load(filepath.Join(dir, "absent")); len(errs) != 1 ||
		!strings.Contains(errs[0].Message, "is no folder") {
		t.Errorf("an absent folder gives %v", errs)
	}
}

// What is packaged is what an operator loads: the same digest, out of the printed ConfigMaps.
func TestPackageLoadsAgain(t *testing.T) {
	for _, dir := range folders(t) {
		bundle, sources, errs := Load(dir)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		objects, err := Package(sources, "operators")
		if err != nil {
			t.Fatal(err)
		}
		out, err := Write(objects)
		if err != nil {
			t.Fatal(err)
		}
		read := map[plugin.Part]plugin.Source{}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
		for {
			var cm corev1.ConfigMap
			if err := decoder.Decode(&cm); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			source, ok := plugin.ParseSource(&cm)
			if !ok || cm.Namespace != "operators" || cm.Annotations["helm.sh/resource-policy"] != "keep" ||
				cm.Labels[platformv1.PluginLabel] != bundle.Manifest.Name {
				t.Errorf("ConfigMap %s is %+v", cm.Name, cm.ObjectMeta)
			}
			read[source.Part] = source
		}
		again, errs := plugin.Load(read)
		if len(errs) > 0 || again.Digest != bundle.Digest {
			t.Errorf("%s: the packaged plugin is %v, %v", dir, again, errs)
		}
	}
}

func TestPackageRefusesBigParts(t *testing.T) {
	_, sources, errs := Load(redis)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	sources[plugin.PartParams].Data["redis.cue"] += strings.Repeat("// x\n", 200_000)
	if _, err := Package(sources, ""); err == nil || !strings.Contains(err.Error(), "at most 921600 are allowed") {
		t.Errorf("a part of 1 MB gives %v", err)
	}
	delete(sources, plugin.PartParams)
	if _, err := Package(sources, ""); err == nil || !strings.Contains(err.Error(), "params part is missing") {
		t.Errorf("a missing part gives %v", err)
	}
}

func TestReadApplicationRefuses(t *testing.T) {
	const head = "apiVersion: platform.zeroinfra.github.com/v1\nkind: Application\n"
	for says, text := range map[string]string{
		`f:4: field "spec.colour" is not known`: head + "metadata: {name: a}\nspec: {colour: red}\n",
		"it is v1 Pod":                          "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
		"metadata.name is missing":              head,
		"cannot read":                           "[",
	} {
		if _, err := ReadApplication([]byte(text), "f"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v; want %q", err, says)
		}
	}
	app, err := ReadApplication([]byte(head+"metadata: {name: a}\n"), "f")
	if err != nil || app.Namespace != "default" {
		t.Errorf("got %+v, %v", app, err)
	}
}

func TestReadInput(t *testing.T) {
	const head = "apiVersion: platform.zeroinfra.github.com/v1\nkind: Application\nmetadata: {name: a, namespace: shop}\n"
	app, place, err := ReadInput([]byte(head+"---\nkind: BackupRepository\nmetadata: {name: store}\nspec: {nfs: "+
		"{server: s, path: /}}\n---\nkind: PersistentVolumeClaim\nmetadata: {name: store-nfs}\n"), "f")
	if err != nil || app.Name != "a" || place.Repository == nil || place.Repository.Namespace != "shop" ||
		place.Repository.Spec.NFS.Server != "s" || place.Claim == nil || place.Claim.Name != "store-nfs" {
		t.Errorf("it is %+v, %+v, %v", app, place, err)
	}
	for says, text := range map[string]string{
		`a "Pod" is no BackupRepository`: "kind: Pod\n",
		`unknown field "colour"`:         "kind: BackupRepository\nspec: {colour: red}\n",
	} {
		if _, _, err := ReadInput([]byte(head+"---\n"+text), "f"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v; want %q", err, says)
		}
	}
}

func TestRenderRefusesAnotherPlugin(t *testing.T) {
	bundle, _, errs := Load(redis)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	app := &platformv1.Application{Spec: platformv1.ApplicationSpec{Plugin: "mysql", PluginVersion: "1.0.0"}}
	if _, _, err := Render(bundle, app, archive.Place{}); err == nil ||
		!strings.Contains(err.Error(), "asks for plugin mysql 1.0.0") {
		t.Errorf("got %v", err)
	}
}

func TestWriteKeepsEmptyDir(t *testing.T) {
	out, err := Write([]runtime.Object{&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}}}})
	if err != nil || !strings.Contains(string(out), "emptyDir: {}") || strings.Contains(string(out), "status") {
		t.Errorf("got %s, %v", out, err)
	}
}

// A version that extends another one is found beside it, wherever the folder is named from, and is packaged whole.
func TestLoadOfAnExtendingVersion(t *testing.T) {
	dir := copyFolder(t, redis)
	next := filepath.Join(filepath.Dir(dir), "1.9.0")
	for name, text := range map[string]string{
		"manifest.yaml":         "version: 1.9.0\nextends: 1.0.0\nallowed-upgrade-from: 1.0.0\n",
		"operations/Nudge.yaml": "name: Nudge\nsteps:\n  - name: restart\n    agent: {call: Restart}\n",
	} {
		file := filepath.Join(next, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(next)
	bundle, sources, errs := Load(".")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	was, _, errs := Load(filepath.Join("..", "1.0.0"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got, want := len(bundle.Operations), len(was.Operations)+1; bundle.Manifest.Name != "redis" || got != want ||
		bundle.Digest == was.Digest {
		t.Errorf("%s has %d operations, want %d", bundle.Manifest.Name, got, want)
	}
	objects, err := Package(sources, "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := Write(objects)
	if err != nil || strings.Contains(string(out), "extends") || strings.Contains(string(out), "without:") {
		t.Errorf("what is packaged tells of the other version: %v", err)
	}
	change(t, filepath.Join(dir, "components.yaml"), "authority: engine", "authority: both")
	if _, _, errs := Load("."); len(errs) == 0 || errs[0].File != filepath.Join("..", "1.0.0", "components.yaml") ||
		errs[0].Line != 4 {
		t.Errorf("what is wrong in the other version gives %v", errs)
	}
}
