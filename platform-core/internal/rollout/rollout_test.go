// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

var update = flag.Bool("update", false, "rewrite the golden logs")

var roles = []platformv1.SetRole{
	{Name: "primary", Access: platformv1.RoleReadWrite},
	{Name: "replica", Access: platformv1.RoleReadOnly},
}

// world is a set that does what the steps say, a round later.
type world struct {
	rollout.Facts
	log strings.Builder
	// image and resources that pods should have.
	image, resources string
	// has is what the containers of a pod have, by name.
	has map[string]content
	// breaks says of a revision, an image or a configuration that no pod with it becomes ready.
	breaks map[string]bool
	// tightens says that the resources are fewer than before.
	tightens bool
	// inPlace says how the nodes answer to other resources.
	inPlace rollout.Fit
	// primary is the pod that the middleware chose, where that can be another one than the first.
	primary string
	// deaf says that nobody hands over.
	deaf bool
	// behind are the pods by name that do not have the primary's data.
	behind map[string]bool
}

// content of the containers of a pod.
type content struct{ image, runs, resources string }

func newWorld(replicas int32, revision, digest string) *world {
	return &world{
		Facts: rollout.Facts{Name: "a-redis-main", Replicas: replicas, Revision: revision, ConfigDigest: digest,
			RestartDigest: "s1",
			Roles:         roles, Authority: rollout.AuthorityEngine},
		image: "i1", resources: "1Gi", has: map[string]content{}, breaks: map[string]bool{}, inPlace: rollout.Outdated,
	}
}

// round plans and carries out; it says whether there was anything to do or to wait for.
func (w *world) round() bool {
	w.grow()
	steps := rollout.Plan(w.Facts)
	for _, step := range steps {
		fmt.Fprintln(&w.log, step)
		w.take(step)
	}
	if len(steps) == 1 && steps[0].Action == rollout.Hold &&
		(w.Handover.State == rollout.HandoverFailed || w.Request.From != "" || len(w.behind) > 0) {
		return false // the user has to act
	}
	return len(steps) > 0 || slices.ContainsFunc(w.Pods, func(p rollout.Pod) bool {
		return p.Life == rollout.Terminating && p.Node == rollout.Reachable || p.Restart == rollout.Underway ||
			p.Resources == rollout.Underway
	})
}

// grow lets time pass: pods that end are gone, those that start become ready.
func (w *world) grow() {
	w.Pods = slices.DeleteFunc(w.Pods, func(p rollout.Pod) bool {
		return p.Life == rollout.Terminating && p.Node == rollout.Reachable
	})
	primary := w.chosen()
	if w.Named != nil {
		w.Named = &primary
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		if p.Node == rollout.Unreachable {
			p.Ready = rollout.NotReady // and nothing that it says can be heard
			continue
		}
		w.fit(p)
		if w.breaks[p.Revision] || w.breaks[w.has[p.Name].runs] || w.breaks[p.Report.ConfigDigest] {
			p.Ready, p.Report.Health = rollout.NotReady, report.Unhealthy
			continue
		}
		p.Ready, p.Report.Health = rollout.Ready, report.Healthy
		if p.Report.ConfigDigest == "" {
			p.Report.ConfigDigest, p.Report.RestartDigest = w.ConfigDigest, w.RestartDigest
		}
		p.Report.Role, p.Candidacy = "replica", rollout.CanTakeOver
		if w.behind[p.Name] {
			p.Candidacy = rollout.Unfit
		}
		if p.Name == primary {
			p.Report.Role = "primary"
		}
	}
}

// fit compares what a pod has with what it should have, and has its node act on it.
func (w *world) fit(p *rollout.Pod) {
	has := w.has[p.Name]
	p.Images, p.Restart, p.Resources = rollout.Current, rollout.Current, rollout.Current
	if has.image != w.image {
		p.Images = rollout.Outdated
	}
	if has.resources != w.resources {
		p.Resources, p.Note, p.Tightens = w.inPlace, "the node says so", w.tightens
	}
	has.runs = has.image
	w.has[p.Name] = has
}

func (w *world) take(step rollout.Step) {
	i := slices.IndexFunc(w.Pods, func(p rollout.Pod) bool { return p.Ordinal == step.Ordinal })
	has := w.has[step.Pod]
	switch step.Action {
	case rollout.CreatePod:
		w.Pods = append(w.Pods, rollout.Pod{Name: step.Pod, Ordinal: step.Ordinal, Life: rollout.Alive, Revision: w.Revision,
			Ready: rollout.NotReady})
		has = content{w.image, w.image, w.resources}
	case rollout.DeletePod:
		w.Pods[i].Life, w.Pods[i].Ready = rollout.Terminating, rollout.NotReady
	case rollout.ForgetPod:
		w.Pods = slices.Delete(w.Pods, i, i+1)
	case rollout.SetRole:
		w.Pods[i].Role = step.Role
	case rollout.PushPlan:
		w.Pods[i].Report = report.Report{Health: report.Starting, Role: w.Pods[i].Report.Role, ConfigDigest: w.ConfigDigest,
			RestartDigest: w.RestartDigest}
		w.Pods[i].Ready = rollout.NotReady
	case rollout.ReloadPlan:
		w.Pods[i].Report.ConfigDigest = w.ConfigDigest
	case rollout.SwitchOver:
		w.handOver(step)
	case rollout.UpdateImage:
		has.image, w.Pods[i].Restart = w.image, rollout.Underway
	case rollout.ResizePod:
		has.resources, w.Pods[i].Resources = w.resources, rollout.Underway
	}
	w.has[step.Pod] = has
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(&w.log, "--- "+format+"\n", args...) }

func (w *world) settle(t *testing.T) {
	t.Helper()
	for range 50 {
		if !w.round() {
			return
		}
	}
	t.Fatalf("the set does not settle:\n%s", w.log.String())
}

// change is one thing that happens to a set that has settled.
type change struct {
	what string
	do   func(w *world)
}

// stories are what happens to a set, by the name of the golden.
var stories = map[string][]change{
	"create-three":      {},
	"new-template":      {{"the template changes", func(w *world) { w.Revision = "r2" }}},
	"new-configuration": {{"the configuration changes", func(w *world) { w.ConfigDigest, w.RestartDigest = "d2", "s2" }}},
	"new-image":         {{"the image changes", func(w *world) { w.image = "i2" }}},
	"new-resources":     {{"the resources change", func(w *world) { w.resources = "2Gi" }}},
	"memory-changes": {
		{"there is more memory, and a reload is to make use of it",
			func(w *world) { w.resources, w.ConfigDigest = "2Gi", "d2" }},
		{"there is less, and a reload is to do with it",
			func(w *world) { w.resources, w.tightens, w.ConfigDigest = "1Gi", true, "d3" }},
		{"there is less, and it takes a restart",
			func(w *world) { w.resources, w.ConfigDigest, w.RestartDigest = "512Mi", "d4", "s4" }},
	},
	"dynamic-parameters": {{"a part of the configuration that a reload takes over changes",
		func(w *world) { w.ConfigDigest = "d2" }}},
	"reload-is-not-enough": {{"a reload is refused where it was thought to be enough", func(w *world) {
		w.ConfigDigest = "d2"
		for i := range w.Pods {
			w.Pods[i].Reload = rollout.Replace
		}
	}}},
	"agents-are-too-old": {{"the configuration changes to one that the agents of pods 0 and 2 would not heed",
		func(w *world) {
			w.ConfigDigest, w.RestartDigest = "d2", "s2"
			w.Pods[0].Agent, w.Pods[2].Agent = rollout.Replace, rollout.Replace
		}}},
	"resources-need-other-pods": {{"the resources change to ones that cannot be given in place",
		func(w *world) { w.resources, w.inPlace = "2Gi", rollout.Replace }}},
	"all-at-once": {{"template, image, resources and configuration change",
		func(w *world) { w.Revision, w.image, w.resources, w.ConfigDigest = "r2", "i2", "2Gi", "d2" }}},
	"image-and-configuration": {{"image, resources and configuration change",
		func(w *world) { w.image, w.resources, w.ConfigDigest, w.RestartDigest = "i2", "2Gi", "d2", "s2" }}},
	"bad-template-is-mended": {
		{"the template changes to one that never becomes ready", func(w *world) { w.Revision, w.breaks["r2"] = "r2", true }},
		{"the template is mended", func(w *world) { w.Revision = "r3" }},
	},
	"bad-image-is-mended": {
		{"the image changes to one that never becomes ready", func(w *world) { w.image, w.breaks["i2"] = "i2", true }},
		{"the image is mended", func(w *world) { w.image = "i3" }},
	},
	"bad-template-is-taken-back": {
		{"the template changes to one that never becomes ready", func(w *world) { w.Revision, w.breaks["r2"] = "r2", true }},
		{"the template is what it was", func(w *world) { w.Revision = "r1" }},
	},
	"bad-image-is-taken-back": {
		{"the image changes to one that never becomes ready", func(w *world) { w.image, w.breaks["i2"] = "i2", true }},
		{"the image is what it was", func(w *world) { w.image = "i1" }},
	},
	"bad-configuration-is-mended": {
		{"the configuration changes to one that breaks the process",
			func(w *world) { w.ConfigDigest, w.breaks["d2"] = "d2", true }},
		{"the configuration is mended", func(w *world) { w.ConfigDigest = "d3" }},
	},
	"scale-in":  {{"one pod is wanted", func(w *world) { w.Replicas = 1 }}},
	"scale-out": {{"five pods are wanted", func(w *world) { w.Replicas = 5 }}},
	"ordered": {
		{"pods are made in order, and two more are wanted",
			func(w *world) { w.Policy, w.Replicas = platformv1.PodManagementOrderedReady, 5 }},
	},
	"named-pod-is-removed": {{"ordinal 1 is excluded and two pods are wanted",
		func(w *world) { w.Excluded, w.Replicas = []int32{1}, 2 }}},
	"named-pod-is-replaced": {{"ordinal 1 is excluded, and three pods are wanted still",
		func(w *world) { w.Excluded = []int32{1} }}},
	"primary-is-removed": {{"the primary's ordinal is excluded and one pod is wanted",
		func(w *world) { w.Excluded, w.Replicas = []int32{0}, 1 }}},
	"stop-and-start": {{"it is to stop", func(w *world) { w.Mode = rollout.Stopped }},
		{"it is to run", func(w *world) { w.Mode = rollout.Running }}},
	"suspended": {{"it is suspended, and everything changes",
		func(w *world) { w.Mode, w.Revision, w.Replicas = rollout.Suspended, "r2", 1 }},
		{"it goes on", func(w *world) { w.Mode = rollout.Running }}},
	"pod-ends": {{"pod 1 is evicted", func(w *world) { w.Pods[1].Life = rollout.Ended }}},
	"node-is-lost": {
		{"nobody reaches the node of pod 0", func(w *world) { w.Pods[0].Node = rollout.Unreachable }},
		{"it is evicted from there, and may still run", func(w *world) { w.Pods[0].Life = rollout.Terminating }},
		{"the node is back", func(w *world) { w.Pods[0].Node = rollout.Reachable }},
	},
	"node-is-lost-and-pods-are-alike": {
		{"pods have nothing of their own, and nobody reaches the node of pod 0",
			func(w *world) { w.Interchangeable, w.Pods[0].Node = true, rollout.Unreachable }},
		{"it is evicted from there", func(w *world) { w.Pods[0].Life = rollout.Terminating }},
	},
	"scale-in-waits-for-pods": {{"two pods are wanted and pod 0 is broken",
		func(w *world) { w.Replicas, w.Revision, w.Pods[0].Revision, w.breaks["r0"] = 2, "r1", "r0", true }}},
}

func TestGoldenRollouts(t *testing.T) {
	play(t, stories)
}

// play has each story happen, and compares the logs.
func play(t *testing.T, stories map[string][]change) {
	t.Helper()
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			w := newWorld(3, "r1", "d1")
			w.settle(t)
			for _, change := range story {
				w.say("%s", change.what)
				change.do(w)
				w.settle(t)
			}
			golden(t, filepath.Join("testdata", name+".golden"), w.log.String())
		})
	}
}

func TestGoldenRestartsTogether(t *testing.T) {
	together := change{"there are no roles, and processes start together",
		func(w *world) { w.RestartStrategy, w.Roles = platformv1.RestartAllAtOnce, nil }}
	play(t, map[string][]change{
		"together": {together, {"the configuration changes",
			func(w *world) { w.ConfigDigest, w.RestartDigest = "d2", "s2" }}},
		"together-with-a-template": {together, {"configuration and template change", func(w *world) {
			w.ConfigDigest, w.RestartDigest, w.Revision = "d2", "s2", "r2"
		}}},
		"together-in-a-window": {
			together,
			{"the configuration changes outside of the maintenance windows",
				func(w *world) { w.Window, w.ConfigDigest, w.RestartDigest = rollout.Closed, "d2", "s2" }},
			{"a window opens", func(w *world) { w.Window = rollout.Open }},
		},
	})
}

// One that has begun is ready only when all have: nobody waits for it, and no window that closes keeps the others back.
func TestProcessesThatStartTogetherDoNotWaitForEachOther(t *testing.T) {
	f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d2", RestartDigest: "s2",
		RestartStrategy: platformv1.RestartAllAtOnce, Window: rollout.Closed,
		Pods: []rollout.Pod{
			{Name: "a-0", Ordinal: 0, Life: rollout.Alive, Ready: rollout.NotReady, Revision: "r1",
				Report: report.Report{Health: report.Unhealthy, ConfigDigest: "d2", RestartDigest: "s2"}},
			{Name: "a-1", Ordinal: 1, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1",
				Report: report.Report{Health: report.Healthy, ConfigDigest: "d1", RestartDigest: "s1"}},
		}}
	if steps := rollout.Plan(f); len(steps) != 1 || steps[0].Action != rollout.PushPlan || steps[0].Pod != "a-1" {
		t.Fatalf("steps: %v", steps)
	}
	f.RestartStrategy = platformv1.RestartRolling
	if steps := rollout.Plan(f); len(steps) != 0 {
		t.Fatalf("one by one: %v", steps)
	}
}

func TestGoldenMaintenanceWindows(t *testing.T) {
	play(t, map[string][]change{
		"window-is-closed": {
			{"the template changes outside of the maintenance windows",
				func(w *world) { w.Window, w.Revision = rollout.Closed, "r2" }},
			{"four pods are wanted", func(w *world) { w.Replicas = 4 }},
			{"pod 1 breaks", func(w *world) { w.Pods[1].Report.ConfigDigest, w.breaks["d9"] = "d9", true }},
			{"it is evicted", func(w *world) { w.Pods[3].Life = rollout.Ended }},
			{"three pods are wanted", func(w *world) { w.Replicas = 3 }},
			{"a window opens", func(w *world) { w.Window = rollout.Open }},
		},
		"window-closes-midway": {
			{"the template changes, and the window closes when the first pod is gone", func(w *world) {
				w.Revision = "r2"
				w.round()
				w.Window = rollout.Closed
			}},
			{"a window opens", func(w *world) { w.Window = rollout.Open }},
		},
		"window-closes-while-a-container-restarts": {
			{"image and configuration change, and the window closes when the first container has yet to restart",
				func(w *world) {
					w.image, w.ConfigDigest, w.RestartDigest = "i2", "d2", "s2"
					w.round()
					w.Window = rollout.Closed
				}},
			{"a window opens", func(w *world) { w.Window = rollout.Open }},
		},
		"window-does-not-hold-what-runs-on": {
			{"dynamic parameters and resources change outside of the maintenance windows",
				func(w *world) { w.Window, w.ConfigDigest, w.resources = rollout.Closed, "d2", "2Gi" }},
			{"what only a restart changes follows, and more resources",
				func(w *world) { w.ConfigDigest, w.RestartDigest, w.resources = "d3", "s3", "3Gi" }},
			{"resources change to ones that cannot be given in place, and a reload follows", func(w *world) {
				w.ConfigDigest, w.RestartDigest, w.resources, w.inPlace = "d4", "s1", "4Gi", rollout.Replace
			}},
			{"a window opens", func(w *world) { w.Window = rollout.Open }},
		},
		"window-holds-less-memory-that-takes-a-restart": {
			{"there is less memory outside of the maintenance windows, and a reload does with it", func(w *world) {
				w.Window, w.resources, w.tightens, w.ConfigDigest = rollout.Closed, "512Mi", true, "d2"
			}},
			{"there is still less, and it takes a restart",
				func(w *world) { w.resources, w.ConfigDigest, w.RestartDigest = "256Mi", "d3", "s3" }},
			{"a window opens", func(w *world) { w.Window = rollout.Open }},
		},
		"window-does-not-hold-a-stop": {
			{"the template changes outside of the maintenance windows",
				func(w *world) { w.Window, w.Revision = rollout.Closed, "r2" }},
			{"it is to stop", func(w *world) { w.Mode = rollout.Stopped }},
			{"it is to run", func(w *world) { w.Mode = rollout.Running }},
		},
	})
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

func TestPrimaryLabelIsTakenBeforeItIsGiven(t *testing.T) {
	healthy := func(role string) report.Report {
		return report.Report{Health: report.Healthy, Role: role, ConfigDigest: "d1"}
	}
	f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d1", Roles: roles, Pods: []rollout.Pod{
		{Name: "a-0", Ordinal: 0, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1", Role: "primary",
			Report: healthy("replica")},
		{Name: "a-1", Ordinal: 1, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1", Role: "replica",
			Report: healthy("primary")},
	}}
	steps := rollout.Plan(f)
	if len(steps) != 1 || steps[0].Pod != "a-0" || steps[0].Role != "replica" {
		t.Fatalf("first round: %v", steps)
	}
	f.Pods[0].Role = "replica"
	steps = rollout.Plan(f)
	if len(steps) != 1 || steps[0].Pod != "a-1" || steps[0].Role != "primary" {
		t.Fatalf("second round: %v", steps)
	}
}

// A primary on a node that nobody reaches says what it last said for ever: its label goes when another one says that it
// writes, and does not come back.
func TestPrimaryThatNobodyReachesLosesItsLabel(t *testing.T) {
	healthy := report.Report{Health: report.Healthy, Role: "primary", ConfigDigest: "d1"}
	f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d1", Roles: roles, Authority: "middleware",
		Pods: []rollout.Pod{
			{Name: "a-0", Ordinal: 0, Life: rollout.Alive, Node: rollout.Unreachable, Revision: "r1", Role: "primary",
				Report: healthy},
			{Name: "a-1", Ordinal: 1, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1", Role: "replica",
				Report: healthy},
		}}
	steps := rollout.Plan(f)
	if len(steps) != 1 || steps[0].Pod != "a-0" || steps[0].Action != rollout.SetRole || steps[0].Role != "" {
		t.Fatalf("first round: %v", steps)
	}
	f.Pods[0].Role = ""
	steps = rollout.Plan(f)
	if len(steps) != 1 || steps[0].Pod != "a-1" || steps[0].Role != "primary" {
		t.Fatalf("second round: %v", steps)
	}
	f.Pods[1].Role = "primary"
	if steps = rollout.Plan(f); len(steps) != 0 {
		t.Fatalf("third round: %v", steps)
	}
}

func TestRoleThatThePluginDoesNotDeclareIsNotLabelled(t *testing.T) {
	f := rollout.Facts{Name: "a", Replicas: 1, Revision: "r1", ConfigDigest: "d1", Roles: roles, Pods: []rollout.Pod{
		{Name: "a-0", Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1",
			Report: report.Report{Health: report.Healthy, Role: "king", ConfigDigest: "d1"}},
	}}
	if steps := rollout.Plan(f); len(steps) != 0 {
		t.Fatalf("steps: %v", steps)
	}
}

func TestBrokenProcessTakesNewConfigurationAtOnce(t *testing.T) {
	f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d2", Roles: roles, Pods: []rollout.Pod{
		{Name: "a-0", Ordinal: 0, Life: rollout.Alive, Ready: rollout.NotReady, Revision: "r1",
			Report: report.Report{Health: report.Unhealthy, ConfigDigest: "d1"}},
		{Name: "a-1", Ordinal: 1, Life: rollout.Terminating, Revision: "r1"},
	}}
	steps := rollout.Plan(f)
	if len(steps) != 1 || steps[0].Action != rollout.PushPlan || steps[0].Pod != "a-0" {
		t.Fatalf("steps: %v", steps)
	}
}
