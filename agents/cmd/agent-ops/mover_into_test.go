// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// into is the plan of a restore into the folder "disk", by a command for the shell.
func (m *carrier) into(script string) protocol.Plan {
	plan := restore()
	plan.Command, plan.Volume = shell(script), &protocol.TargetVolume{Folder: m.path("disk"), ID: "1a2b-3c4d"}
	return plan
}

// declaredMethod is what a plugin declares for a method of backups.
type declaredMethod struct {
	Name                   string
	Command, Facts, Steady []string
	Restore                struct{ Command []string }
}

// declaredComponent is what a plugin declares for a component.
type declaredComponent struct {
	Name    string
	Backups []declaredMethod
	Actions []struct {
		Name    string
		Command []string
	}
}

// componentOf reads that of a plugin, as agents get it where it has no placeholder.
func componentOf(t *testing.T, plugin, component string) declaredComponent {
	t.Helper()
	files, err := filepath.Glob("../../../*-operator/plugins/" + plugin + "/1.0.0/components.yaml")
	if err != nil || len(files) != 1 {
		t.Fatalf("plugin %s is in %v: %v", plugin, files, err)
	}
	text := strings.ReplaceAll(string(must(os.ReadFile(files[0]))), "$${", "${")
	var all struct{ Components []declaredComponent }
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all.Components, func(c declaredComponent) bool { return c.Name == component })
	if i < 0 {
		t.Fatalf("plugin %s has no component %s", plugin, component)
	}
	return all.Components[i]
}

// methodOf is that of a component.
func methodOf(t *testing.T, plugin, component, method string) declaredMethod {
	t.Helper()
	for _, m := range componentOf(t, plugin, component).Backups {
		if m.Name == method {
			return m
		}
	}
	t.Fatalf("component %s of plugin %s has no method %s", component, plugin, method)
	return declaredMethod{}
}

// wayBack is the plan of a restore into the folder "disk" by what a plugin declares for a method of a component.
func (m *carrier) wayBack(plugin, component, method string) protocol.Plan {
	m.Helper()
	plan := m.into("")
	plan.Command = methodOf(m.T, plugin, component, method).Restore.Command
	own, err := os.Executable()
	if err != nil {
		m.Fatal(err)
	}
	for i := range plan.Command {
		// The program of the pod, at another place.
		plan.Command[i] = strings.ReplaceAll(plan.Command[i], "/zeroinfra/bin/agent-ops", own)
	}
	return plan
}

// disk makes the folder anew, with what file systems have by themselves.
func (m *carrier) disk() {
	m.Helper()
	if err := os.RemoveAll(m.path("disk")); err != nil {
		m.Fatal(err)
	}
	if err := os.MkdirAll(m.path("disk", "lost+found"), 0o755); err != nil {
		m.Fatal(err)
	}
}

// on is what the disk has.
func (m *carrier) on() (names []string) {
	m.Helper()
	entries, err := os.ReadDir(m.path("disk"))
	if err != nil {
		m.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestMoverInto fills a volume once, and says so last.
func TestMoverInto(t *testing.T) {
	m := newMover(t)
	content := m.input("data", 3<<20)
	m.succeeds(backup("mover-1", "cat data"))
	m.disk()
	got := m.succeeds(m.into("mkdir deep && cat > deep/data && touch flat"))
	if got.RawSize != 3<<20 {
		t.Errorf("the result is %+v", got)
	}
	want := []string{protocol.RestoredName, "deep", "flat", "lost+found"}
	if names := m.on(); !slices.Equal(names, want) {
		t.Errorf("on the volume there is %v", names)
	}
	if there, err := os.ReadFile(m.path("disk", "deep", "data")); err != nil || !slices.Equal(there, content) {
		t.Errorf("it has %d bytes of %d, or others: %v", len(there), len(content), err)
	}
	// Another mover, whose predecessor's result was lost, does nothing; one with other data refuses.
	m.succeeds(m.into("touch ../other; exit 1"))
	other := m.into("cat > other")
	other.Volume.ID = "other"
	m.fails(other, protocol.ReasonTargetNotEmpty, "restored before")
	if names := m.on(); !slices.Equal(names, want) {
		t.Errorf("then there is %v", names)
	}
}

// TestMoverIntoFails: what is half is removed, and what is somebody else's is left alone.
func TestMoverIntoFails(t *testing.T) {
	m := newMover(t)
	m.input("data", 20<<20)
	m.succeeds(backup("mover-1", "cat data"))
	m.disk()
	m.fails(m.into("cat > half; echo no space >&2; exit 1"), protocol.ReasonCommandFailed, "no space")
	m.fails(m.into("cat >/dev/null"), protocol.ReasonCommandFailed, "nothing on the volume")
	part := m.kept(m.manifest().Parts[0].Name)
	whole, err := os.ReadFile(part)
	if err != nil {
		t.Fatal(err)
	}
	broken := slices.Clone(whole)
	broken[len(broken)/2] ^= 1
	if err := os.WriteFile(part, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	m.fails(m.into("cat > half"), protocol.ReasonDamaged, "")
	if names := m.on(); !slices.Contains(names, "lost+found") || slices.Contains(names, "half") ||
		slices.Contains(names, protocol.RestoredName) {
		t.Errorf("after attempts that failed there is %v", names)
	}
	if err := os.WriteFile(part, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.path("disk", "theirs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.fails(m.into("cat > data"), protocol.ReasonTargetNotEmpty, `"theirs"`)
	if names := m.on(); !slices.Contains(names, "theirs") || slices.Contains(names, "data") {
		t.Errorf("of a volume that has data there is %v left", names)
	}
	m.fails(protocol.Plan{Verb: protocol.VerbList, Volume: &protocol.TargetVolume{Folder: "/data", ID: "1"}},
		protocol.ReasonBadPlan, "fills no volume")
	bad := m.into("cat > data")
	bad.Volume.Folder = "disk/../data"
	m.fails(bad, protocol.ReasonBadPlan, "no folder of a volume")
}

// TestMoverIntoKilled: the next mover begins anew, or goes on with what is whole.
func TestMoverIntoKilled(t *testing.T) {
	m := newMover(t)
	m.input("data", 3<<20)
	m.succeeds(backup("mover-1", "cat data"))
	m.disk()
	p := m.start(m.into("cat > half; touch ../../half-way; sleep 1000"))
	m.await("the command is at work", func() bool { return has(m.path("half-way")) })
	if err := p.process.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if has(m.path("disk", "half")) || has(m.path("disk", protocol.RestoredName)) {
		t.Fatal("what is half is in its place")
	}
	m.succeeds(m.into("cat > data"))
	if names := m.on(); !slices.Equal(names, []string{protocol.RestoredName, "data", "lost+found"}) {
		t.Errorf("the next mover has left %v", names)
	}
	// One that was killed while it moved what is whole: the store is not needed any more.
	m.disk()
	if err := os.MkdirAll(m.path("disk", ".zeroinfra.restore-1a2b-3c4d", "second"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write("disk/first", nil)
	m.succeeds(of(protocol.VerbDelete))
	m.succeeds(m.into("exit 1"))
	if names := m.on(); !slices.Equal(names, []string{protocol.RestoredName, "first", "lost+found", "second"}) {
		t.Errorf("in its place is %v", names)
	}
}
