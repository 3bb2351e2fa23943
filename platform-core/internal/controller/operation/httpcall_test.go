// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// serving is a server until the test ends. What goes wrong with its connections is for the caller to say.
func serving(t *testing.T, start func(*httptest.Server), handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	t.Cleanup(server.Close)
	return server
}

// caller is a controller whose calls all reach one server.
func caller(t *testing.T, server *httptest.Server, objects ...client.Object) *Controller {
	t.Helper()
	scheme := testkit.Scheme(t, corev1.AddToScheme)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	return &Controller{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		calls: newCalls(dial)}
}

// answered makes a call and returns what came of it.
func answered(t *testing.T, c *Controller, wanted *opsflow.HTTPCall) *opsflow.Answer {
	t.Helper()
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "call"}}
	look := func() *opsflow.Answer {
		answer, err := c.http(t.Context(), op, &opsflow.Effect{Key: "call", HTTP: wanted})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if answer := look(); answer.Failure != opsflow.FailureUnreachable {
		return answer
	}
	<-c.calls.ended
	return look()
}

// get is a call of a path that may take a minute.
func get(url string) *opsflow.HTTPCall {
	return &opsflow.HTTPCall{Method: http.MethodGet, URL: url, Within: time.Minute}
}

func TestCallEndsWhenItsTimeIsOver(t *testing.T) {
	server := serving(t, (*httptest.Server).Start, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	call := get("http://service.shop/")
	call.Within = 10 * time.Millisecond
	answer := answered(t, caller(t, server), call)
	if answer.Failure != opsflow.FailureRefused ||
		answer.Problem != "the call failed: there was no answer within 10ms" {
		t.Errorf("the answer is %+v", answer)
	}
}

func TestAnswersThatAreCutOffOrTooLong(t *testing.T) {
	for title, c := range map[string]struct {
		declared string
		length   int
		want     string
	}{
		"cut off": {"10", 9, "the answer was cut off: unexpected EOF"},
		"longest": {"", longestResponse, ""},
		"longer":  {"", longestResponse + 1, "the answer has more than 1048576 bytes"},
	} {
		t.Run(title, func(t *testing.T) {
			server := serving(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
				if c.declared != "" {
					w.Header().Set("Content-Length", c.declared)
				}
				_, _ = io.WriteString(w, strings.Repeat("x", c.length))
			})
			answer := answered(t, caller(t, server), get("http://service.shop/"))
			if answer.Problem != c.want || c.want == "" && (answer.HTTP == nil || len(answer.HTTP.Body) != c.length) {
				t.Errorf("the problem is %q, want %q", answer.Problem, c.want)
			}
		})
	}
}

// A redirect is not followed: what a step may call is in its template alone.
func TestRedirectIsAnAnswer(t *testing.T) {
	calls := &atomic.Int32{}
	server := serving(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, "/new", http.StatusFound)
	})
	answer := answered(t, caller(t, server), get("http://service.shop/old"))
	if answer.HTTP == nil || answer.HTTP.Status != http.StatusFound || answer.HTTP.Headers["Location"] != "/new" ||
		calls.Load() != 1 {
		t.Errorf("after %d calls the answer is %+v", calls.Load(), answer)
	}
}

// The certificate of a server is checked against those that the step names, and against no others.
func TestAuthorityOfACall(t *testing.T) {
	server := serving(t, (*httptest.Server).StartTLS, func(http.ResponseWriter, *http.Request) {})
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	authorities := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ca"},
		Data: map[string]string{"own": string(own), "other": string(testagents.Authority(t, "batch").Bundle()),
			"text": "no certificate"}}
	const unknown = "certificate signed by unknown authority"
	for title, c := range map[string]struct {
		url  string
		from *optemplate.KeyReference
		want string
	}{
		"own":           {"https://example.com/", &optemplate.KeyReference{Name: "ca", Key: "own"}, ""},
		"another name":  {"https://service.shop/", &optemplate.KeyReference{Name: "ca", Key: "own"}, "not service.shop"},
		"other":         {"https://example.com/", &optemplate.KeyReference{Name: "ca", Key: "other"}, unknown},
		"of the system": {"https://example.com/", nil, unknown},
		"no PEM": {"https://example.com/", &optemplate.KeyReference{Name: "ca", Key: "text"},
			`key "text" of ConfigMap "ca" has no certificates in PEM`},
		"no key": {"https://example.com/", &optemplate.KeyReference{Name: "ca", Key: "none"},
			`ConfigMap "ca" has no key "none"`},
		"no ConfigMap": {"https://example.com/", &optemplate.KeyReference{Name: "none", Key: "own"},
			`cannot read ConfigMap "none"`},
	} {
		t.Run(title, func(t *testing.T) {
			call := get(c.url)
			call.Authority = c.from
			answer := answered(t, caller(t, server, authorities.DeepCopy()), call)
			switch {
			case c.want == "" && (answer.HTTP == nil || answer.HTTP.Status != http.StatusOK):
				t.Errorf("the answer is %+v", answer)
			case c.want != "" && (answer.Failure != opsflow.FailureRefused || !strings.Contains(answer.Problem, c.want)):
				t.Errorf("the answer is %+v, want one with %q", answer, c.want)
			}
		})
	}
}

// Of a step that makes many calls only those are remembered that are not on record: their answers may be large, and the
// next attempt of an item is another call, whatever the items are called.
func TestCallsAreForgottenOnceTheyAreOnRecord(t *testing.T) {
	server := serving(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, "ok")
	})
	c := caller(t, server)
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "call", UID: "1"}}
	op.Status.Steps = []platformv1.StepStatus{{Name: "all", Phase: platformv1.OperationRunning, Attempts: 1,
		Targets: []platformv1.StepTarget{{Name: "a", Phase: platformv1.OperationRunning},
			{Name: "a/2", Phase: platformv1.OperationRunning}, {Name: "b", Phase: platformv1.OperationRunning}}},
		{Name: "one", Phase: platformv1.OperationRunning, Attempts: 2}}
	keys := []string{"1/all/a", "1/all/a/2", "1/one/2", "1/all/b"}
	for i, key := range keys {
		call := get("http://service.shop/")
		if i == len(keys)-1 {
			call = get("http://service.shop/slow")
		}
		if _, err := c.http(t.Context(), op, &opsflow.Effect{Key: key, HTTP: call}); err != nil {
			t.Fatal(err)
		}
	}
	for range len(keys) - 1 {
		<-c.calls.ended
	}
	known := func() string {
		var known []string
		for _, key := range keys {
			if _, made := c.calls.find(client.ObjectKeyFromObject(op), key); made {
				known = append(known, key)
			}
		}
		return strings.Join(known, " ")
	}
	c.calls.retain(op)
	if got, want := known(), strings.Join(keys, " "); got != want {
		t.Errorf("while all are under way it knows %q, want %q", got, want)
	}
	targets := op.Status.Steps[0].Targets
	targets[1].Phase, targets[2].Phase = platformv1.OperationSucceeded, platformv1.OperationFailed
	c.calls.retain(op)
	if got, want := known(), "1/all/a 1/one/2"; got != want {
		t.Errorf("once two are on record it knows %q, want %q", got, want)
	}
	// The call that nobody waits for any more has ended.
	<-c.calls.ended
	op.Status.Steps[0].Phase, op.Status.Steps[1].Attempts = platformv1.OperationPending, 3
	c.calls.retain(op)
	if got := known(); got != "" {
		t.Errorf("between attempts it knows %q", got)
	}
}
