// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run calls zictl plugin with arguments.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	command := pluginCommand()
	command.SilenceUsage, command.SilenceErrors = true, true
	var out, errs bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&errs)
	command.SetIn(strings.NewReader(stdin))
	command.SetArgs(args)
	err = command.Execute()
	return out.String(), errs.String(), err
}

// redis copies the redis plugin, so that a test can change it.
func redis(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "redis", "1.0.0")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "database-operator", "plugins", "redis",
		"1.0.0"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheck(t *testing.T) {
	dir := redis(t)
	if out, errs, err := run(t, "", "check", dir); err != nil ||
		!strings.HasPrefix(out, "redis 1.0.0 is valid (sha256:") || errs != "" {
		t.Errorf("got %q, %q, %v", out, errs, err)
	}
	file := filepath.Join(dir, "operations", "Restart.yaml")
	if err := os.WriteFile(file, []byte("name: Restart\nsteps: []\ncolour: red\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs, err := run(t, "", "check", dir)
	if err == nil || out != "" || !strings.Contains(errs, file+`:3: field "colour" is not known`) {
		t.Errorf("got %q, %q, %v", out, errs, err)
	}
	if _, errs, err := run(t, "", "check", filepath.Dir(dir)); err == nil ||
		!strings.Contains(errs, "it holds versions: name one, such as \""+dir) {
		t.Errorf("the folder of the versions gives %q, %v", errs, err)
	}
	if _, _, err := run(t, "", "check"); err == nil {
		t.Error("no folder is accepted")
	}
}

func TestRender(t *testing.T) {
	dir := redis(t)
	file := filepath.Join(dir, "testdata", "minimal.in.yaml")
	out, _, err := run(t, "", "render", dir, "-f", file)
	if err != nil || strings.Count(out, "image: zeroinfra/redis:7.0") != 6 || strings.Contains(out, "like: ") {
		t.Errorf("got %v and %s; want the WorkloadSet and its Pod in full", err, out)
	}
	input, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if piped, _, err := run(t, string(input), "render", dir, "-f", "-", "-o", "yaml"); err != nil || piped != out {
		t.Errorf("the standard input gives %v and something else", err)
	}
	for says, args := range map[string][]string{
		"refused (VersionNotSupported)": {"render", dir, "-f", filepath.Join(dir, "testdata", "unsupported-version.in.yaml")},
		"the output is yaml":            {"render", dir, "-f", file, "-o", "json"},
		`required flag(s) "file"`:       {"render", dir},
		"cannot read Application":       {"render", dir, "-f", filepath.Join(dir, "absent")},
	} {
		if _, _, err := run(t, "", args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v gives %v; want %q", args, err, says)
		}
	}
}

// What is wrong with an Application is told by file and line, too.
func TestRenderWrongApplication(t *testing.T) {
	dir := redis(t)
	const application = "apiVersion: platform.zeroinfra.github.com/v1\nkind: Application\nmetadata: {name: a}\nspec:\n  " +
		"plugin: redis\n"
	for says, line := range map[string]string{
		`field "spec.topologie" is not known: did you mean "topology"?`:    "  topologie: a\n",
		"spec.topology is 7.1: it must be text (put it in quotes)":         "  topology: 7.1\n",
		"components is a map: it must be a list":                           "  components: {}\n",
		"this is not YAML: did not find expected key: in what begins here": " topology: a\n",
	} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(file, []byte(application+line), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, "", "render", dir, "-f", file); err == nil || !strings.Contains(err.Error(), file+":") ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q gives %v; want %q", line, err, says)
		}
	}
}

func TestTest(t *testing.T) {
	dir := redis(t)
	if out, _, err := run(t, "", "test", dir); err != nil || !strings.Contains(out, "ok   minimal\n") {
		t.Errorf("got %q, %v", out, err)
	}
	golden := filepath.Join(dir, "testdata", "minimal.out.yaml")
	if err := os.WriteFile(golden, []byte("else\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"test", dir}, {"test", dir, "--update=false"}} {
		if out, _, err := run(t, "", args...); err == nil || !strings.Contains(out, "FAIL minimal: "+golden+":1 differs") {
			t.Errorf("%v gives %q, %v", args, out, err)
		}
	}
	if _, _, err := run(t, "", "test", dir, "--update"); err != nil {
		t.Error(err)
	}
	if out, _, err := run(t, "", "test", dir); err != nil {
		t.Errorf("after --update: %q, %v", out, err)
	}
}

func TestPackage(t *testing.T) {
	out, _, err := run(t, "", "package", redis(t), "--namespace", "operators")
	if err != nil || strings.Count(out, "kind: ConfigMap") != 5 || strings.Count(out, "immutable: true") != 5 ||
		strings.Count(out, "namespace: operators") != 5 {
		t.Errorf("got %v and\n%s", err, out)
	}
	if out, _, err := run(t, "", "package", redis(t)); err != nil || strings.Contains(out, "namespace:") {
		t.Errorf("without a namespace: %v", err)
	}
}

// What a plugin of the engine's tests becomes, which has routes and permissions, is in its golden files.
func TestGoldensOfRoutesAndPermissions(t *testing.T) {
	dir := filepath.Join("..", "..", "internal", "engine", "testdata", "plugins", "gate", "1.0.0")
	if out, errs, err := run(t, "", "test", dir); err != nil || !strings.Contains(out, "ok   routes") {
		t.Errorf("got %q, %q, %v", out, errs, err)
	}
}
