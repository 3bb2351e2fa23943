// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"strings"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// takeTurns has three runs wait for the mutex of a fourth one. They begin by their priority, one after the other.
func takeTurns(p *place) {
	holder := p.workflow("turn-holder", `
synchronization: {mutexes: [{name: turn}]}
tasks: [{name: work, wait: {apiVersion: v1, kind: ConfigMap, name: turn, until: 'has(object.metadata)'}}]
`)
	p.phase(holder, batchv1.WorkflowRunning)
	turn := func(name, priority string) *batchv1.Workflow {
		return p.workflow("turn-"+name, `
synchronization: {mutexes: [{name: turn}], priority: `+priority+`}
tasks: [{name: work, script: {`+shell+`, source: sleep 2}}]
`)
	}
	low, high, mid := turn("low", "-1"), turn("high", "5"), turn("mid", "0")
	for _, wf := range []*batchv1.Workflow{low, high, mid} {
		p.Eventually(framework.ReadyTimeout, wf.Name+" waits", func() error {
			p.MustGet(wf.Name, wf)
			held := `waiting for mutex "turn", held by Operation "` + holder.Status.Operation + `"`
			return expect(strings.HasPrefix(wf.Status.Message, held), wf.Status)
		})
	}
	p.Create(configMapOf("turn", nil))
	order := []*batchv1.Workflow{holder, high, mid, low}
	for _, wf := range order {
		p.ended(wf, batchv1.WorkflowSucceeded)
	}
	for i := 1; i < len(order); i++ {
		before, after := p.task(order[i-1], "work"), p.task(order[i], "work")
		if after.StartTime.Before(before.CompletionTime) {
			p.Errorf("%s began at %s, before %s ended at %s", order[i].Name, after.StartTime, order[i-1].Name,
				before.CompletionTime)
		}
	}
}
