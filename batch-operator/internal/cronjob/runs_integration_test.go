// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cronjob

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// receiver is a real HTTP server that answers with the codes that it is given, and then with 200.
type receiver struct {
	mu    sync.Mutex
	calls []string
	codes []int
}

// newReceiver starts a server that every call of the place reaches.
func newReceiver(t *testing.T, p *place, codes ...int) *receiver {
	r := &receiver{codes: codes}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		r.calls = append(r.calls, fmt.Sprintf("%s %s %s %s", request.Method, request.URL.Path, request.Header.Get("X-Key"),
			body))
		if len(r.codes) > 0 {
			w.WriteHeader(r.codes[0])
			r.codes = r.codes[1:]
		}
		_, _ = io.WriteString(w, `{"state": "ok"}`) // The one who calls says what is wrong.
	}))
	t.Cleanup(server.Close)
	p.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	return r
}

func (r *receiver) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// call is a CronJob whose runs call the server.
func (p *place) call(name string, change func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	p.Helper()
	return p.script(name, func(s *batchv1.CronJobSpec) {
		s.ServiceAccountName = ""
		s.Task = batchv1.Task{HTTP: &batchv1.HTTPTask{
			Method: "POST", URL: "http://service.shop/reports", Body: `${parameters.scheduledTime}`,
			Check:   `response.json.state == "ok"`,
			Headers: []batchv1.HTTPHeader{{Name: "X-Key", Value: "${parameters.idempotencyKey}"}},
		}}
		change(s)
	})
}

// A run on request comes at once, also of a suspended CronJob, and once for each value of the annotation. History keeps
// the newest.
func TestRunsOnRequestCallAServer(t *testing.T) {
	p := newPlace(t)
	server := newReceiver(t, p)
	p.serve()
	one := int32(1)
	cj := p.call("tell", func(s *batchv1.CronJobSpec) { s.Suspend, s.History.Succeeded = true, &one })
	p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	var keys []string
	for i, token := range []string{"first", "second"} {
		p.annotate(cj, batchv1.RunAnnotation, token)
		p.wantCounts(cj, int64(i+1), int64(i+1), 0, 0)
		p.annotate(cj, "test/wake", token)
		keys = append(keys, string(cj.UID)+"/run/"+token)
	}
	testkit.Eventually(t, "one run is kept", func(context.Context) error {
		// Of two that ended within a second either is the newest.
		if got := p.runs(cj); len(got) != 1 {
			return fmt.Errorf("the runs are %v", got)
		}
		return nil
	})
	calls := server.received()
	if len(calls) != 2 {
		t.Fatalf("the calls are %q", calls)
	}
	for i, call := range calls {
		if want := "POST /reports " + keys[i] + " "; !strings.HasPrefix(call, want) {
			t.Errorf("call %d is %q, want one with %q", i, call, want)
		}
	}
	if cj.Status.LastManualRun != "second" || cj.Status.LastTime != nil {
		t.Errorf("the status is %+v", cj.Status)
	}
}

func TestFailedRunIsTriedAgainAndTold(t *testing.T) {
	p := newPlace(t)
	server := newReceiver(t, p, http.StatusServiceUnavailable, http.StatusOK, http.StatusTeapot)
	p.serve()
	cj := p.call("retry", func(s *batchv1.CronJobSpec) {
		s.Retry = &platformv1.OperationRetry{Limit: 1, Backoff: &metav1.Duration{Duration: time.Millisecond}}
	})
	p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	p.reach(1, cj)
	p.wantCounts(cj, 1, 1, 0, 0)
	call := fmt.Sprintf("POST /reports %[1]s/%[2]s %[2]s", cj.UID, year(1).Format(time.RFC3339))
	if got := server.received(); !slices.Equal(got, []string{call, call}) {
		t.Errorf("the calls are %q, want %q twice", got, call)
	}
	p.edit(cj, func() { cj.Spec.Retry = nil })
	p.reach(2, cj)
	p.wantCounts(cj, 2, 1, 1, 0)
	if f := cj.Status.LastFailure; f.Operation != nameOf(cj, year(2)) || !strings.Contains(f.Reason, "418") {
		t.Errorf("the last failure is %+v", f)
	}
	p.says(cj, batchv1.LastRunSucceededCondition, platformv1.ReasonOperationFailed, "418")
}

// A run that takes longer than activeDeadline fails.
func TestActiveDeadlineEndsARun(t *testing.T) {
	p := newPlace(t)
	env.Controllers(t, testkit.GarbageCollector)
	p.serve()
	cj := p.script("slow", func(s *batchv1.CronJobSpec) { s.ActiveDeadline = &metav1.Duration{Duration: time.Second} })
	p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	p.reach(1, cj)
	p.wantCounts(cj, 1, 0, 1, 0)
	if f := cj.Status.LastFailure; !strings.Contains(f.Reason, "1s") {
		t.Errorf("the last failure is %+v", f)
	}
}

// A task has the rights of an account, and so is written only by who could act as it. To suspend it takes no such
// right.
func TestOnlyWhoMayActAsTheAccountWritesTheTask(t *testing.T) {
	p := newPlace(t)
	edits := rbacv1.PolicyRule{APIGroups: []string{batchv1.GroupVersion.Group}, Resources: []string{"cronjobs"},
		Verbs: []string{"create", "get", "update"}}
	ada := env.User(t, p.namespace, "ada", edits, rbacv1.PolicyRule{APIGroups: []string{""},
		Resources: []string{"serviceaccounts"}, ResourceNames: []string{"worker"}, Verbs: []string{"impersonate"}})
	bob := env.User(t, p.namespace, "bob", edits)
	made := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "lent"},
		Spec: batchv1.CronJobSpec{
			Schedules: []string{yearly}, TimeZone: "UTC", ServiceAccountName: "worker",
			Task: batchv1.Task{HTTP: &batchv1.HTTPTask{URL: "http://a"}},
		}}
	refused := func(what string, err error) {
		t.Helper()
		if want := "user 'bob' may not have a task run as ServiceAccount 'worker'"; !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", what, err, want)
		}
	}
	testkit.Eventually(t, "ada creates it", func(ctx context.Context) error { return ada.Create(ctx, made) })
	testkit.Eventually(t, "bob reads it",
		func(ctx context.Context) error { return bob.Get(ctx, client.ObjectKeyFromObject(made), made) })
	other := made.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Namespace: p.namespace, Name: "other"}
	refused("another one", bob.Create(t.Context(), other))
	changed := made.DeepCopy()
	changed.Spec.Task.HTTP.URL = "http://b"
	refused("another task", bob.Update(t.Context(), changed))
	other.Spec.ServiceAccountName = ""
	if err := bob.Create(t.Context(), other); err != nil {
		t.Errorf("without an account: %v", err)
	}
	other.Spec.ServiceAccountName = "worker"
	refused("another account", bob.Update(t.Context(), other))
	made.Spec.Suspend = true
	if err := bob.Update(t.Context(), made); err != nil {
		t.Errorf("to suspend it: %v", err)
	}
}
