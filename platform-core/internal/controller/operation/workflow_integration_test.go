// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// service is a server that tasks call. The first call of /busy fails, and every one of /broken.
type service struct {
	mu    sync.Mutex
	calls []string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := slices.Contains(s.calls, r.URL.Path)
	s.calls = append(s.calls, r.URL.Path)
	switch {
	case r.URL.Path == "/broken", r.URL.Path == "/busy" && !again:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	default:
		_, _ = fmt.Fprint(w, `{"id": "7", "many": 12}`)
	}
}

// sorted are the paths that were called, each as often as it was.
func (s *service) sorted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(s.calls)), " ")
}

// The template is what the batch operator makes of a Workflow with seven tasks and two of onExit. The controller ends
// while somebody has to approve.
func TestTasksOfAWorkflow(t *testing.T) {
	text, err := os.ReadFile("../../../../batch-operator/internal/taskgraph/testdata/calls.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	f := newFixture(t, 0)
	f.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	able := f.account()
	stop := f.controller(nil)
	op := f.inline("calls", string(text), able)
	f.waitPhase(op, platformv1.OperationAwaitingApproval)
	stop()
	f.controller(nil)
	before := op.DeepCopy()
	op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
	if err := f.person("bob").Patch(t.Context(), op, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	f.waitPhase(op, platformv1.OperationFailed)
	var phases []string
	for _, step := range op.Status.Steps {
		phases = append(phases, fmt.Sprintf("%s=%s", step.Name, step.Phase))
	}
	want := "ask=Succeeded fan=Succeeded few=Skipped many=Succeeded release=Succeeded broken=Failed after=Skipped " +
		"alarm=Succeeded thanks=Skipped"
	if got := strings.Join(phases, " "); got != want ||
		!strings.Contains(op.Status.Error, `step "broken" failed: the server answered with status 503: not now`) {
		t.Errorf("it ended with %s and the error %q", got, op.Status.Error)
	}
	if got := s.sorted(); got != "/alarm/Failed /broken /busy /busy /item/a /item/b /item/c /item/d /many/7" {
		t.Errorf("the calls are %s", got)
	}
}
