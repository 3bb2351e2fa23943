// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
)

// twoSets are the sources of a Backup whose data is in two parts.
func twoSets() []platformv1.BackupSource {
	return []platformv1.BackupSource{{Pod: "c-node-0-1", Component: "node", Set: "0", Role: "replica"},
		{Pod: "c-node-1-0", Component: "node", Set: "1", Role: "primary"}}
}

func TestBackupInParts(t *testing.T) {
	b := made(nil)
	d := next(b, ready(func(f *facts) { f.source, f.sources = nil, twoSets() }))
	if d.effect != makeMover || d.status.Source != nil || !slices.Equal(d.status.Sources, twoSets()) ||
		d.status.SourcePods != "c-node-0-1, c-node-1-0" {
		t.Fatalf("it begins with %+v", d)
	}
	b.Status = d.status
	d = next(b, at(time.Minute, job(platformv1.OperationRunning, "")))
	if !strings.Contains(d.status.Message, "takes the data from pods c-node-0-1, c-node-1-0") {
		t.Errorf("it says %q", d.status.Message)
	}
	const said = `{"digest":"sha256:1","size":5,"rawSize":9,"streams":{"0":4,"1":5},"facts":{"slots.0":"0-1"}}`
	d = next(b, at(time.Minute, job(platformv1.OperationSucceeded, said)))
	if s := d.status; s.Phase != platformv1.BackupCompleted || s.RawSize != 9 || s.Sources[0].RawSize != 4 ||
		s.Sources[1].RawSize != 5 || s.Facts["slots.0"] != "0-1" {
		t.Errorf("it has come to %+v", s)
	}
}

func TestStreams(t *testing.T) {
	app := &platformv1.Application{}
	app.Name, app.Namespace = "c", "n"
	b := made(func(b *platformv1.Backup) { b.Status.Sources = twoSets() })
	method := schema.BackupMethod{Name: "rdb", Command: []string{"dump", "${app.name}"},
		Env: []optemplate.JobEnv{{Name: "HOST", Value: "${source.name}"}, {Name: "PASSWORD", Secret: &plan.SecretRef{}}}}
	streams, err := streamsOf(b, method, app, render.Settings{})
	if err != nil || len(streams) != 2 || streams[1].Name != "1" ||
		!slices.Equal(streams[1].Env, []string{"HOST=c-node-1-0"}) {
		t.Errorf("they are %+v, %v", streams, err)
	}
	method.Command[1] = "${source.name}"
	if _, err := streamsOf(b, method, app, render.Settings{}); err == nil ||
		!strings.Contains(err.Error(), "only values of its env may differ") {
		t.Errorf("another command for each set: %v", err)
	}
	if streams, err := streamsOf(made(running), method, app, render.Settings{}); err != nil || streams != nil {
		t.Errorf("a Backup in one part has %+v, %v", streams, err)
	}
}

// Nothing is taken while the members are brought together, or the sets are not those that are asked for.
func TestUnsettled(t *testing.T) {
	settledOne := func() *platformv1.Component {
		c := &platformv1.Component{}
		c.Generation, c.Status.ObservedGeneration, c.Spec.Component = 2, 2, "node"
		c.Spec.Sets = []platformv1.ComponentSet{{Name: "0"}, {Name: "1"}}
		c.Status.Sets = []platformv1.SetState{{Name: "0"}, {Name: "1"}}
		return c
	}
	if waits := unsettled(settledOne()); waits != "" {
		t.Errorf("it waits for %s", waits)
	}
	for name, test := range map[string]struct {
		change func(*platformv1.Component)
		says   string
	}{
		"a call runs": {func(c *platformv1.Component) {
			c.Status.Membership = &platformv1.MembershipCall{Message: "64 slots have to move"}
		}, "64 slots have to move"},
		"the spec is new": {func(c *platformv1.Component) { c.Generation = 3 }, "sets are being changed"},
		"a set is to come": {func(c *platformv1.Component) {
			c.Spec.Sets = append(c.Spec.Sets, platformv1.ComponentSet{Name: "2"})
		}, "sets are being changed"},
		"a set is to go":         {func(c *platformv1.Component) { c.Spec.Sets = c.Spec.Sets[:1] }, "sets are being changed"},
		"a set has another name": {func(c *platformv1.Component) { c.Status.Sets[1].Name = "b" }, "sets are being changed"},
	} {
		c := settledOne()
		if test.change(c); !strings.Contains(unsettled(c), test.says) {
			t.Errorf("%s: it waits for %q", name, unsettled(c))
		}
		if !settled.Update(event.UpdateEvent{ObjectOld: c, ObjectNew: settledOne()}) ||
			settled.Update(event.UpdateEvent{ObjectOld: settledOne(), ObjectNew: c}) {
			t.Errorf("%s: it is not known when it is over", name)
		}
	}
}
