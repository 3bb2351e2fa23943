// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
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

// world is a set that does what the steps say, a turn later.
type world struct {
	rollout.Facts
	log strings.Builder
	// breaks says whether a pod of this revision never becomes ready.
	breaks map[string]bool
}

func newWorld(replicas int32, revision, digest string) *world {
	return &world{
		Facts:  rollout.Facts{Name: "a-redis-main", Replicas: replicas, Revision: revision, ConfigDigest: digest, Roles: roles},
		breaks: map[string]bool{},
	}
}

// turn plans and carries out; it says whether there was anything to do or to wait for.
func (w *world) turn() bool {
	w.grow()
	steps := rollout.Plan(w.Facts)
	for _, step := range steps {
		fmt.Fprintln(&w.log, step)
		w.take(step)
	}
	return len(steps) > 0 || slices.ContainsFunc(w.Pods, func(p rollout.Pod) bool { return p.Life == rollout.Terminating })
}

// grow lets time pass: pods that end are gone, those that start become ready.
func (w *world) grow() {
	w.Pods = slices.DeleteFunc(w.Pods, func(p rollout.Pod) bool { return p.Life == rollout.Terminating })
	for i := range w.Pods {
		p := &w.Pods[i]
		if w.breaks[p.Revision] {
			p.Report = report.Report{Health: report.Unhealthy, ConfigDigest: w.ConfigDigest}
			continue
		}
		p.Ready, p.Report.Health = rollout.Ready, report.Healthy
		if p.Report.ConfigDigest == "" {
			p.Report.ConfigDigest = w.ConfigDigest
		}
		p.Report.Role = "replica"
		if p.Ordinal == 0 {
			p.Report.Role = "primary"
		}
	}
}

func (w *world) take(step rollout.Step) {
	i := slices.IndexFunc(w.Pods, func(p rollout.Pod) bool { return p.Ordinal == step.Ordinal })
	switch step.Action {
	case rollout.CreatePod:
		w.Pods = append(w.Pods, rollout.Pod{Name: step.Pod, Ordinal: step.Ordinal, Life: rollout.Alive, Revision: w.Revision, Ready: rollout.NotReady})
	case rollout.DeletePod:
		w.Pods[i].Life, w.Pods[i].Ready = rollout.Terminating, rollout.NotReady
	case rollout.SetRole:
		w.Pods[i].Role = step.Role
	case rollout.PushPlan:
		w.Pods[i].Report = report.Report{Health: report.Starting, ConfigDigest: w.ConfigDigest}
		w.Pods[i].Ready = rollout.NotReady
	}
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(&w.log, "--- "+format+"\n", args...) }

func (w *world) settle(t *testing.T) {
	t.Helper()
	for range 50 {
		if !w.turn() {
			return
		}
	}
	t.Fatalf("the set does not settle:\n%s", w.log.String())
}

func TestGoldenRollouts(t *testing.T) {
	stories := map[string]func(t *testing.T, w *world){
		"create-three": func(t *testing.T, w *world) { w.settle(t) },
		"new-template": func(t *testing.T, w *world) {
			w.settle(t)
			w.say("the template changes")
			w.Revision = "r2"
			w.settle(t)
		},
		"new-configuration": func(t *testing.T, w *world) {
			w.settle(t)
			w.say("the configuration changes")
			w.ConfigDigest = "d2"
			w.settle(t)
		},
		"bad-template-is-mended": func(t *testing.T, w *world) {
			w.settle(t)
			w.say("the template changes to one that never becomes ready")
			w.Revision, w.breaks["r2"] = "r2", true
			w.settle(t)
			w.say("the template is mended")
			w.Revision = "r3"
			w.settle(t)
		},
		"scale-in": func(t *testing.T, w *world) {
			w.settle(t)
			w.say("one pod is wanted")
			w.Replicas = 1
			w.settle(t)
		},
		"pod-ends": func(t *testing.T, w *world) {
			w.settle(t)
			w.say("pod 1 is evicted")
			w.Pods[1].Life = rollout.Ended
			w.settle(t)
		},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			w := newWorld(3, "r1", "d1")
			story(t, w)
			golden(t, filepath.Join("testdata", name+".golden"), w.log.String())
		})
	}
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

// Whatever happens to the pods and the spec, at most one wanted pod is out because of
// an update, the writer goes last, and the set settles when nothing more happens.
func TestRandomHistoriesSettleAndStayAvailable(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(3, "r1", "d1")
		w.settle(t)
		for range 40 {
			switch random.IntN(8) {
			case 0:
				w.Revision = fmt.Sprintf("r%d", random.IntN(5))
			case 1:
				w.ConfigDigest = fmt.Sprintf("d%d", random.IntN(5))
			case 2:
				w.Replicas = int32(1 + random.IntN(5))
			}
			healthy := w.serving()
			steps := rollout.Plan(w.Facts)
			checkTurn(t, w, healthy, steps)
			w.turn()
		}
		w.settle(t)
		for _, p := range w.Pods {
			if w.Settled(p) != rollout.Ready {
				t.Fatalf("seed %d: pod %s is not settled:\n%s", seed, p.Name, w.log.String())
			}
		}
		if int32(len(w.Pods)) != w.Replicas {
			t.Fatalf("seed %d: %d pods, wanted %d", seed, len(w.Pods), w.Replicas)
		}
	}
}

func (w *world) serving() int {
	n := 0
	for _, p := range w.Pods {
		if p.Life == rollout.Alive && p.Ready == rollout.Ready && p.Ordinal < w.Replicas {
			n++
		}
	}
	return n
}

func checkTurn(t *testing.T, w *world, healthy int, steps []rollout.Step) {
	t.Helper()
	disruptive := 0
	for _, step := range steps {
		i := slices.IndexFunc(w.Pods, func(p rollout.Pod) bool { return p.Ordinal == step.Ordinal })
		if (step.Action != rollout.DeletePod && step.Action != rollout.PushPlan) || step.Ordinal >= w.Replicas {
			continue
		}
		if w.Pods[i].Ready == rollout.Ready {
			disruptive++
			if int32(healthy) < w.Replicas {
				t.Fatalf("%s although only %d of %d serve", step, healthy, w.Replicas)
			}
		}
	}
	if disruptive > 1 {
		t.Fatalf("%d pods are disrupted at once: %v", disruptive, steps)
	}
}

func TestWriterLabelIsTakenBeforeItIsGiven(t *testing.T) {
	healthy := func(role string) report.Report {
		return report.Report{Health: report.Healthy, Role: role, ConfigDigest: "d1"}
	}
	f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d1", Roles: roles, Pods: []rollout.Pod{
		{Name: "a-0", Ordinal: 0, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1", Role: "primary", Report: healthy("replica")},
		{Name: "a-1", Ordinal: 1, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1", Role: "replica", Report: healthy("primary")},
	}}
	steps := rollout.Plan(f)
	if len(steps) != 1 || steps[0].Pod != "a-0" || steps[0].Role != "replica" {
		t.Fatalf("first turn: %v", steps)
	}
	f.Pods[0].Role = "replica"
	steps = rollout.Plan(f)
	if len(steps) != 1 || steps[0].Pod != "a-1" || steps[0].Role != "primary" {
		t.Fatalf("second turn: %v", steps)
	}
}

func TestRoleThatThePluginDoesNotDeclareIsNotLabelled(t *testing.T) {
	f := rollout.Facts{Name: "a", Replicas: 1, Revision: "r1", ConfigDigest: "d1", Roles: roles, Pods: []rollout.Pod{
		{Name: "a-0", Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1", Report: report.Report{Health: report.Healthy, Role: "king", ConfigDigest: "d1"}},
	}}
	if steps := rollout.Plan(f); len(steps) != 0 {
		t.Fatalf("steps: %v", steps)
	}
}

func TestBrokenProcessTakesNewConfigurationAtOnce(t *testing.T) {
	f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d2", Roles: roles, Pods: []rollout.Pod{
		{Name: "a-0", Ordinal: 0, Life: rollout.Alive, Ready: rollout.NotReady, Revision: "r1", Report: report.Report{Health: report.Unhealthy, ConfigDigest: "d1"}},
		{Name: "a-1", Ordinal: 1, Life: rollout.Terminating, Revision: "r1"},
	}}
	steps := rollout.Plan(f)
	if len(steps) != 1 || steps[0].Action != rollout.PushPlan || steps[0].Pod != "a-0" {
		t.Fatalf("steps: %v", steps)
	}
}
