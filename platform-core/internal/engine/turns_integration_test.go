// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// instancesDue is how many instances are to be backed up at once, and atOnce how many of them may be.
const instancesDue, atOnce = 50, 5

// berths are the movers that run, in the order in which they began; none ends by itself.
type berths struct {
	mu   sync.Mutex
	live []string
	// began are the names of all Backups that did; most is how many ran at a time.
	began []string
	most  int
}

func (b *berths) plays(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
	if p.Verb != mover.VerbBackup {
		return mover.Result{}, platformv1.OperationSucceeded
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live, b.began = append(b.live, p.Backup.Key), append(b.began, p.Backup.Key)
	b.most = max(b.most, len(b.live))
	return mover.Result{}, ""
}

// count is how many run, and how many have begun.
func (b *berths) count() (live, began int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.live), len(b.began)
}

// end has the mover end well that has run longest. It counts as gone before anybody can know.
func (b *berths) end(t *testing.T, played *jobs) {
	t.Helper()
	b.mu.Lock()
	key := b.live[0]
	b.live = b.live[1:]
	b.mu.Unlock()
	for _, job := range played.verbs(t, mover.VerbBackup) {
		if planOf(t, job.Spec.Template.Annotations).Backup.Key != key {
			continue
		}
		pod := &corev1.Pod{}
		if err := env.Client.Get(t.Context(),
			client.ObjectKey{Namespace: job.Namespace, Name: job.Name + "-" + string(job.UID)[:5]}, pod); err != nil {
			t.Fatal(err)
		}
		fresh := &batchv1.Job{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(job), fresh); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30})
		if err == nil {
			err = end(t.Context(), fresh, pod, 0, string(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no mover is of %s", key)
}

// inTurn are the Backups of a namespace in the order in which they were made.
func inTurn(t *testing.T, namespace string) []platformv1.Backup {
	t.Helper()
	var list platformv1.BackupList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b platformv1.Backup) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return list.Items
}

// Fifty instances that are due at once take turns of five: never more run, as soon as one has ended the next one
// begins, the oldest first, and all are backed up.
func TestManyBackupsTakeTurns(t *testing.T) {
	namespace, played := keeping(t)
	b := &berths{}
	played.moves = b.plays
	r := &platformv1.BackupRepository{}
	r.Namespace, r.Name = namespace, "store"
	if err := env.Client.Patch(t.Context(), r,
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"maxConcurrentBackups":%d}}`, atOnce))); err != nil {
		t.Fatal(err)
	}
	var apps []*platformv1.Application
	for i := range instancesDue {
		app := application(namespace)
		app.Name = fmt.Sprintf("redis-%02d", i)
		create(t, app)
		apps = append(apps, app)
	}
	run(t, -1)
	for _, app := range apps {
		testkit.WaitForReady(t, env.Client, app)
	}
	var asked []*platformv1.Operation
	for i, app := range apps {
		asked = append(asked, operate(t, app, fmt.Sprintf("due-%02d", i), "Backup", nil, "repository", "store"))
	}
	testkit.Eventually(t, "as many movers as may run, and Backups that wait", func(ctx context.Context) error {
		if live, _ := b.count(); live != atOnce || len(inTurn(t, namespace)) != instancesDue {
			return fmt.Errorf("%d run of %d", live, len(inTurn(t, namespace)))
		}
		return nil
	})
	var waiting []string
	for _, one := range inTurn(t, namespace) {
		if one.Status.Phase != platformv1.BackupRunning {
			waiting = append(waiting, platformv1.BackupKeyFor(&one))
		}
	}
	for ended := 1; ended <= instancesDue; ended++ {
		b.end(t, played)
		testkit.Eventually(t, "the next one", func(context.Context) error {
			if live, began := b.count(); live < min(atOnce, instancesDue-ended) {
				return fmt.Errorf("%d run, %d have begun, %d have ended", live, began, ended)
			}
			return nil
		})
	}
	for _, op := range asked {
		ends(t, op, platformv1.OperationSucceeded)
	}
	if b.most != atOnce || len(b.began) != instancesDue {
		t.Errorf("%d ran at a time, %d in all", b.most, len(b.began))
	}
	if got := b.began[instancesDue-len(waiting):]; !slices.Equal(got, waiting) {
		t.Errorf("they began in the order %v, and were made in the order %v", got, waiting)
	}
}
