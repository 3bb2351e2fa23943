// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const asideTemplate = `name: Aside
steps:
  - name: ask
    needs: []
    approval: {message: go on}
  - name: note
    needs: []
    when: int(parameters.notes) > 0
    retry: {limit: 2, backoff: 1s}
    onFailure: Continue
    compensate: [forget]
    apply: {apiVersion: v1, kind: ConfigMap, name: note, content: {data: {a: b}}}
  - name: restart
    needs: [note]
    when: int(parameters.notes) > 1
    agent: {call: Restart}
  - name: last
    needs: [ask, restart]
    apply: {apiVersion: v1, kind: ConfigMap, name: last}
  - name: forget
    delete: {apiVersion: v1, kind: ConfigMap, name: note}
parameters: {notes: {schema: string, default: "0"}}
`

// One that stands aside lets others run, and ends at once when it is cancelled, without the steps that compensate: so
// it must have done nothing, whatever went on beside the approval.
func TestOneThatStandsAsideHasDoneNothing(t *testing.T) {
	aside, not := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 11))
		w := worldOf(asideTemplate, pod(0, primary), pod(1, reader))
		w.op.Spec.Author = "ada"
		w.op.Spec.Timeout = &metav1.Duration{Duration: time.Hour}
		w.facts.Parameters["notes"] = fmt.Sprint(seed % 3)
		bad := func() bool { return rng.IntN(10) < int(seed%5) }
		for round := 0; round < 40 && !Finished(w.op); round++ {
			w.crash = []crashPoint{crashNever, crashNever, crashBeforeWrite, crashAfterWrite, crashAfterCall}[rng.IntN(5)]
			w.happens("Something happens.", func(w *world) { w.happen(rng, bad) })
			touched := len(w.children) > 0 || w.objects["ConfigMap note"] != nil || w.objects["ConfigMap last"] != nil
			for _, agent := range w.agents {
				touched = touched || len(agent.records) > 0
			}
			switch {
			case StandsAside(w.op) && touched:
				t.Fatalf("seed %d stands aside and has done something:\n%s", seed, w.story.String())
			case StandsAside(w.op):
				aside++
			case touched:
				not++
			}
		}
	}
	if aside == 0 || not == 0 {
		t.Errorf("%d turns stood aside, %d had done something: the histories show too little", aside, not)
	}
}

// What a wait takes from an object is kept on record, so it is not to be large.
func TestOutputsOfAWaitAreBounded(t *testing.T) {
	const template = "name: Take\nsteps:\n  - {name: take, wait: {apiVersion: v1, kind: ConfigMap, name: answer, until: " +
		"'true', outputs: {who: object.who}}}\n"
	for length, failed := range map[int]string{
		maxOutput: "",
		maxOutput + 1: `output "who" of step "take" has 4097 bytes: at most 4096 are kept on record; let its expression ` +
			`give a part of that`,
	} {
		w := worldOf(template)
		w.objects["ConfigMap answer"] = map[string]any{"who": strings.Repeat("x", length)}
		for round := 0; round < 3 && !Finished(w.op); round++ {
			w.happens("A round.", func(*world) {})
		}
		if !Finished(w.op) || w.op.Status.Error != failed {
			t.Errorf("%d bytes: it is %s: %s", length, w.op.Status.Phase, w.op.Status.Error)
		}
	}
}
