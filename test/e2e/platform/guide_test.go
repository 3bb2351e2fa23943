// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroinfra/test/e2e/framework"
)

// guideBlock is what the author's guide has people type; what needs a cluster is marked as such.
var guideBlock = regexp.MustCompile("(?s)```sh( cluster)?\n(.*?)```")

// TestGuide follows the author's guide with an operator as a stranger does, every command as it is printed, up to where
// the instance and the plugin are removed again.
func TestGuide(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "guide")
	s.EnsureCommonOperator()
	root := framework.Config.RepositoryDir
	guide, err := os.ReadFile(filepath.Join(root, "docs", "plugins.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, last := "set -e\n", false
	for _, found := range guideBlock.FindAllStringSubmatch(string(guide), -1) {
		if onCluster := found[1] != ""; last && !onCluster {
			break
		} else if onCluster {
			last = true
		}
		script += found[2]
	}
	if strings.Count(script, "kubectl") < 8 || !strings.Contains(script, "kubectl delete configmaps") {
		t.Fatalf("the commands are not those of the guide:\n%s", script)
	}
	dir := t.TempDir()
	for _, name := range []string{"bin", "platform-core"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	said := bash(s, dir, script)
	for _, want := range []string{"web-1.0.0 ", "HTTP/1.1 200 OK",
		"application.platform.zeroinfra.github.com/hello patched"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing says %q:\n%s", want, said)
		}
	}
	_, after, _ := strings.Cut(said, "hello patched")
	if workers := strings.Count(after, "nginx: worker process"); workers != 3 {
		t.Errorf("%d workers run, and the guide asks for 3:\n%s", workers, after)
	}
}

// bash runs a script in a folder as a user of the test's namespace, and returns what it prints.
func bash(s *framework.Namespace, dir, script string) string {
	s.Helper()
	tools, config := framework.DevCluster(s.T, "bin"), filepath.Join(s.TempDir(), "kubeconfig")
	data, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(config, data, 0o600); err != nil {
		s.Fatal(err)
	}
	run := func(script string) string {
		s.Helper()
		command := exec.CommandContext(s.Ctx, "bash", "-c", script)
		command.Dir = dir
		command.Env = append(os.Environ(), "KUBECONFIG="+config, "PATH="+tools+":"+os.Getenv("PATH"))
		said, err := command.CombinedOutput()
		if err != nil {
			lines := strings.Split(strings.TrimSpace(string(said)), "\n")
			s.Fatalf("the commands end with %v:\n%s\nAll they say:\n%s", err, strings.Join(lines[max(0, len(lines)-3):], "\n"),
				said)
		}
		return string(said)
	}
	run("kubectl config set-context --current --namespace=" + s.Name)
	return run(script)
}
