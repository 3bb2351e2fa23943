// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cronjob

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	kubebatchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// lagging is a CronJob of a place whose caches can be held back.
func lagging(t *testing.T) (p *place, cj *batchv1.CronJob) {
	t.Helper()
	p = newPlace(t)
	p.transport = &testkit.Transport{}
	p.serve()
	t.Cleanup(p.transport.Release)
	cj = p.script("late", nil)
	p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	return p, cj
}

// hold has caches lack the next status of a CronJob, once so many runs were created, and all that comes after it.
func (p *place) hold(created int) {
	way := p.transport
	is := func(r *http.Request) bool {
		return r.Method == http.MethodPatch && testkit.ResourceOf(r) == "cronjobs" &&
			way.Requests(http.MethodPost, "operations") >= created
	}
	way.Before(func(r *http.Request) {
		if is(r) {
			way.Hold("cronjobs")
		}
	})
	way.After(func(r *http.Request, status int) {
		switch {
		case !is(r):
		case status < http.StatusBadRequest:
			way.Before(nil)
			way.After(nil)
		default:
			// It was decided on what the caches had before the test woke the controller.
			way.Release()
		}
	})
}

// deleteRun deletes the run of a time, which wakes the controller.
func (p *place) deleteRun(cj *batchv1.CronJob, n int) {
	p.Helper()
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: nameOf(cj, p.due(cj, n))}}
	if err := env.Client.Delete(p.Context(), op); err != nil {
		p.Fatal(err)
	}
	testkit.WaitGone(p, env.Client, op)
}

// isAsked waits until there was one more request of a method for CronJobs than so many, or another run was created.
func (p *place) isAsked(method string, before int) {
	p.Helper()
	testkit.Eventually(p, "a turn on the old version", func(context.Context) error {
		n := p.transport.Requests(method, "cronjobs")
		if n == before && p.transport.Requests(http.MethodPost, "operations") == 1 {
			return fmt.Errorf("there were %d requests before", n)
		}
		return nil
	})
}

// The cache has a CronJob as it was before a run was on record, which somebody deletes meanwhile: it is not created
// again.
func TestACacheOfBeforeARunCreatesNoOther(t *testing.T) {
	p, cj := lagging(t)
	p.hold(1)
	p.reach(1, cj)
	p.wantCounts(cj, 1, 0, 0, 0)
	before := p.transport.Requests(http.MethodGet, "cronjobs")
	p.deleteRun(cj, 1)
	p.isAsked(http.MethodGet, before)
	p.wantRuns(cj)
	p.transport.Release()
	p.wantCounts(cj, 1, 0, 1, 0)
	if n := p.transport.Requests(http.MethodPost, "operations"); n != 1 {
		t.Errorf("runs were created %d times", n)
	}
	p.wantRuns(cj)
}

// The cache has a CronJob as it was before the end of a run was counted, and the run is gone by now: it does not count
// as one that somebody deleted.
func TestACacheOfBeforeTheEndOfARunCountsNothing(t *testing.T) {
	p, cj := lagging(t)
	p.reach(1, cj)
	p.wantCounts(cj, 1, 0, 0, 0)
	p.job(cj, 1)
	p.hold(1)
	p.finish(cj, 1, kubebatchv1.JobComplete)
	p.wantCounts(cj, 1, 1, 0, 0)
	recorded, before := cj.ResourceVersion, p.transport.Requests(http.MethodPatch, "cronjobs")
	p.deleteRun(cj, 1)
	p.isAsked(http.MethodPatch, before)
	p.wantCounts(cj, 1, 1, 0, 0)
	if cj.ResourceVersion != recorded {
		t.Errorf("on the old version it wrote %+v", cj.Status)
	}
	p.transport.Release()
	p.reach(2, cj)
	p.wantCounts(cj, 2, 1, 0, 0)
	p.wantRuns(cj, 2)
}
