// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// What an action that runs says of how far it is, is what its Operation waits for.
func TestAnActionThatRunsSaysHowFarItIs(t *testing.T) {
	step := &optemplate.Step{Agent: &optemplate.AgentStep{Action: "reassign"}}
	for message, want := range map[string]string{
		"":              "the reassign of pod kafka-0",
		"9 of 20 to go": "the reassign of pod kafka-0 (9 of 20 to go)",
	} {
		v := agentStep{}.acted(nil, step, nil, &Pod{Name: "kafka-0"},
			&Answer{Call: report.Call{Phase: report.CallRunning, Message: message}})
		if v.waiting != want || v.retry != actionPoll {
			t.Errorf("with %q it waits for %q, want %q", message, v.waiting, want)
		}
	}
}

// A step that acts on one pod takes one that is well: the first may be the very one that something is wrong with.
func TestOnePodIsOneThatIsWell(t *testing.T) {
	well := func(name string) Pod {
		return Pod{Name: name, Presence: PodRunning, Ready: metav1.ConditionTrue,
			Report: report.Report{Health: report.Healthy}}
	}
	broken := Pod{Name: "kafka-0", Presence: PodRunning, Report: report.Report{Health: report.Unhealthy}}
	for name, test := range map[string]struct {
		pods []Pod
		want string
	}{
		"all are well":         {[]Pod{well("kafka-0"), well("kafka-1")}, "kafka-0"},
		"the first is broken":  {[]Pod{broken, well("kafka-1"), well("kafka-2")}, "kafka-1"},
		"the first is away":    {[]Pod{{Name: "kafka-0", Presence: PodAbsent}, well("kafka-1")}, "kafka-1"},
		"there is but one":     {[]Pod{broken}, "kafka-0"},
		"there is none at all": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, pod := range oneOf(test.pods) {
				got += pod.Name
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Another attempt of an action is for the pod that has the name now: no attempt could end well in one that is gone.
func TestAnActionIsTriedAgainInThePodThatTookOver(t *testing.T) {
	w := actingWorld()
	w.happens("The Operation starts.", nil)
	w.happens("The pod is replaced.", func(w *world) { w.replace(0) })
	step := &w.op.Status.Steps[0]
	if step.Phase != platformv1.OperationPending || step.NextAttemptTime == nil {
		t.Fatalf("no other attempt is made: %s", w.story.String())
	}
	w.happens("It is time for the next attempt.", wait(time.Minute))
	step = &w.op.Status.Steps[0]
	if uid := w.at(0).UID; step.Phase != platformv1.OperationRunning || step.Targets[0].UID != uid {
		t.Fatalf("the attempt is not for pod %s: %s", uid, w.story.String())
	}
	w.happens("It has ended well.", func(w *world) { w.done(0) })
	if phase := w.op.Status.Steps[0].Phase; phase != platformv1.OperationSucceeded {
		t.Errorf("it is %s: %s", phase, w.story.String())
	}
}
