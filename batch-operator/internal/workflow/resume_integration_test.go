// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	batchv1api "k8s.io/api/batch/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// The operator is killed, and its lease stays. The next one, which starts then, goes on once that has run out.
//
// WORKFLOW_RESUMES=10 has it be killed so often, and the next Job has to be there within a minute each time.
func TestNextOperatorGoesOnOnceTheLeaseHasRunOut(t *testing.T) {
	rounds, measured := size(t, "WORKFLOW_RESUMES", 1), os.Getenv("WORKFLOW_RESUMES") != ""
	b := newBench(t)
	tasks := []string{"tasks:", "- {name: t0, script: {image: 'example/tool:1', source: 'true'}}"}
	for n := 1; n <= rounds; n++ {
		tasks = append(tasks, fmt.Sprintf("- {name: t%d, dependsOn: [{name: t%d}], script: {image: 'example/tool:1', "+
			"source: 'true'}}", n, n-1))
	}
	operator := startAs(t, env.System)
	wf := b.run("chain", strings.Join(tasks, "\n"))
	for n := range rounds {
		job := b.job(wf, fmt.Sprintf("t%d", n))
		operator.die()
		killed := time.Now()
		if err := env.EndJob(t.Context(), job, batchv1api.JobComplete); err != nil {
			t.Fatal(err)
		}
		operator = startAs(t, env.System)
		b.job(wf, fmt.Sprintf("t%d", n+1))
		took := time.Since(killed)
		t.Logf("the next Job was there %s after the kill", took.Round(time.Millisecond))
		if measured && took > resumes {
			t.Errorf("the next Job was there %s after the kill, want at most %s", took, resumes)
		}
	}
	b.finish(wf, fmt.Sprintf("t%d", rounds), batchv1api.JobComplete)
	b.reaches(wf, batchv1.WorkflowSucceeded, "")
	if n := len(b.jobs()); n != rounds+1 {
		t.Errorf("there are %d Jobs, want %d", n, rounds+1)
	}
}
