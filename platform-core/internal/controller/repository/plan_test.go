// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/stores"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func said(ready metav1.ConditionStatus, digest string) *platformv1.RepositoryState {
	at := metav1.NewTime(epoch)
	return &platformv1.RepositoryState{Domain: "database", Ready: ready, Reason: "Said", Checked: digest, LastChecked: &at}
}

// check is a Job that was made when the last result was of so long after the epoch.
func check(phase platformv1.OperationPhase, text string, last time.Duration) *jobstate.State {
	at := metav1.NewTime(epoch.Add(last))
	return &jobstate.State{UID: "uid", Follows: follows(&at), Phase: phase, Said: text, Message: text}
}

func TestNext(t *testing.T) {
	repository := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	free := check(platformv1.OperationSucceeded, `{"freeBytes":7}`, 0)
	for name, tc := range map[string]struct {
		before *platformv1.RepositoryState
		facts  facts
		ready  metav1.ConditionStatus
		verb   verb
		again  bool
		says   string
	}{
		"new": {nil, facts{digest: "a"}, metav1.ConditionUnknown, makeCheck, false, "being checked"},
		"no Secret": {nil, facts{lack: stores.Lack{Reason: "SecretNotFound", Message: "create it"}},
			metav1.ConditionFalse, "", true, "create it"},
		"checked and ready": {said(metav1.ConditionTrue, "a"), facts{digest: "a"}, metav1.ConditionTrue, "", false,
			""},
		"a Backup has failed": {said(metav1.ConditionTrue, "a"), facts{digest: "a", doubted: epoch.Add(time.Second)},
			metav1.ConditionTrue, makeCheck, false, ""},
		"it is not ready any more": {said(metav1.ConditionTrue, "a"),
			facts{digest: "a", check: check(platformv1.OperationFailed,
				`{"reason":"RepositoryUnreachable","message":"no answer"}`, 0)}, metav1.ConditionFalse, removeCheck, true,
			"no answer"},
		"another spec": {said(metav1.ConditionTrue, "a"), facts{digest: "b"}, metav1.ConditionUnknown,
			makeCheck, false, ""},
		"not ready a moment ago": {said(metav1.ConditionFalse, "a"), facts{digest: "a"}, metav1.ConditionFalse, "", true,
			""},
		"not ready a while ago": {said(metav1.ConditionFalse, "a"), facts{digest: "a", now: epoch.Add(retry)},
			metav1.ConditionFalse, makeCheck, false, ""},
		"under way": {said(metav1.ConditionUnknown, "a"),
			facts{digest: "a", check: check(platformv1.OperationRunning, "ErrImagePull", 0)}, metav1.ConditionUnknown, "", false,
			"ErrImagePull"},
		"under way again": {said(metav1.ConditionFalse, "a"),
			facts{digest: "a", check: check(platformv1.OperationRunning, "", 0)}, metav1.ConditionFalse, "", false, ""},
		"it is ready": {said(metav1.ConditionUnknown, "a"), facts{digest: "a", check: free},
			metav1.ConditionTrue, removeCheck, false, "write, read and delete"},
		"refused": {said(metav1.ConditionUnknown, "a"),
			facts{digest: "a", check: check(platformv1.OperationFailed,
				`{"reason":"RepositoryRefused","message":"no such bucket"}`, 0)}, metav1.ConditionFalse, removeCheck, true,
			"no such bucket"},
		"nobody knows": {said(metav1.ConditionUnknown, "a"),
			facts{digest: "a", check: check(platformv1.OperationFailed, "", 0)}, metav1.ConditionFalse, removeCheck, true,
			"without a result"},
		"on record, the Job is left": {said(metav1.ConditionTrue, "a"),
			facts{digest: "a", check: check(platformv1.OperationSucceeded, `{}`, -time.Second)}, metav1.ConditionTrue,
			removeCheck, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.domain = "database"
			if tc.facts.now.IsZero() {
				tc.facts.now = epoch.Add(2 * time.Second)
			}
			d := next(repository, tc.before, tc.facts)
			if d.state.Ready != tc.ready || d.verb != tc.verb || d.after > 0 != tc.again ||
				!strings.Contains(d.state.Message, tc.says) {
				t.Errorf("it is %+v, does %q, looks again after %s", d.state, d.verb, d.after)
			}
		})
	}
	if d := next(repository, said(metav1.ConditionUnknown, "a"),
		facts{digest: "a", now: epoch, check: free}); d.state.FreeBytes == nil || *d.state.FreeBytes != 7 ||
		d.state.ObservedGeneration != 3 {
		t.Errorf("it says %+v", d.state)
	}
}
