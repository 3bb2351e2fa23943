// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/testkit/spans"
)

// An operator sends traces to where its environment says.
func TestAnOperatorSendsTraces(t *testing.T) {
	receiver := spans.OverHTTP(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.Endpoint)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100") // milliseconds
	p := run(t, env.Namespace(t))
	p.waitReady()
	s := create(t, "traced")
	op := &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "restart"},
		Spec: platformv1.OperationSpec{TemplateRef: "Restart", TargetRef: platformv1.TargetReference{
			APIVersion: example.GroupVersion.String(), Kind: "Sample", Name: s.Name}},
	}
	if err := env.Client.Create(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, op, "failed, for want of a plugin", func() error {
		if op.Status.Phase != platformv1.OperationFailed {
			return fmt.Errorf("it is %q", op.Status.Phase)
		}
		return nil
	})
	var received []*v1.Span
	var sender map[string]string
	// The operator serves what the tests before have left as well.
	take := func() (ours []*v1.Span) {
		ours, sender = receiver.Take()
		return slices.DeleteFunc(ours, func(span *v1.Span) bool {
			return spans.Attributes(span)["k8s.namespace.name"] != s.Namespace
		})
	}
	testkit.Eventually(t, "a trace", func(context.Context) error {
		if received = take(); len(received) == 0 {
			return errors.New("none came")
		}
		return nil
	})
	from := sender
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the operator ended with code %d after SIGTERM", code)
	}
	if again := take(); len(again) > 0 {
		t.Errorf("it was told twice: %v", again)
	}
	if from["service.name"] != "database-operator" || from["service.version"] != "1.2.3" {
		t.Errorf("they are sent by %v", from)
	}
	if len(received) != 1 || received[0].Name != "Restart" {
		t.Fatalf("the spans are %v", received)
	}
	if got := received[0]; got.Status.GetCode() != v1.Status_STATUS_CODE_ERROR ||
		got.Status.GetMessage() != op.Status.Error || spans.Attributes(got)["zeroinfra.operation.uid"] != string(op.UID) {
		t.Errorf("the span is %v, want one of %s: %s", got, op.UID, op.Status.Error)
	}
}
