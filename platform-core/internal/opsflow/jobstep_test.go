// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

const counting = `name: Counting
steps:
  - name: count
    retry: {limit: 1, backoff: 3s}
    timeout: 5m
    job:
      command: [count, "${target.name}"]
      env: [{name: OF, value: "${target.version}"}]
      outputs: {keys: '=~"^[0-9]+$" @allowed("a whole number")'}
  - name: note
    apply: {apiVersion: v1, kind: ConfigMap, name: note, content: {data: {keys: "${steps.count.outputs.keys}"}}}
`

const countingEach = `name: CountingEach
steps:
  - name: count
    forEach: "['a', 'b']"
    job: {command: [count, "${each}"]}
`

const converting = `name: Converting
steps:
  - name: stop
    compensate: [start-again]
    engine: {do: Stop}
  - name: convert
    compensate: [former-version]
    job: {volumes: Writer, command: [convert, "${target.version}"]}
  - name: version
    engine: {do: Upgrade, with: {version: "9"}}
  - name: former-version
    engine: {do: Downgrade, with: {version: "7"}}
  - name: start-again
    engine: {do: Start}
`

// convertingWorld has a job that takes the volumes of pod 0, which writes on record.
func convertingWorld() *world {
	w := writingWorld("Restart", nil)
	template, err := optemplate.Parse(converting)
	if err != nil {
		panic(err)
	}
	w.facts.Template, w.facts.Parameters = template, nil
	w.happens("The Operation starts.", nil)
	return w
}

// pods have this presence.
func all(presence Presence) func(*world) {
	return func(w *world) {
		settled(w)
		for i := range w.facts.Pods {
			w.facts.Pods[i].Presence = presence
		}
	}
}

// jobEnds has a job end.
func jobEnds(name string, phase platformv1.OperationPhase, message string) func(*world) {
	return func(w *world) { *w.jobs[name] = JobState{Phase: phase, Message: message} }
}

// jobStories are those of steps that run a pod to completion.
var jobStories = map[string]func() *world{
	"job": func() *world {
		w := worldOf(counting, pod(0, primary))
		for _, point := range []crashPoint{crashBeforeWrite, crashAfterWrite, crashAfterCall} {
			w.happens("A controller starts.", func(w *world) { w.crash = point })
		}
		w.happens("A controller starts.", nil)
		w.happens("Its pod cannot start yet.", func(w *world) { w.jobs["run-count"].Message = "ErrImagePull: no such image" })
		w.happens("It has ended, and the controller dies before it records that.", func(w *world) {
			jobEnds("run-count", platformv1.OperationSucceeded, "keys=42\n")(w)
			w.crash = crashBeforeWrite
		})
		w.happens("A controller starts, and dies before it removes the job.", func(w *world) { w.crash = crashAfterWrite })
		w.happens("A controller starts, and dies when the job is removed.", func(w *world) { w.crash = crashAfterCall })
		w.happens("A controller starts.", nil)
		return w
	},
	"job-fails-twice": func() *world {
		w := worldOf(counting, pod(0, primary))
		w.happens("The Operation starts.", nil)
		w.happens("The job fails.", jobEnds("run-count", platformv1.OperationFailed, "exit code 1: no\nconnection"))
		w.happens("3 s later.", wait(3*time.Second))
		w.happens("What it says is not as declared.", jobEnds("run-count-try2", platformv1.OperationSucceeded, "keys=many"))
		return w
	},
	"job-with-the-writers-volumes": func() *world {
		w := convertingWorld()
		w.happens("It is stopped, and a pod is still there.", all(PodGoing))
		w.happens("All pods are gone.", all(PodAbsent))
		w.happens("The job has ended.", jobEnds("run-convert", platformv1.OperationSucceeded, ""))
		w.happens("The version is there.", nil)
		return w
	},
	"job-with-volumes-fails": func() *world {
		w := convertingWorld()
		w.happens("All pods are gone.", all(PodAbsent))
		w.happens("The job fails.", jobEnds("run-convert", platformv1.OperationFailed, "exit code 1: no room"))
		w.happens("The former version is there.", nil)
		w.happens("It is Ready again.", nil)
		return w
	},
	"job-without-a-writer": func() *world {
		w := convertingWorld()
		w.happens("All pods are gone, and nobody is on record.", func(w *world) {
			all(PodAbsent)(w)
			w.records(func(r *platformv1.PrimaryRecord) { r.Member = nil })
		})
		w.happens("It is Ready again.", nil)
		return w
	},
	"job-deleted": func() *world {
		w := worldOf(counting, pod(0, primary))
		w.op.Spec.Retry, w.facts.Template.Steps[0].Retry = nil, nil
		w.happens("The Operation starts.", nil)
		w.happens("Somebody deletes the job.", func(w *world) { delete(w.jobs, "run-count") })
		return w
	},
	"job-cancelled": func() *world {
		w := worldOf(countingEach, pod(0, primary))
		w.happens("The Operation starts.", nil)
		w.happens("The first job has ended.", jobEnds("run-count-1", platformv1.OperationSucceeded, ""))
		w.happens("It is cancelled.", func(w *world) { w.op.Spec.Cancel = true })
		w.happens("The job is still there.", nil)
		w.happens("The job is gone.", func(w *world) { delete(w.jobs, "run-count-2") })
		return w
	},
}

// A Job says one thing in a few lines: those that are declared count, and each has to be there.
func TestJobOutputs(t *testing.T) {
	template, err := optemplate.Parse(counting)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ message, keys, says string }{
		"as declared": {"keys=3", "3", ""},
		"among more":  {"hello\nkeys=3\r\nother=x\n", "3", ""},
		"not said":    {"other=x", "", "there is no line keys=…"},
		"nothing":     {"", "", "there is no line keys=…"},
		"wrong":       {"keys=x", "", `output "keys" is "x": it must be a whole number`},
		"too long":    {"keys=" + strings.Repeat("1", 1025), "", "longer than 1024 characters"},
	} {
		outputs, err := jobOutputs(template.Steps[0].Job.Outputs, tc.message)
		switch {
		case tc.says == "" && (err != nil || len(outputs) != 1 || outputs["keys"] != tc.keys):
			t.Errorf("%s: %v, %v", name, outputs, err)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: %v; want %q", name, err, tc.says)
		}
	}
}
