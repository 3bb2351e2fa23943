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
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "plugins.md"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tool := "#!/bin/sh\nexec env " + asTool + "=1 '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "zictl"), []byte(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "set -e\n"
	for _, found := range block.FindAllStringSubmatch(string(guide), -1) {
		for line := range strings.Lines(found[1]) {
			// The tool is here already.
			if !strings.Contains(line, "go build") && !strings.HasPrefix(line, "export PATH=") {
				script += line
			}
		}
	}
	command := exec.Command("bash", "-c", script)
	command.Dir = dir
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("the commands of the guide end with %v:\n%s", err, out)
	}
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
		if !strings.Contains(string(out), says) {
			t.Errorf("the commands of the guide do not print %q:\n%s", says, out)
		}
		if strings.Contains(says, "components.yaml:") && !strings.Contains(string(guide), says) {
			t.Errorf("the guide does not print %q", says)
		}
	}
}
