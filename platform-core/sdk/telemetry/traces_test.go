// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit/spans"
)

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

// sent returns what was received until the sender has flushed.
func sent(t *testing.T, r *spans.Receiver, traces *Traces) (received []*v1.Span, about map[string]string) {
	t.Helper()
	traces.Shutdown(t.Context())
	return r.Take()
}

const uid = "0c3b6f6a-7d1e-4b0c-9a55-3f1f4f0e2d11"

// failedRestart is an Operation whose second step failed a minute ago.
func failedRestart() *platformv1.Operation {
	at := func(seconds int) *metav1.Time {
		return new(metav1.NewTime(time.Now().Truncate(time.Second).Add(time.Duration(seconds-100) * time.Second)))
	}
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "restart-1", UID: uid, CreationTimestamp: *at(0),
			Labels: map[string]string{platformv1.DomainLabel: "database"},
		},
		Spec: platformv1.OperationSpec{TemplateRef: "redis@1.0.0/Restart",
			TargetRef: platformv1.TargetReference{Kind: "Redis", Name: "cache"}},
		Status: platformv1.OperationStatus{
			Phase: platformv1.OperationFailed, Application: "redis-cache", StartTime: at(10), CompletionTime: at(40),
			Error: "the pod does not answer",
			Steps: []platformv1.StepStatus{
				{Name: "reload", Phase: platformv1.OperationSucceeded, Attempts: 1, StartTime: at(10), CompletionTime: at(15)},
				{Name: "restart", Phase: platformv1.OperationFailed, Attempts: 3, StartTime: at(15), CompletionTime: at(40),
					Message: "the pod does not answer",
					Targets: []platformv1.StepTarget{{Name: "redis-cache-redis-main-0"}}},
				{Name: "verify", Phase: platformv1.OperationPending},
			},
		},
	}
}

func TestATraceOfAnOperation(t *testing.T) {
	for protocol, start := range map[string]func(testing.TB) *spans.Receiver{"grpc": spans.OverGRPC,
		"http/protobuf": spans.OverHTTP} {
		t.Run(protocol, func(t *testing.T) {
			r := start(t)
			traces := sender(t, protocol, r.Endpoint)
			op := failedRestart()
			traces.Ended(op)
			traces.Ended(op)
			received, about := sent(t, r, traces)
			if about["service.name"] != "database-operator" || about["service.version"] != "1.2.3" ||
				about["cluster"] != "test" {
				t.Errorf("it is told as %v", about)
			}
			byName := map[string]*v1.Span{}
			for _, span := range received {
				byName[span.Name] = span
				if got := hex.EncodeToString(span.TraceId); got != strings.ReplaceAll(uid, "-", "") {
					t.Errorf("the trace is %s", got)
				}
			}
			if len(received) != 3 || len(byName) != 3 {
				t.Fatalf("there are %d spans: %v", len(received), byName)
			}
			root, step := byName["redis@1.0.0/Restart"], byName["restart"]
			if len(root.ParentSpanId) > 0 || string(step.ParentSpanId) != string(root.SpanId) ||
				string(byName["reload"].ParentSpanId) != string(root.SpanId) {
				t.Error("the steps are not below the Operation")
			}
			if root.StartTimeUnixNano != uint64(op.Status.StartTime.UnixNano()) ||
				root.EndTimeUnixNano != uint64(op.Status.CompletionTime.UnixNano()) ||
				step.StartTimeUnixNano != uint64(op.Status.Steps[1].StartTime.UnixNano()) {
				t.Error("the times are not those of the status")
			}
			if root.Status.Code != v1.Status_STATUS_CODE_ERROR || root.Status.Message != "the pod does not answer" ||
				byName["reload"].Status.Code != v1.Status_STATUS_CODE_OK {
				t.Errorf("the states are %v and %v", root.Status, byName["reload"].Status)
			}
			got := spans.Attributes(root)
			for key, want := range map[string]any{"k8s.namespace.name": "shop", "zeroinfra.operation.name": "restart-1",
				"zeroinfra.application": "redis-cache",
				"zeroinfra.target":      "Redis/cache", "zeroinfra.operation.trigger": "User",
				"zeroinfra.operation.queued_seconds": int64(10)} {
				if got[key] != want {
					t.Errorf("%s is %v, want %v", key, got[key], want)
				}
			}
			if got := spans.Attributes(step); got["zeroinfra.step.attempts"] != int64(3) ||
				got["zeroinfra.step.targets"] != "redis-cache-redis-main-0" {
				t.Errorf("the step has %v", got)
			}
		})
	}
}

// A process that is killed sends nothing more; the one after it sends the same trace.
func TestACrashLosesNoTrace(t *testing.T) {
	r := spans.OverGRPC(t)
	op := failedRestart()
	before := sender(t, "grpc", r.Endpoint)
	before.Ended(op)
	first, _ := sent(t, r, before)
	after := sender(t, "grpc", r.Endpoint)
	after.Ended(op)
	old := failedRestart()
	old.Name, old.UID = "old", types.UID("1c3b6f6a-7d1e-4b0c-9a55-3f1f4f0e2d11")
	old.Status.CompletionTime = new(metav1.NewTime(time.Now().Add(-time.Hour)))
	after.Ended(old)
	running := failedRestart()
	running.Name, running.Status.CompletionTime = "running", nil
	after.Ended(running)
	second, _ := sent(t, r, after)
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
	r := spans.OverGRPC(t)
	traces := sender(t, "grpc", r.Endpoint)
	outer, nested := failedRestart(), failedRestart()
	nested.Name, nested.UID = "nested", "2c3b6f6a-7d1e-4b0c-9a55-3f1f4f0e2d11"
	nested.OwnerReferences = []metav1.OwnerReference{{Kind: "Operation", UID: outer.UID, Controller: new(true)}}
	nested.Status.Steps = nil
	traces.Ended(nested)
	received, _ := sent(t, r, traces)
	want := spanID(outer.UID, "")
	if len(received) != 1 || len(received[0].Links) != 1 || string(received[0].Links[0].SpanId) != string(want[:]) {
		t.Errorf("the spans are %v", received)
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
		env(), env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_SDK_DISABLED", "true"),
		env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_TRACES_EXPORTER", "none"),
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
		"OTEL_TRACES_EXPORTER must be otlp or none": env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x",
			"OTEL_TRACES_EXPORTER", "zipkin"),
		"OTEL_EXPORTER_OTLP_PROTOCOL must be grpc or http/protobuf": env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x",
			"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
	} {
		if _, err := NewTraces(t.Context(), "database", "1", bad); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}
