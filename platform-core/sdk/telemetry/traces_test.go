// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// receiver takes what is sent by OTLP.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

// Export implements the service.
func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.got <- request
	return &collector.ExportTraceServiceResponse{}, nil
}

// overGRPC and overHTTP start a receiver and return it and its endpoint.
func overGRPC(t *testing.T) (*receiver, string) {
	t.Helper()
	r := &receiver{got: make(chan *collector.ExportTraceServiceRequest, 16)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go func() { _ = server.Serve(listener) }() // It ends with the test.
	t.Cleanup(server.Stop)
	return r, "http://" + listener.Addr().String()
}

func overHTTP(t *testing.T) (*receiver, string) {
	t.Helper()
	r := &receiver{got: make(chan *collector.ExportTraceServiceRequest, 16)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		sent := &collector.ExportTraceServiceRequest{}
		if err != nil || request.URL.Path != "/v1/traces" || proto.Unmarshal(body, sent) != nil {
			t.Errorf("%s %s: %v", request.Method, request.URL, err)
		}
		r.got <- sent
	}))
	t.Cleanup(server.Close)
	return r, server.URL
}

// sender returns what sends to an endpoint.
func sender(t *testing.T, protocol, endpoint string) *Traces {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "cluster=test")
	traces, err := NewTraces(t.Context(), "database", "1.2.3", os.Getenv)
	if err != nil || traces == nil {
		t.Fatal(traces, err)
	}
	return traces
}

// spans returns what was received until the sender has flushed.
func (r *receiver) spans(t *testing.T, traces *Traces) (spans []*v1.Span, about map[string]string) {
	t.Helper()
	traces.Shutdown(t.Context())
	about = map[string]string{}
	for {
		select {
		case request := <-r.got:
			for _, resource := range request.ResourceSpans {
				for _, a := range resource.Resource.Attributes {
					about[a.Key] = a.Value.GetStringValue()
				}
				for _, scope := range resource.ScopeSpans {
					spans = append(spans, scope.Spans...)
				}
			}
		default:
			return spans, about
		}
	}
}

const uid = "0c3b6f6a-7d1e-4b0c-9a55-3f1f4f0e2d11"

// failedRestart is an Operation whose second step failed a minute ago.
func failedRestart() *platformv1.Operation {
	at := func(seconds int) *metav1.Time {
		return new(metav1.NewTime(time.Now().Truncate(time.Second).Add(time.Duration(seconds-100) * time.Second)))
	}
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "restart-1", UID: uid, CreationTimestamp: *at(0), Labels: map[string]string{platformv1.DomainLabel: "database"},
		},
		Spec: platformv1.OperationSpec{TemplateRef: "redis@1.0.0/Restart", TargetRef: platformv1.TargetReference{Kind: "Redis", Name: "cache"}},
		Status: platformv1.OperationStatus{
			Phase: platformv1.OperationFailed, Application: "redis-cache", StartTime: at(10), CompletionTime: at(40), Error: "the pod does not answer",
			Steps: []platformv1.StepStatus{
				{Name: "reload", Phase: platformv1.OperationSucceeded, Attempts: 1, StartTime: at(10), CompletionTime: at(15)},
				{Name: "restart", Phase: platformv1.OperationFailed, Attempts: 3, StartTime: at(15), CompletionTime: at(40), Message: "the pod does not answer",
					Targets: []platformv1.StepTarget{{Name: "redis-cache-redis-main-0"}}},
				{Name: "verify", Phase: platformv1.OperationPending},
			},
		},
	}
}

func attributesOf(span *v1.Span) map[string]any {
	found := map[string]any{}
	for _, a := range span.Attributes {
		switch {
		case a.Value.GetArrayValue() != nil:
			found[a.Key] = a.Value.GetArrayValue().Values[0].GetStringValue()
		case a.Value.GetStringValue() != "":
			found[a.Key] = a.Value.GetStringValue()
		default:
			found[a.Key] = a.Value.GetIntValue() + int64(a.Value.GetDoubleValue())
		}
	}
	return found
}

func TestATraceOfAnOperation(t *testing.T) {
	for protocol, start := range map[string]func(*testing.T) (*receiver, string){"grpc": overGRPC, "http/protobuf": overHTTP} {
		t.Run(protocol, func(t *testing.T) {
			r, endpoint := start(t)
			traces := sender(t, protocol, endpoint)
			op := failedRestart()
			traces.Ended(op)
			traces.Ended(op)
			spans, about := r.spans(t, traces)
			if about["service.name"] != "database-operator" || about["service.version"] != "1.2.3" || about["cluster"] != "test" {
				t.Errorf("it is told as %v", about)
			}
			byName := map[string]*v1.Span{}
			for _, span := range spans {
				byName[span.Name] = span
				if got := hex.EncodeToString(span.TraceId); got != strings.ReplaceAll(uid, "-", "") {
					t.Errorf("the trace is %s", got)
				}
			}
			if len(spans) != 3 || len(byName) != 3 {
				t.Fatalf("there are %d spans: %v", len(spans), byName)
			}
			root, step := byName["redis@1.0.0/Restart"], byName["restart"]
			if len(root.ParentSpanId) > 0 || string(step.ParentSpanId) != string(root.SpanId) || string(byName["reload"].ParentSpanId) != string(root.SpanId) {
				t.Error("the steps are not below the Operation")
			}
			if root.StartTimeUnixNano != uint64(op.Status.StartTime.UnixNano()) || root.EndTimeUnixNano != uint64(op.Status.CompletionTime.UnixNano()) ||
				step.StartTimeUnixNano != uint64(op.Status.Steps[1].StartTime.UnixNano()) {
				t.Error("the times are not those of the status")
			}
			if root.Status.Code != v1.Status_STATUS_CODE_ERROR || root.Status.Message != "the pod does not answer" || byName["reload"].Status.Code != v1.Status_STATUS_CODE_OK {
				t.Errorf("the states are %v and %v", root.Status, byName["reload"].Status)
			}
			got := attributesOf(root)
			for key, want := range map[string]any{"k8s.namespace.name": "shop", "zeroinfra.operation.name": "restart-1", "zeroinfra.application": "redis-cache",
				"zeroinfra.target": "Redis/cache", "zeroinfra.operation.trigger": "User", "zeroinfra.operation.queued_seconds": int64(10)} {
				if got[key] != want {
					t.Errorf("%s is %v, want %v", key, got[key], want)
				}
			}
			if got := attributesOf(step); got["zeroinfra.step.attempts"] != int64(3) || got["zeroinfra.step.targets"] != "redis-cache-redis-main-0" {
				t.Errorf("the step has %v", got)
			}
		})
	}
}

// A process that is killed sends nothing more; the one after it sends the same trace.
func TestACrashLosesNoTrace(t *testing.T) {
	r, endpoint := overGRPC(t)
	op := failedRestart()
	before := sender(t, "grpc", endpoint)
	before.Ended(op)
	first, _ := r.spans(t, before)
	after := sender(t, "grpc", endpoint)
	after.Ended(op)
	old := failedRestart()
	old.Name, old.UID = "old", types.UID("1c3b6f6a-7d1e-4b0c-9a55-3f1f4f0e2d11")
	old.Status.CompletionTime = new(metav1.NewTime(time.Now().Add(-time.Hour)))
	after.Ended(old)
	running := failedRestart()
	running.Name, running.Status.CompletionTime = "running", nil
	after.Ended(running)
	second, _ := r.spans(t, after)
	if len(first) != 3 || len(second) != 3 {
		t.Fatalf("%d spans, then %d", len(first), len(second))
	}
	for i := range first {
		if string(first[i].SpanId) != string(second[i].SpanId) || string(first[i].TraceId) != string(second[i].TraceId) {
			t.Errorf("span %q has other IDs", first[i].Name)
		}
	}
}

func TestNestedOperationsAreLinked(t *testing.T) {
	r, endpoint := overGRPC(t)
	traces := sender(t, "grpc", endpoint)
	outer, nested := failedRestart(), failedRestart()
	nested.Name, nested.UID = "nested", "2c3b6f6a-7d1e-4b0c-9a55-3f1f4f0e2d11"
	nested.OwnerReferences = []metav1.OwnerReference{{Kind: "Operation", UID: outer.UID, Controller: new(true)}}
	nested.Status.Steps = nil
	traces.Ended(nested)
	spans, _ := r.spans(t, traces)
	want := spanID(outer.UID, "")
	if len(spans) != 1 || len(spans[0].Links) != 1 || string(spans[0].Links[0].SpanId) != string(want[:]) {
		t.Errorf("the spans are %v", spans)
	}
}

// A receiver that is away holds up nobody.
func TestAReceiverThatIsAway(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://" + listener.Addr().String()
	_ = listener.Close()
	traces := sender(t, "grpc", endpoint)
	begun := time.Now()
	for i := range 10000 {
		op := failedRestart()
		op.Name, op.UID = op.Name+string(rune('a'+i%26)), types.UID(string(op.UID)+string(rune('a'+i%26)))
		traces.Ended(op)
	}
	if took := time.Since(begun); took > flush {
		t.Errorf("it took %s", took)
	}
	traces.Shutdown(t.Context())
	if took := time.Since(begun); took > 2*flush {
		t.Errorf("with the end of the process it took %s", took)
	}
}

func TestTracesAreOffByDefault(t *testing.T) {
	env := func(values ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(values); i += 2 {
				if values[i] == name {
					return values[i+1]
				}
			}
			return ""
		}
	}
	for _, off := range []func(string) string{
		env(), env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_SDK_DISABLED", "true"), env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_TRACES_EXPORTER", "none"),
	} {
		traces, err := NewTraces(t.Context(), "database", "1", off)
		if traces != nil || err != nil {
			t.Errorf("got %v, %v", traces, err)
		}
		traces.Ended(failedRestart())
		traces.Forget(types.NamespacedName{})
		traces.Shutdown(t.Context())
	}
	for text, bad := range map[string]func(string) string{
		"OTEL_TRACES_EXPORTER must be otlp or none":                 env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_TRACES_EXPORTER", "zipkin"),
		"OTEL_EXPORTER_OTLP_PROTOCOL must be grpc or http/protobuf": env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
	} {
		if _, err := NewTraces(t.Context(), "database", "1", bad); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}
