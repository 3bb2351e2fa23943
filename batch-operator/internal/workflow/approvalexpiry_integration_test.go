// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// An approval that is not given in time fails its task: what depends on that is skipped, and onExit runs. One of two
// users who are asked does not have it wait any longer.
func TestApprovalOfAWorkflowExpires(t *testing.T) {
	b := newBench(t)
	serve(t)
	const steps = `
author: ada
tasks:
  - {name: ask, timeout: 8s, APPROVAL}
  - {name: publish, dependsOn: [{name: ask}], http: {url: 'http://x'}}
onExit:
  - {name: end, after: Failed, apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}}'}}
`
	run := func(name, approval string) *batchv1.Workflow {
		return b.run(name, strings.NewReplacer("APPROVAL", approval, "NAME", name).Replace(steps))
	}
	alone, two := run("alone", "approval: {reason: go on}"), run("two", "approval: {reason: go on, approvals: 2}")
	b.reaches(two, batchv1.WorkflowAwaitingApproval, "2 users other than ada to approve, 0 of whom have: go on")
	op := &platformv1.Operation{}
	key := client.ObjectKey{Namespace: b.namespace, Name: two.Status.Operation}
	if err := env.Client.Get(t.Context(), key, op); err != nil {
		t.Fatal(err)
	}
	before := op.DeepCopy()
	op.Spec.Approvals = map[string]platformv1.OperationDecision{"bob": platformv1.OperationApproved}
	testkit.Refused(t, b.person("bob").Patch(t.Context(), op, client.MergeFrom(before)), "")
	b.reaches(alone, batchv1.WorkflowFailed,
		`task "ask" is not done within 8s: it waited for somebody else than ada to approve: go on`)
	b.reaches(two, batchv1.WorkflowFailed,
		`task "ask" is not done within 8s: it waited for 2 users other than ada to approve, 1 of whom have: go on`)
	for _, wf := range []*batchv1.Workflow{alone, two} {
		if got := tasks(wf); got != "ask=Failed publish=Skipped end=Succeeded" || wf.Status.Tasks[0].Attempts != 1 {
			t.Errorf("the tasks of %q are %s: %+v", wf.Name, got, wf.Status.Tasks[0])
		}
	}
}
