// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "go.opentelemetry.io/proto/otlp/trace/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/spans"
)

// The controller tells of each Operation that ended as one trace of its own: a span for the Operation and below it one
// for each step that was taken, with what happened in it.
func TestAnOperationIsOneTrace(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	receiver := spans.OverGRPC(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.Endpoint)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	f.traces = sender(t)
	stop := f.controller(nil)
	twice := f.operation("twice", "Twice", nil)
	f.waitPhase(twice, platformv1.OperationSucceeded)
	reload := f.operation("reload", "Reload", nil)
	f.waitPhase(reload, platformv1.OperationFailed)
	refused := f.operation("refused", "Explode", nil)
	f.waitPhase(refused, platformv1.OperationFailed)
	f.toldOf(twice, reload, refused)
	stop()
	f.traces.Shutdown(t.Context())
	received, _ := receiver.Take()
	if got := named(received, twice); !slices.Equal(got, []string{"Twice", "first", "second"}) {
		t.Fatalf("the spans of %s are %q", twice.Name, got)
	}
	root := span(t, received, twice, "Twice")
	if root.Status.GetCode() != v1.Status_STATUS_CODE_OK || len(root.ParentSpanId) > 0 ||
		root.EndTimeUnixNano != uint64(twice.Status.CompletionTime.UnixNano()) {
		t.Errorf("its span is %v", root)
	}
	about := spans.Attributes(root)
	for key, want := range map[string]string{"k8s.namespace.name": f.namespace, "zeroinfra.operation.name": "twice",
		"zeroinfra.operation.uid":   string(twice.UID),
		"zeroinfra.operation.phase": "Succeeded", "zeroinfra.operation.trigger": "User", "zeroinfra.application": "redis-a",
		"zeroinfra.target": "Redis/a"} {
		if about[key] != want {
			t.Errorf("%s is %v, want %v", key, about[key], want)
		}
	}
	for _, name := range []string{"first", "second"} {
		step := span(t, received, twice, name)
		got := spans.Attributes(step)
		if string(step.ParentSpanId) != string(root.SpanId) || step.Status.GetCode() != v1.Status_STATUS_CODE_OK ||
			got["zeroinfra.step.phase"] != "Succeeded" || got["zeroinfra.step.attempts"] != int64(1) ||
			got["zeroinfra.step.targets"] != podName(0) {
			t.Errorf("the span of step %s is %v", name, step)
		}
	}
	for _, name := range []string{"Reload", "reload"} {
		step := span(t, received, reload, name)
		if step.Status.GetCode() != v1.Status_STATUS_CODE_ERROR ||
			!strings.Contains(step.Status.GetMessage(), "Reload of pod "+podName(0)+" failed") {
			t.Errorf("the span %s of one that failed is %v", name, step.Status)
		}
	}
	if got := named(received, refused); !slices.Equal(got, []string{"Explode"}) ||
		span(t, received, refused, "Explode").Status.GetMessage() != refused.Status.Error {
		t.Errorf("the spans of one that was refused are %q", got)
	}

	// A process that follows one that was killed tells of what has just ended, as the same trace, although its cache knows
	// no step of it.
	f.traces = sender(t)
	stop = f.controller(nil)
	f.toldOf(twice)
	stop()
	f.traces.Shutdown(t.Context())
	after, _ := receiver.Take()
	if got := named(after, twice); !slices.Equal(got, []string{"Twice", "first", "second"}) ||
		string(span(t, after, twice, "second").SpanId) != string(span(t, received, twice, "second").SpanId) {
		t.Errorf("the next process tells of %q", got)
	}
}

// sender sends to the receiver that the environment names.
func sender(t *testing.T) *telemetry.Traces {
	t.Helper()
	traces, err := telemetry.NewTraces(t.Context(), testDomain, "1.2.3", os.Getenv)
	if err != nil || traces == nil {
		t.Fatal(traces, err)
	}
	return traces
}

// toldOf waits until the controller has told of Operations that ended.
func (f *fixture) toldOf(operations ...*platformv1.Operation) {
	f.t.Helper()
	testkit.Eventually(f.t, "the traces", func(context.Context) error {
		for _, op := range operations {
			if f.traces.Wants(op) {
				return fmt.Errorf("there is none of %s", op.Name)
			}
		}
		return nil
	})
}

// ofTrace says whether a span is of the trace of an Operation.
func ofTrace(s *v1.Span, op *platformv1.Operation) bool {
	return hex.EncodeToString(s.TraceId) == strings.ReplaceAll(string(op.UID), "-", "")
}

// named are the names of the spans of an Operation, in alphabetical order.
func named(all []*v1.Span, op *platformv1.Operation) []string {
	var names []string
	for _, s := range all {
		if ofTrace(s, op) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// span is that of an Operation with this name.
func span(t *testing.T, all []*v1.Span, op *platformv1.Operation, name string) *v1.Span {
	t.Helper()
	at := slices.IndexFunc(all, func(s *v1.Span) bool { return ofTrace(s, op) && s.Name == name })
	if at < 0 {
		t.Fatalf("there is no span %q of Operation %s; there are %q", name, op.Name, named(all, op))
	}
	return all[at]
}
