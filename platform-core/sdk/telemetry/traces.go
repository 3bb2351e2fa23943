// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// overlap is how long before the start of this process an Operation may have ended to be told of again: by then the
	// process before it has sent what it held, or was killed.
	overlap = 10 * time.Minute
	// flush is how long the end of the process waits for spans to be sent.
	flush = 5 * time.Second
	// scope names what makes the spans.
	scope = "github.com/zeroinfra/platform-core/operations"
)

// Traces sends a trace for each Operation that ended, with a span for each of its steps, to a receiver of OTLP.
// Everything in it comes from the Operation itself: the trace has its UID as its ID, and the IDs of the spans follow
// from that. So one that is sent twice, by a process and by the one after it, is the same trace, and a crash loses
// none. A nil *Traces sends nothing.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	since    time.Time

	mu   sync.Mutex
	sent map[types.NamespacedName]types.UID
}

// NewTraces returns what sends the traces of an operator, as the standard variables of OpenTelemetry say, which env
// looks up: OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL (grpc, or http/protobuf, the default), _HEADERS, _CERTIFICATE,
// _TIMEOUT and the same with OTLP_TRACES_, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER. Without an
// endpoint, with OTEL_SDK_DISABLED=true or with OTEL_TRACES_EXPORTER=none it returns nil. An error names the variable
// that cannot be used. A receiver that is away is no error.
func NewTraces(ctx context.Context, domain, version string, env func(string) string) (*Traces, error) {
	if env("OTEL_EXPORTER_OTLP_ENDPOINT")+env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" ||
		strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch exporter := env("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return nil, nil
	case "", "otlp":
	default:
		return nil, fmt.Errorf("cannot send traces to %q: OTEL_TRACES_EXPORTER must be otlp or none", exporter)
	}
	exporter, err := newExporter(ctx, env)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", domain+"-operator"),
			attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("cannot read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about),
		sdktrace.WithIDGenerator(identities{}))
	return &Traces{
		provider: provider, tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(version)),
		since: time.Now().Add(-overlap), sent: map[types.NamespacedName]types.UID{},
	}, nil
}

func newExporter(ctx context.Context, env func(string) string) (sdktrace.SpanExporter, error) {
	protocol := env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = env("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	var exporter sdktrace.SpanExporter
	var err error
	switch protocol {
	case "grpc":
		exporter, err = otlptracegrpc.New(ctx)
	case "", "http/protobuf":
		exporter, err = otlptracehttp.New(ctx)
	default:
		return nil, fmt.Errorf("cannot send traces by %q: OTEL_EXPORTER_OTLP_PROTOCOL must be grpc or http/protobuf",
			protocol)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot send traces: %w", err)
	}
	return exporter, nil
}

// Shutdown sends what is held, as far as that goes within a few seconds.
func (t *Traces) Shutdown(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flush)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // The receiver is away: the next process tells it.
}

// Wants says whether an Operation has ended that Ended has yet to tell of.
func (t *Traces) Wants(op *platformv1.Operation) bool {
	if t == nil || op.Status.CompletionTime == nil || op.Status.CompletionTime.Time.Before(t.since) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent[types.NamespacedName{Namespace: op.Namespace, Name: op.Name}] != op.UID
}

// Ended tells of an Operation that has ended. It may be called again for the same one, and it never waits.
func (t *Traces) Ended(op *platformv1.Operation) {
	if !t.Wants(op) || !t.isNews(op) {
		return
	}
	end := op.Status.CompletionTime.Time
	ctx, span := t.begin(context.Background(), op, "", cmp.Or(op.Spec.TemplateRef, inline),
		startOf(op.Status.StartTime, end), about(op), link(op))
	for i := range op.Status.Steps {
		step := &op.Status.Steps[i]
		if step.StartTime == nil {
			continue // It was not wanted, or its turn did not come.
		}
		_, child := t.begin(ctx, op, step.Name, step.Name, step.StartTime.Time, trace.WithAttributes(
			attribute.String("zeroinfra.step.phase", string(step.Phase)),
			attribute.Int("zeroinfra.step.attempts", int(step.Attempts)),
			attribute.StringSlice("zeroinfra.step.targets", targetsOf(step))))
		say(child, step.Phase, step.Message)
		child.End(trace.WithTimestamp(startOf(step.CompletionTime, end)))
	}
	say(span, op.Status.Phase, op.Status.Error)
	span.End(trace.WithTimestamp(end))
}

// Forget drops what is remembered of an Operation that is gone.
func (t *Traces) Forget(key types.NamespacedName) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sent, key)
}

func (t *Traces) isNews(op *platformv1.Operation) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := types.NamespacedName{Namespace: op.Namespace, Name: op.Name}
	was := t.sent[key]
	t.sent[key] = op.UID
	return was != op.UID
}

// begin starts a span whose IDs follow from the Operation and the step.
func (t *Traces) begin(ctx context.Context, op *platformv1.Operation, step, name string, at time.Time,
	options ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx = context.WithValue(ctx, identityKey{}, identity{traceID(op.UID), spanID(op.UID, step)})
	return t.tracer.Start(ctx, name, append(options, trace.WithTimestamp(at))...)
}

func about(op *platformv1.Operation) trace.SpanStartOption {
	target := op.Spec.TargetRef
	attributes := []attribute.KeyValue{
		attribute.String("k8s.namespace.name", op.Namespace),
		attribute.String("zeroinfra.operation.name", op.Name), attribute.String("zeroinfra.operation.uid", string(op.UID)),
		attribute.String("zeroinfra.operation.phase", string(op.Status.Phase)),
		attribute.String("zeroinfra.operation.trigger", triggerOf(op)),
		attribute.String("zeroinfra.application", op.Status.Application),
		attribute.String("zeroinfra.target", target.Kind+"/"+target.Name),
	}
	if begun := op.Status.StartTime; begun != nil {
		attributes = append(attributes, attribute.Float64("zeroinfra.operation.queued_seconds",
			begun.Sub(op.CreationTimestamp.Time).Seconds()))
	}
	return trace.WithAttributes(attributes...)
}

// link leads from a nested Operation to the one that made it.
func link(op *platformv1.Operation) trace.SpanStartOption {
	owner := metav1.GetControllerOf(op)
	if owner == nil || owner.Kind != "Operation" {
		return trace.WithLinks()
	}
	return trace.WithLinks(trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID(owner.UID), SpanID: spanID(owner.UID, ""), TraceFlags: trace.FlagsSampled,
	})})
}

func say(span trace.Span, phase platformv1.OperationPhase, message string) {
	switch phase {
	case platformv1.OperationSucceeded:
		span.SetStatus(codes.Ok, "")
	case platformv1.OperationFailed:
		span.SetStatus(codes.Error, message)
	}
}

func targetsOf(step *platformv1.StepStatus) []string {
	names := make([]string, 0, len(step.Targets))
	for _, target := range step.Targets {
		names = append(names, target.Name)
	}
	return names
}

func startOf(at *metav1.Time, otherwise time.Time) time.Time {
	if at == nil {
		return otherwise
	}
	return at.Time
}

// traceID is the UID itself, which has as many bytes, so that one can look a trace up by it.
func traceID(uid types.UID) (id trace.TraceID) {
	bytes, err := hex.DecodeString(strings.ReplaceAll(string(uid), "-", ""))
	if err != nil || len(bytes) != len(id) {
		sum := sha256.Sum256([]byte(uid))
		bytes = sum[:len(id)]
	}
	copy(id[:], bytes)
	return id
}

func spanID(uid types.UID, step string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(string(uid) + "/" + step))
	copy(id[:], sum[:])
	return id
}

type identityKey struct{}

type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

// identities gives spans the IDs that their context holds.
type identities struct{}

// NewIDs implements sdktrace.IDGenerator.
func (identities) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(identityKey{}).(identity)
	return id.trace, id.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (identities) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	id, _ := ctx.Value(identityKey{}).(identity)
	return id.span
}
