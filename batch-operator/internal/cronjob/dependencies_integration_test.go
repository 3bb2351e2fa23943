// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cronjob

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// awaits waits until a CronJob says what its only time waits for.
func (p *place) awaits(cj *batchv1.CronJob, text string) {
	p.Helper()
	p.waits(cj, "waits for "+text, func(s batchv1.CronJobStatus) bool {
		return len(s.Waiting) == 1 && strings.HasSuffix(s.WaitingFor, " waits: "+text)
	})
}

// dependenciesAreValid waits until a CronJob says nothing of its dependencies.
func (p *place) dependenciesAreValid(cj *batchv1.CronJob) {
	p.Helper()
	p.waits(cj, "has valid dependencies", func(s batchv1.CronJobStatus) bool {
		return s.SettledTime != nil && conditions.Get(cj, batchv1.DependencyInvalidCondition) == nil
	})
}

// What a CronJob depends on that does not exist is named until it does, and what a time waits for is said at once.
func TestCronJobSaysWhatItDependsOnThatDoesNotExist(t *testing.T) {
	p := newPlace(t)
	p.serve()
	long := metav1.Duration{Duration: 8784 * time.Hour}
	cj := p.script("report", func(s *batchv1.CronJobSpec) {
		s.DependsOn = []batchv1.Dependency{{Name: "load", Within: &long, Timeout: &long},
			{Name: "import", Kind: batchv1.DependsOnWorkflow, Within: &long, Timeout: &long}}
	})
	p.says(cj, batchv1.DependencyInvalidCondition, platformv1.ReasonReferenceNotFound,
		`spec.dependsOn names CronJob "load", Workflow "import", which do not exist`)
	if !conditions.IsTrue(cj, platformv1.ReadyCondition) {
		t.Errorf("the conditions are %+v", cj.Status.Conditions)
	}
	p.reach(1, cj)
	p.awaits(cj, `CronJob "load", which it depends on, does not exist`)
	load := p.script("load", nil)
	p.says(cj, batchv1.DependencyInvalidCondition, platformv1.ReasonReferenceNotFound,
		`spec.dependsOn names Workflow "import", which does not exist`)
	p.awaits(cj, `CronJob "load", which it depends on, did not succeed within 8784h0m0s before`)
	p.create(&batchv1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "import"},
		Spec: batchv1.WorkflowSpec{Suspend: true, Tasks: []batchv1.WorkflowTask{{Name: "call",
			HTTP: &batchv1.HTTPTask{URL: "http://service.shop"}}}}})
	p.dependenciesAreValid(cj)
	if err := env.Client.Delete(t.Context(), load); err != nil {
		t.Fatal(err)
	}
	p.says(cj, batchv1.DependencyInvalidCondition, platformv1.ReasonReferenceNotFound,
		`spec.dependsOn names CronJob "load", which does not exist`)
	p.edit(cj, func() { cj.Spec.DependsOn = nil })
	p.wantCounts(cj, 1, 0, 0, 0)
	if s := cj.Status; s.WaitingFor != "" {
		t.Errorf("the status is %+v", s)
	}
	p.dependenciesAreValid(cj)
}

// Each CronJob of a cycle says so, and none once it is open again, whichever of them is edited.
func TestCronJobsOfACycleSaySo(t *testing.T) {
	p := newPlace(t)
	p.serve()
	long := metav1.Duration{Duration: time.Hour}
	on := func(name string) []batchv1.Dependency { return []batchv1.Dependency{{Name: name, Within: &long}} }
	first := p.script("first", func(s *batchv1.CronJobSpec) { s.DependsOn = on("second") })
	second := p.script("second", func(s *batchv1.CronJobSpec) { s.DependsOn = on("third") })
	third := p.script("third", nil)
	all := []*batchv1.CronJob{first, second, third}
	for _, cj := range all {
		p.dependenciesAreValid(cj)
	}
	p.edit(third, func() { third.Spec.DependsOn = on("first") })
	for i, path := range []string{"first depends on second depends on third depends on first",
		"second depends on third depends on first depends on second",
		"third depends on first depends on second depends on third"} {
		p.says(all[i], batchv1.DependencyInvalidCondition, batchv1.ReasonDependencyCycle, path)
		testkit.WaitForReady(t, env.Client, all[i])
	}
	p.edit(third, func() { third.Spec.DependsOn[0].Otherwise = batchv1.DependencyRun })
	for _, cj := range all {
		p.dependenciesAreValid(cj)
	}
}
