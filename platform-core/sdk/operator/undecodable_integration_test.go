// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
)

// tooMany does not decode as a number of 32 bits. The definition of Sample does not bound its replicas.
const tooMany = int64(3_000_000_000)

// patched changes a field of the spec of an object, which need not decode.
func patched(t *testing.T, obj client.Object, field string, value any) {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), u); err != nil {
		t.Fatal(err)
	}
	before := u.DeepCopy()
	if value == nil {
		unstructured.RemoveNestedField(u.Object, "spec", field)
	} else if err := unstructured.SetNestedField(u.Object, value, "spec", field); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Patch(t.Context(), u, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// kindOf is the kind that an object says it is of.
func kindOf(obj client.Object) string { return obj.GetObjectKind().GroupVersionKind().Kind }

// undecodableLine is the metric of an object.
func undecodableLine(obj client.Object) string {
	const line = `zeroinfra_undecodable_objects{kind=%q,name=%q,namespace=%q} 1`
	return fmt.Sprintf(line, kindOf(obj), obj.GetName(), obj.GetNamespace())
}

// waitReported waits until the operator names an object, and the field that cannot be decoded, in a log line and in a
// metric.
func (p *process) waitReported(obj client.Object, field string) {
	p.Helper()
	testkit.Eventually(p, "a word of "+obj.GetName(), func(ctx context.Context) error {
		text, err := testkit.Get(ctx, "http://"+p.metric+"/metrics")
		if err != nil {
			return err
		}
		if !strings.Contains(text, undecodableLine(obj)) {
			return fmt.Errorf("no %s", undecodableLine(obj))
		}
		name := fmt.Sprintf(`"name": %q`, obj.GetName())
		for line := range strings.Lines(p.output.String()) {
			if strings.Contains(line, "cannot be decoded") && strings.Contains(line, name) && strings.Contains(line, field) {
				return nil
			}
		}
		return fmt.Errorf("no line of the log names %s and %s", obj.GetName(), field)
	})
}

// waitWithdrawn waits until the metric of an object is gone.
func (p *process) waitWithdrawn(obj client.Object) {
	p.Helper()
	testkit.Eventually(p, "the end of the metric of "+obj.GetName(), func(ctx context.Context) error {
		text, err := testkit.Get(ctx, "http://"+p.metric+"/metrics")
		if err == nil && strings.Contains(text, undecodableLine(obj)) {
			err = fmt.Errorf("it is still there")
		}
		return err
	})
}

// waitStalled waits until the operator has reconciled an object in its current form: there is no plugin here.
func waitStalled(t *testing.T, obj interface {
	client.Object
	platformv1.Conditioned
}) {
	t.Helper()
	testkit.WaitFor(t, env.Client, obj, "Stalled in its current form", func() error {
		c := conditions.Get(obj, platformv1.StalledCondition)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("generation %d has the condition %+v", obj.GetGeneration(), c)
		}
		return nil
	})
}

// sampleOf is a Sample by its name, not read yet, that says its kind.
func sampleOf(namespace, name string) *example.Sample {
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.SetGroupVersionKind(example.GroupVersion.WithKind("Sample"))
	return s
}

// TestOneUndecodableObjectDoesNotBlindTheOperator has an operator start over two kinds of which one object each cannot
// be decoded: it leads, reconciles all others and names these. They are reconciled once they are corrected.
func TestOneUndecodableObjectDoesNotBlindTheOperator(t *testing.T) {
	namespace := env.Namespace(t)
	first := run(t, namespace)
	first.waitReady()
	holder := waitForLeader(t, namespace, "")
	first.end(syscall.SIGTERM)

	sample := testkit.Object(t, example.GroupVersion.WithKind("Sample"), namespace, "bad", map[string]any{
		"version": "7.0", "replicas": tooMany,
	}, "")
	if err := env.Client.Create(t.Context(), sample); err != nil {
		t.Fatal(err)
	}
	good := testkit.BuildApplication(namespace, "good").Domain("database").Build()
	spoilt := testkit.Object(t, platformv1.GroupVersion.WithKind("Application"), namespace, "spoilt", map[string]any{
		"plugin": "redis", "pluginVersion": "1.0.0", "version": "7.0", "topology": "standalone",
		"operationHistory": map[string]any{"ttl": "30d"},
	}, "")
	spoilt.SetLabels(map[string]string{platformv1.DomainLabel: "database"})
	write := func(ctx context.Context) error { return env.Client.Create(ctx, spoilt) }
	testkit.Refused(t, env.Client.Create(t.Context(), spoilt.DeepCopy()), "must be a duration such as 90s")
	env.Unchecked(t, "applications.platform.zeroinfra.github.com", write)
	if err := env.Client.Create(t.Context(), good); err != nil {
		t.Fatal(err)
	}

	second := run(t, namespace)
	second.waitReady()
	waitForLeader(t, namespace, holder)
	second.waitReported(sample, "spec.replicas")
	second.waitReported(spoilt, "spec.operationHistory.ttl")
	waitStalled(t, good)
	create(t, "other")

	patched(t, sample, "replicas", int64(1))
	waitStalled(t, sampleOf(namespace, "bad"))
	second.waitWithdrawn(sample)
	patched(t, spoilt, "operationHistory", nil)
	waitStalled(t, &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "spoilt"}})
	second.waitWithdrawn(spoilt)
}

// TestObjectsThatAreSpoiltUnderWayStallAlone spoils objects while the operator runs: the first one ends the watch, the
// second one meets a watch that leaves such objects out. All others are reconciled as before, and these once they are
// corrected.
func TestObjectsThatAreSpoiltUnderWayStallAlone(t *testing.T) {
	namespace := env.Namespace(t)
	p := run(t, namespace)
	p.waitReady()
	waitForLeader(t, namespace, "")
	var spoilt []*example.Sample
	for _, name := range []string{"first", "second"} {
		made := create(t, name)
		s := sampleOf(made.Namespace, made.Name)
		patched(t, s, "replicas", tooMany)
		p.waitReported(s, "spec.replicas")
		create(t, "after-"+name)
		spoilt = append(spoilt, s)
	}
	patched(t, spoilt[0], "replicas", int64(2))
	p.waitWithdrawn(spoilt[0])
	waitStalled(t, spoilt[0])
	if err := env.Client.Delete(t.Context(), spoilt[1]); err != nil {
		t.Fatal(err)
	}
	p.waitWithdrawn(spoilt[1])
	create(t, "last")
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the operator ended with code %d after SIGTERM", code)
	}
}
