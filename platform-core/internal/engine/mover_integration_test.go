// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// taint is what keeps the pods of movers from their node.
const taint = "untolerated taint {dedicated: db}"

// tainted has the scheduler find no node for the pod of a Job.
func tainted(t *testing.T, job *batchv1.Job) {
	t.Helper()
	testkit.Eventually(t, "the pod of Job "+job.Name, func(ctx context.Context) error {
		var list corev1.PodList
		named := client.MatchingLabels{batchv1.JobNameLabel: job.Name}
		if err := env.Client.List(ctx, &list, client.InNamespace(job.Namespace), named); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		waiting := list.Items[0].DeepCopy()
		waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 node(s) had " + taint + "."}}
		return env.Client.Status().Patch(ctx, waiting, client.MergeFrom(&list.Items[0]))
	})
}

// moverOf waits for the Job of a mover for a verb.
func (j *jobs) moverOf(t *testing.T, verb mover.Verb) (job *batchv1.Job) {
	t.Helper()
	testkit.Eventually(t, "a mover", func(context.Context) error {
		movers := j.verbs(t, verb)
		if len(movers) == 0 {
			return fmt.Errorf("there is none")
		}
		job = movers[0]
		return nil
	})
	return job
}

// A mover for whose pod there is no node does not keep other Operations waiting until its deadline: the Backup fails
// after minutes with the words of the scheduler, Kubernetes is told to end the Job, and the next Operation has its
// turn.
func TestAMoverThatDoesNotStartLetsOthersGo(t *testing.T) {
	app, played := kept(t)
	played.moves = neverBackedUp
	_, _, stop := run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	hours := func(s *platformv1.OperationSpec) { s.Timeout = &metav1.Duration{Duration: 6 * time.Hour} }
	slow := operate(t, app, "nightly", "Backup", hours, "repository", "store")
	job := played.moverOf(t, mover.VerbBackup)
	tainted(t, job)
	// Without a word of anybody it is told what the mover waits for.
	stop()
	_, _, stop = run(t, -1)
	testkit.WaitFor(t, env.Client, slow, "says what its mover waits for", func() error {
		if len(slow.Status.Steps) != 1 || !strings.Contains(slow.Status.Steps[0].Message, taint) {
			return fmt.Errorf("it says %+v", slow.Status.Steps)
		}
		return nil
	})
	next := operate(t, app, "next", "Restart", nil)
	ends(t, next, platformv1.OperationPending)
	stop()

	runAt(t, -1, func() time.Time { return time.Now().Add(jobstate.StartPatience + time.Minute) })
	testkit.WaitFor(t, env.Client, job, "is to end", func() error {
		if job.Spec.ActiveDeadlineSeconds == nil || *job.Spec.ActiveDeadlineSeconds != 1 {
			return fmt.Errorf("its deadline is %v", job.Spec.ActiveDeadlineSeconds)
		}
		return nil
	})
	// The controller of Jobs deletes the pod and says that the deadline is over.
	err := env.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(job.Namespace),
		client.MatchingLabels{batchv1.JobNameLabel: job.Name}, client.GracePeriodSeconds(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := env.EndJob(t.Context(), job, batchv1.JobFailed); err != nil {
		t.Fatal(err)
	}
	status := ends(t, slow, platformv1.OperationFailed)
	for _, want := range []string{"it was given up since its pod did not start within 5m0s: no node for pod", taint} {
		if !strings.Contains(status.Error, want) {
			t.Errorf("it says %q, want %q", status.Error, want)
		}
	}
	testkit.WaitFor(t, env.Client, next, "has its turn", func() error {
		if next.Status.Phase == "" || next.Status.Phase == platformv1.OperationPending {
			return fmt.Errorf("it is %s: %+v", next.Status.Phase, next.Status.Conditions)
		}
		return nil
	})
}
