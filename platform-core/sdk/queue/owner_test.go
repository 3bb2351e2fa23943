// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// noted is a queue that only notes how requests come.
type noted struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	last priorityqueue.AddOpts
}

func (n *noted) AddWithOpts(o priorityqueue.AddOpts, _ ...reconcile.Request) { n.last = o }

func TestBegunComesBeforeNew(t *testing.T) {
	n := &noted{}
	q := begun(n, settleTime)
	q.Add(reconcile.Request{})
	if n.last.After != settleTime || n.last.Priority == nil || *n.last.Priority <= 0 {
		t.Errorf("a request comes with %+v", n.last)
	}
	q.(gathering).AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority), After: time.Minute},
		reconcile.Request{})
	if n.last.After != time.Minute || *n.last.Priority != handler.LowPriority {
		t.Errorf("one that was there at the start comes with %+v", n.last)
	}
}

func TestPaced(t *testing.T) {
	said := func(outcomes ...outcome.Outcome) *platformv1.WorkloadSet {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		for _, o := range outcomes {
			conditions.Report(set, o, "")
		}
		return set
	}
	working := outcome.Waiting(platformv1.ReasonPodsNotReady, "1 of 3 ready")
	for what, test := range map[string]struct {
		child *platformv1.WorkloadSet
		wait  time.Duration
	}{
		"says nothing yet": {said(), gather},
		"is at work":       {said(working), gather},
		"is ready":         {said(working, outcome.Done()), 0},
		"is stalled":       {said(working, outcome.Stalled(platformv1.ReasonInvalidSpec, "mend it")), 0},
	} {
		n := &noted{}
		paced(test.child, n).Add(reconcile.Request{})
		if n.last.After != test.wait {
			t.Errorf("a child that %s waits %v, want %v", what, n.last.After, test.wait)
		}
	}
}
