// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// declaredElection is the plugin etcd, and what is changed of its components.
func declaredElection(t *testing.T, old, new string) ([]LoadError, *Bundle) {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(filepath.Join("..", "..", "..", "database-operator", "plugins", "etcd", "1.0.0")),
		"etcd")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if old != "" {
		edit(t, sources, PartComponents, componentsKey, old, new)
	}
	bundle, errs := Load(sources)
	return errs, bundle
}

func TestElection(t *testing.T) {
	errs, b := declaredElection(t, "", "")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("etcd")
	want := schema.Election{Member: "member", Primary: "leader", Epoch: "term"}
	if c.Election == nil || *c.Election != want {
		t.Errorf("got %+v, want %+v", c.Election, want)
	}
}

func TestBrokenElection(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, says string }{
		"no member": {"    election:\n      member: member\n", "    election:\n", "member is missing"},
		"no epoch":  {"      epoch: term\n", "", "epoch is missing"},
		"attribute": {"      member: member\n", "      member: self\n", `names the attribute of the probe ` +
			`"self", which is not there: there is alarm, leader, learner, member, memberID, term`},
		"attribute of primary": {"      primary: leader\n", "      primary: chief\n",
			`names the attribute of the probe "chief"`},
		"attribute of epoch": {"      epoch: term\n", "      epoch: round\n", `names the attribute of the probe "round"`},
		"an expression": {"      epoch: term\n", "      epoch: attributes['term']\n",
			"the name of an attribute of the probe"},
		"no primary": {"access: ReadWrite", "access: ReadOnly", "give one of the roles the access ReadWrite"},
		"the engine decides": {"    authority: middleware\n", "    authority: engine\n",
			"is for a component whose authority is middleware: with authority engine the engine decides which pod writes"},
		"shards": {"    replicas: {default: 3",
			"    sets: {default: 3, min: 3, max: 9}\n    replicas: {default: 3", "is for a component that has one set"},
		"shards of a topology": {"      - name: etcd\nbinding",
			"      - {name: etcd, sets: {default: 3, min: 3, max: 9}}\nbinding", "is for a component that has one set"},
		"a field that is not":   {"      epoch: term\n", "      epoch: term\n      view: term\n", "view"},
		"placeholders are none": {"      epoch: term\n", "      epoch: ${app.name}\n", "placeholder"},
	} {
		errs, _ := declaredElection(t, tc.old, tc.new)
		if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Message, tc.says) && e.Line > 0 }) {
			t.Errorf("%s: got %v; want %q", name, errs, tc.says)
		}
	}
}

// The election of a component is in force where its authority is the middleware's.
func TestATopologyOfTheEngineHasNoElection(t *testing.T) {
	sources, errs := LoadFolder(os.DirFS(
		filepath.Join("..", "..", "..", "database-operator", "plugins", "mysql", "1.0.0")), "mysql")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for topology, has := range map[string]bool{"standalone": false, "group": true} {
		if c, _ := b.In(topology).Component("mysql"); (c.Election != nil) != has {
			t.Errorf("%s: the election is %+v", topology, c.Election)
		}
	}
}
