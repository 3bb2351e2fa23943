// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// asTool has the test binary be zictl, for scripts.
const asTool = "ZICTL_TEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

var block = regexp.MustCompile("(?s)```sh\n(.*?)```")

// The author's guide is what a stranger follows: every command of it that needs no cluster is run as it is printed, and
// has to say what the guide says.
func TestGuide(t *testing.T) {
	guide := page(t, "plugins.md")
	out := followed(t, t.TempDir(), guide)
	for _, says := range []string{
		"web 1.0.0 is valid",
		"web/1.0.0/components.yaml:14: components[0].process has no reload, and parameter set \"web\" names dynamic " +
			"parameters: add process.reload",
		"ok   bad\nok   minimal\n",
		"board 1.0.0 is valid",
		"board 1.1.0 is valid",
		"refused:\n  message: 'parameter \"worker_processes\" has value \"many\": it must be a whole number\n    from 1 to " +
			"64'\n  reason: InvalidParameters\n",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("the commands of the guide do not print %q:\n%s", says, out)
		}
		if strings.Contains(says, "components.yaml:") && !strings.Contains(guide, says) {
			t.Errorf("the guide does not print %q", says)
		}
	}
}

// The page of Inferences makes a plugin of a runtime that is not shipped from one that is.
func TestGuideOfARuntime(t *testing.T) {
	_, section, _ := strings.Cut(page(t, "kinds", "inference.md"), "\n### zerfoo\n")
	section, _, _ = strings.Cut(section, "\n### ")
	dir := t.TempDir()
	shipped, err := filepath.Abs(filepath.Join("..", "..", "..", "model-operator"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(shipped, filepath.Join(dir, "model-operator")); err != nil {
		t.Fatal(err)
	}
	if out := followed(t, dir, section); !strings.Contains(out, "zerfoo 1.0.0 is valid") {
		t.Errorf("the commands of the page print %q", out)
	}
}

// page is one of the documentation.
func page(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "..", "docs"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// followed runs the commands of a text in a folder, and returns what they print.
func followed(t *testing.T, dir, text string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	tool := "#!/bin/sh\nexec env " + asTool + "=1 '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(tools, "zictl"), []byte(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "set -e\n"
	for _, found := range block.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(found[1]) {
			// The tool is here already.
			if !strings.Contains(line, "go build") && !strings.HasPrefix(line, "export PATH=") {
				script += line
			}
		}
	}
	command := exec.Command("bash", "-c", script)
	command.Dir = dir
	command.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("the commands of the guide end with %v:\n%s", err, out)
	}
	return string(out)
}
