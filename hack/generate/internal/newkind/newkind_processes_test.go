// SPDX-License-Identifier: Apache-2.0

//go:build processes

package newkind

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// checkout is a copy of the repository, under git and without changes, in which make runs.
type checkout struct {
	t    *testing.T
	root string
}

// newCheckout returns a copy of what make newkind and the tests of kinds need. It has the tools of the repository.
func newCheckout(t *testing.T) *checkout {
	t.Helper()
	paths := []string{"Makefile", "VERSION", ".gitignore", "README.md", "ARCHITECTURE.md", "platform-core", "charts",
		"docs", "hack/generate", "hack/make", "hack/tools", "hack/checks", "test/go.mod", "test/go.sum", "test/unit"}
	for _, operator := range repo.Operators {
		paths = append(paths, operator.Name())
	}
	c := &checkout{t, copied(t, paths...)}
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"controller-gen", ".pin/controller-gen.sum"} {
		from, to := filepath.Join(root, "bin", tool), filepath.Join(c.root, "bin", tool)
		if _, err := os.Stat(from); err != nil {
			t.Fatalf("%v: run make tool-controller-gen first", err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	c.run(".", "git", "init", "--quiet")
	return c
}

func (c *checkout) commit() {
	c.t.Helper()
	c.run(".", "git", "add", "--all")
	c.run(".", "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", "a kind")
}

// output runs a command in a folder and returns what it said.
func (c *checkout) output(folder, name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir = filepath.Join(c.root, folder)
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.CombinedOutput()
	return string(out), err
}

func (c *checkout) run(folder, name string, args ...string) {
	c.t.Helper()
	if out, err := c.output(folder, name, args...); err != nil {
		c.t.Fatalf("%s %s in %s: %v\n%s", name, strings.Join(args, " "), folder, err, out)
	}
}

func (c *checkout) newKind(r Request) {
	c.t.Helper()
	c.run(".", "make", "newkind", "OPERATOR="+r.Operator, "KIND="+r.Kind, "PLUGIN="+r.Plugin)
}

// Kinds compile, keep to the rules and pass their tests as make newkind leaves them: one among others, and the first
// one of an operator.
func TestKindsCompileAndPassTheirTests(t *testing.T) {
	c := newCheckout(t)
	o := withoutKinds(t, c.root)
	c.commit()
	c.newKind(database)
	first := Request{Operator: o.Name(), Kind: "Gateway", Plugin: "nginx"}
	out, err := c.output(".", "make", "newkind", "OPERATOR="+first.Operator, "KIND="+first.Kind, "PLUGIN="+first.Plugin)
	if err == nil || !strings.Contains(out, "has changes that are not committed") {
		t.Errorf("a repository with changes: %v\n%s", err, out)
	}
	c.commit()
	c.newKind(first)
	c.run("hack/checks", "go", "run", ".", c.root)
	for _, operator := range []string{database.Operator, first.Operator} {
		c.run(operator, "go", "vet", "-tags", "integration", "./...")
		c.run(operator, "go", "test", "./...")
	}
	const tests = "Lifecycle|Documents|EveryPage|Fields|Samples|Pages|Definitions"
	c.run("test", "go", "test", "-count=1", "-run", tests, "./unit")
	for _, path := range []string{
		"charts/" + o.Name() + "/samples/" + o.Domain + "_v1_gateway.yaml", "charts/" + o.Name() + "/rbac/role.yaml",
		"charts/platform-core/definitions/database/database.zeroinfra.github.com_keystores.yaml",
	} {
		if !exists(filepath.Join(c.root, path)) {
			t.Errorf("the charts lack %s", path)
		}
	}
}
