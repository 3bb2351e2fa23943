// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	primary = platformv1.RoleReadWrite
	reader  = platformv1.RoleReadOnly
)

// sparing restarts all pods but those that take writes.
func sparing() optemplate.Template {
	template := restartTemplate()
	template.Steps[0].Agent.Pods = optemplate.PodsOthers
	return template
}

// stories are runs of an Operation, each told in prose and compared with testdata/<name>.txt.
var stories = map[string]func() *world{
	"three-pods-writer-last": func() *world {
		w := newWorld(restartTemplate(), pod(0, primary), pod(1, reader), pod(2, reader))
		w.happens("The Operation starts.", nil)
		w.happens("Pod 1 has restarted.", func(w *world) { w.done(1) })
		w.happens("Pod 2 restarts and its probe fails.", func(w *world) {
			w.shows(2, report.CallSucceeded, "", report.Unhealthy)
			w.at(2).Report.Message = "LOADING"
		})
		w.happens("Pod 2 is healthy.", func(w *world) { w.done(2); w.at(2).Report.Message = "" })
		w.happens("Pod 0 has restarted.", func(w *world) { w.done(0) })
		w.happens("Something else happens.", nil)
		return w
	},
	"writer-hands-over-first": func() *world {
		w := newWorld(restartTemplate(), pod(0, primary), pod(1, reader))
		w.facts.HandingOver = map[string]bool{"redis-a-main": true}
		w.happens("The Operation starts.", nil)
		w.happens("Pod 1 has restarted; pod 0 writes, and the controller dies before it asks for another writer.",
			func(w *world) { w.done(1); w.crash = crashAfterWrite })
		w.happens("A controller starts.", nil)
		w.happens("Pod 1 writes, and pod 0 follows.", func(w *world) { w.at(1).Access, w.at(0).Access = primary, reader })
		w.happens("Pod 0 has restarted.", func(w *world) { w.done(0) })
		return w
	},
	"writer-does-not-hand-over": func() *world {
		w := newWorld(restartTemplate(), pod(0, primary), pod(1, reader))
		w.facts.HandingOver = map[string]bool{"redis-a-main": true}
		w.happens("The Operation starts.", nil)
		w.happens("Pod 1 has restarted.", func(w *world) { w.done(1) })
		w.happens("The set gives up.", func(w *world) { w.refuse["handover"] = "pod redis-a-main-0 did not hand over" })
		return w
	},
	"cancelled-while-the-writer-hands-over": func() *world {
		w := newWorld(restartTemplate(), pod(0, primary), pod(1, reader))
		w.facts.HandingOver = map[string]bool{"redis-a-main": true}
		w.happens("The Operation starts.", nil)
		w.happens("Pod 1 has restarted.", func(w *world) { w.done(1) })
		w.happens("It is cancelled.", func(w *world) { w.op.Spec.Cancel = true })
		return w
	},
	"only-one-pod-that-writes": func() *world {
		w := newWorld(restartTemplate(), pod(0, primary))
		w.facts.HandingOver = map[string]bool{"redis-a-main": true}
		w.happens("The Operation starts.", nil)
		w.happens("Pod 0 has restarted.", func(w *world) { w.done(0) })
		return w
	},
	"all-but-the-writer": func() *world {
		w := newWorld(sparing(), pod(0, reader), pod(1, primary), pod(2, reader))
		w.happens("The Operation starts.", nil)
		w.happens("Pod 0 has restarted.", func(w *world) { w.done(0) })
		w.happens("Pod 2 has restarted.", func(w *world) { w.done(2) })
		return w
	},
	"all-but-the-only-one": func() *world {
		w := newWorld(sparing(), pod(0, primary))
		w.happens("The Operation starts.", nil)
		return w
	},
	"two-steps": func() *world {
		template := restartTemplate()
		template.Steps = append(template.Steps,
			optemplate.Step{Name: "reload", Agent: &optemplate.AgentStep{Call: optemplate.AgentReload}})
		w := newWorld(template, pod(0, ""))
		w.happens("The Operation starts.", nil)
		w.happens("The pod has restarted.", func(w *world) { w.done(0) })
		w.happens("The pod has reloaded.", func(w *world) { w.done(0) })
		return w
	},
	"crashes": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""), pod(1, ""))
		for _, point := range []crashPoint{crashBeforeWrite, crashAfterWrite, crashAfterCall} {
			w.happens("A controller starts.", func(w *world) { w.crash = point })
		}
		w.happens("A controller starts.", nil)
		w.happens("Pod 0 has restarted, and the controller dies before it records that.",
			func(w *world) { w.done(0); w.crash = crashBeforeWrite })
		w.happens("A controller starts, and dies after the next call.", func(w *world) { w.crash = crashAfterCall })
		w.happens("Pod 1 has restarted while no controller ran; then one starts.", func(w *world) { w.done(1) })
		return w
	},
	"pod-replaced": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""), pod(1, ""), pod(2, ""))
		w.happens("The Operation starts.", nil)
		w.happens("Pod 0 is being deleted.", func(w *world) { w.at(0).Presence = PodGoing })
		w.happens("Pod 0 is gone.", func(w *world) { w.at(0).Presence, w.at(0).UID = PodAbsent, "" })
		w.happens("A new pod 0 starts.", func(w *world) {
			w.at(0).UID = "uid-0"
			w.replace(0)
			w.at(0).Report.Health = report.Starting
		})
		w.happens("The new pod 0 is healthy; pod 1 was replaced in the meantime.", func(w *world) {
			w.at(0).Report.Health = report.Healthy
			w.replace(1)
		})
		w.happens("Pod 2 is removed: its set was scaled in.", func(w *world) { w.facts.Pods = w.facts.Pods[:2] })
		return w
	},
	"call-fails": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""), pod(1, ""))
		w.happens("The Operation starts.", nil)
		w.happens("The restart of pod 0 fails.", func(w *world) {
			w.shows(0, report.CallFailed, "cannot read plan: version 2 is unknown", report.Healthy)
		})
		w.happens("Pod 1 reports.", func(w *world) { w.at(1).Report.Role = "replica" })
		return w
	},
	"agent-refuses": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""))
		w.agents["uid-0"].failure, w.agents["uid-0"].problem = FailureRefused,
			"the agent in the pod is too old to know it: delete the pod"
		w.happens("The Operation starts.", nil)
		return w
	},
	"agent-unreachable-then-timeout": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""), pod(1, ""))
		w.op.Spec.Timeout = &metav1.Duration{Duration: 30 * time.Second}
		w.agents["uid-0"].failure, w.agents["uid-0"].problem = FailureUnreachable, "no connection to 10.0.0.1:4880"
		w.happens("The Operation starts.", nil)
		w.happens("2 s later.", func(w *world) { w.facts.Now = epoch.Add(2 * time.Second) })
		w.happens("29.5 s later.", func(w *world) { w.facts.Now = epoch.Add(29500 * time.Millisecond) })
		w.happens("30 s later.", func(w *world) { w.facts.Now = epoch.Add(30 * time.Second) })
		return w
	},
	"overtaken-by-another-call": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""))
		w.happens("The Operation starts.", nil)
		w.happens("Somebody else restarts the process before ours is done.", func(w *world) {
			a := w.agents["uid-0"]
			a.latest = "plan/sha256:1/4/uid-0"
			w.shows(0, report.CallRunning, "", report.Starting)
		})
		w.happens("Ours has succeeded; the other one runs.", func(w *world) {
			a := w.agents["uid-0"]
			key := "op-uid/restart/uid-0"
			a.records[key] = report.Call{Key: key, Phase: report.CallSucceeded}
		})
		w.happens("The other one has succeeded.", func(w *world) { w.done(0) })
		return w
	},
	"report-lags": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""))
		w.crash = crashAfterCall
		w.happens("The Operation starts.", nil)
		w.happens("The call has succeeded, and the report is still the old one.", func(w *world) {
			a := w.agents["uid-0"]
			a.records[a.latest] = report.Call{Key: a.latest, Phase: report.CallSucceeded}
		})
		w.happens("The report has come.", func(w *world) { w.done(0) })
		return w
	},
	"pods-not-there-yet": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""), pod(1, ""))
		w.at(1).Presence = PodAbsent
		w.happens("The Operation starts.", nil)
		w.happens("Pod 1 is there and waits for a node.", func(w *world) { w.at(1).Presence = PodComing })
		w.happens("Pod 0 has restarted.", func(w *world) { w.done(0) })
		w.happens("Pod 1 runs.", func(w *world) { w.at(1).Presence = PodRunning })
		w.happens("Pod 1 has restarted.", func(w *world) { w.done(1) })
		return w
	},
	"no-pods": func() *world {
		w := newWorld(restartTemplate())
		w.happens("The Operation starts.", nil)
		return w
	},
	"other-components-left-alone": func() *world {
		template := restartTemplate()
		template.Targets = []string{"redis"}
		sentinel := pod(1, "")
		sentinel.Component = "sentinel"
		w := newWorld(template, pod(0, ""), sentinel)
		w.happens("The Operation starts.", nil)
		w.happens("Pod 0 has restarted.", func(w *world) { w.done(0) })
		return w
	},
	"components-in-their-update-order": func() *world {
		of := func(component string, ordinal int32, access platformv1.RoleAccess) Pod {
			p := pod(ordinal, access)
			p.Component = component
			return p
		}
		w := newWorld(restartTemplate(), of("controller", 0, primary), of("controller", 1, reader), of("kafka", 2, ""),
			of("kafka", 3, ""), of("metrics", 4, ""))
		w.facts.UpdateOrder = []string{"kafka", "controller"}
		w.happens("The Operation starts. Pods 2 and 3 are brokers, 0 and 1 controllers; pod 4 has no place in the order.",
			nil)
		for _, next := range []int{4, 2, 3, 1, 0} {
			w.happens(fmt.Sprintf("Pod %d has restarted.", next), func(w *world) { w.done(next) })
		}
		return w
	},
	"set-deleted-and-made-again": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""))
		w.happens("The Operation starts.", nil)
		saved := *w.at(0)
		w.happens("The WorkloadSet is deleted.", func(w *world) { w.facts.Sets, w.facts.Pods = nil, nil })
		w.happens("It is made again with its pod.", func(w *world) {
			w.facts.Sets, w.facts.Pods = []string{"redis-a-main"}, []Pod{saved}
			w.replace(0)
		})
		return w
	},
}

func TestStories(t *testing.T) {
	all := maps.Clone(stories)
	maps.Copy(all, graphStories)
	maps.Copy(all, writingStories)
	maps.Copy(all, jobStories)
	maps.Copy(all, outputStories)
	maps.Copy(all, lifeStories)
	maps.Copy(all, noReturnStories)
	maps.Copy(all, heldStories)
	maps.Copy(all, versionStories)
	maps.Copy(all, overriddenStories)
	maps.Copy(all, switchoverStories)
	for name, story := range all {
		t.Run(name, func(t *testing.T) {
			w := story()
			w.sane(t)
			got := w.story.String()
			if again := story().story.String(); again != got {
				t.Errorf("told twice, the story differs:\n%s\n%s", got, again)
			}
			path := filepath.Join("testdata", name+".txt")
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
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// What spares the primary says so beforehand, also where there is nobody else: that is no failure.
func TestADryRunNamesAllButThePrimary(t *testing.T) {
	for want, pods := range map[string][]Pod{
		"restart: calls Restart in redis-a-main-0, then redis-a-main-2": {pod(0, reader), pod(1, primary),
			pod(2, reader)},
		`restart: calls Restart in no pod: Redis "a" has none but primaries`: {pod(0, primary)},
	} {
		w := newWorld(sparing(), pods...)
		w.op.Spec.DryRun = true
		w.happens("A dry run.", nil)
		if got := w.op.Status; got.Phase != platformv1.OperationSucceeded || !slices.Equal(got.Plan, []string{want}) {
			t.Errorf("it is %s: %q, %s; want %q", got.Phase, got.Plan, got.Error, want)
		}
	}
	w := newWorld(sparing())
	w.op.Spec.DryRun = true
	w.happens("A dry run.", nil)
	if got := w.op.Status; got.Phase != platformv1.OperationFailed || !strings.Contains(got.Error, "has no pods") {
		t.Errorf("without pods it is %s: %q, %s", got.Phase, got.Plan, got.Error)
	}
}

// A step can name the one pod that it acts on, also where that is the one that writes.
func TestAStepNamesItsPod(t *testing.T) {
	const text = `name: One
parameters: {pod: {schema: string}}
steps: [{name: restart, agent: {call: Restart, pod: "${parameters.pod}"}}]
`
	named := func(name string) *world {
		w := worldOf(text, pod(0, reader), pod(1, primary), pod(2, reader))
		w.facts.Parameters = map[string]string{"pod": name}
		return w
	}
	w := named("redis-a-main-1")
	w.happens("The Operation starts.", nil)
	if targets := w.op.Status.Steps[0].Targets; len(targets) != 1 || targets[0].Name != "redis-a-main-1" {
		t.Errorf("it acts on %+v", targets)
	}
	w = named("redis-a-main-1")
	w.op.Spec.DryRun = true
	w.happens("A dry run.", nil)
	if want := []string{"restart: calls Restart in redis-a-main-1"}; !slices.Equal(w.op.Status.Plan, want) {
		t.Errorf("the plan is %q, want %q", w.op.Status.Plan, want)
	}
	w = named("redis-a-main-3")
	w.happens("The Operation starts.", nil)
	if got := w.op.Status; got.Phase != platformv1.OperationFailed ||
		!strings.Contains(got.Error, `"redis-a-main-3" is no pod of Redis "a" that step "restart" could act on`) {
		t.Errorf("it is %s: %s", got.Phase, got.Error)
	}
}
