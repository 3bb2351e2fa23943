// SPDX-License-Identifier: Apache-2.0

package pluginfolder

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// objectsOfCase are the objects that a case of the plugin redis becomes, in full.
func objectsOfCase(t *testing.T, name string) []any {
	t.Helper()
	bundle, _, errs := Load(redis)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c := rendered(bundle, filepath.Join(redis, "testdata", name+inputEnding))
	all, err := expand(c.objects)
	if c.err != nil || err != nil {
		t.Fatal(c.err, err)
	}
	return all
}

// changed is a tree whose leaf of that number has another value; the number counts down to it.
func changed(tree any, leaf *int) any {
	switch node := tree.(type) {
	case map[string]any:
		all := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(node)) {
			all[name] = changed(node[name], leaf)
		}
		return all
	case []any:
		all := []any{}
		for _, value := range node {
			all = append(all, changed(value, leaf))
		}
		return all
	}
	if *leaf--; *leaf == -1 {
		return fmt.Sprint("another ", tree)
	}
	return tree
}

// TestEachChangeIsInTheGolden changes one value after the other of what a case becomes, also where its golden file says
// only what that is like.
func TestEachChangeIsInTheGolden(t *testing.T) {
	all := objectsOfCase(t, "replication")
	c := cases{minimal: {topology: "standalone"}, "replication": {topology: "replication"}}
	c[minimal].become(objectsOfCase(t, minimal))
	golden := func(leaf int, objects []any) []byte {
		t.Helper()
		c["replication"].become(objects)
		text, err := c.golden("replication")
		if err != nil {
			t.Fatalf("another value %d: %v", leaf, err)
		}
		return text
	}
	want := golden(-1, all)
	if !bytes.HasPrefix(want, []byte("# What differs from minimal.out.yaml.\n---\n")) {
		t.Errorf("the golden file begins with %.100s", want)
	}
	count := 0
	for leaf := 0; ; leaf += 31 {
		left := leaf
		other := changed(all, &left)
		if left >= 0 {
			break
		}
		count++
		if bytes.Equal(golden(leaf, other.([]any)), want) {
			t.Errorf("another value %d is not in the golden file", leaf)
		}
	}
	if count < 40 {
		t.Errorf("only %d values were changed", count)
	}
}

func TestPodsArePartOfTheirTemplate(t *testing.T) {
	all := objectsOfCase(t, "replication")
	short := compact(all)
	plans, pods := 0, 0
	for i, o := range short {
		object := o.(map[string]any)
		if object["kind"] == "Pod" {
			pods++
			if object[like] != "template of WorkloadSet cache-redis-main" || field(object, "spec", "containers") != nil ||
				field(object, "spec", "hostname") != nameOf(object) {
				t.Errorf("the pod is %v, and was %v", object, all[i])
			}
		}
		if field(object, "data", planKey) == "plan of WorkloadSet cache-redis-main" {
			plans++
		}
	}
	if pods != 3 || plans != 1 {
		t.Errorf("there are %d pods and %d plans", pods, plans)
	}
}

func TestBasesOfCases(t *testing.T) {
	some := []any{map[string]any{"kind": "Service"}}
	c := cases{}
	for name, topology := range map[string]string{
		minimal: "standalone", "tls": "standalone", "big": "cluster", "cluster": "cluster", "zoned": "cluster", "one": "ring",
		"two": "ring",
	} {
		c[name] = &aCase{topology: topology, objects: some}
	}
	c["absent"] = &aCase{topology: "ring"}
	for name, want := range map[string]string{
		minimal: "", "tls": minimal, "big": "cluster", "cluster": minimal, "zoned": "cluster", "one": minimal, "two": "one",
	} {
		if got := c.baseOf(name); got != want {
			t.Errorf("the base of %s is %q, want %q", name, got, want)
		}
	}
	delete(c, minimal)
	if got := c.baseOf("one"); got != "" {
		t.Errorf("without the case minimal the base of one is %q", got)
	}
}

func TestTwoObjectsOfOneNameAreNoGolden(t *testing.T) {
	one := map[string]any{"kind": "Service", "metadata": map[string]any{"name": "a"}}
	c := cases{minimal: {objects: []any{one}}, "tls": {objects: []any{one, one}}}
	if _, err := c.golden("tls"); err == nil || !strings.Contains(err.Error(), "one kind and name") {
		t.Errorf("got %v", err)
	}
}
