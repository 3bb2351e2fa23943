// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// lastLines is how much of a log a failed test prints.
const lastLines = 40

// diagnose prints what a person would look at first when a test has failed.
func diagnose(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.Background()
	for _, list := range []client.ObjectList{
		&databasev1.RedisList{}, &databasev1.PostgreSQLList{}, &platformv1.ApplicationList{}, &platformv1.ComponentList{},
		&platformv1.WorkloadSetList{}, &platformv1.OperationList{},
	} {
		if err := Cluster.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			t.Log(err)
			continue
		}
		printStatus(t, list)
	}
	pods, err := Cluster.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for _, pod := range pods.Items {
		t.Logf("pod %s: %s, restarts %v, report %s", pod.Name, pod.Status.Phase, Restarts(&pod),
			pod.Annotations[platformv1.ReportAnnotation])
		for _, container := range pod.Spec.Containers {
			printLog(ctx, t, namespace, pod.Name, container.Name)
		}
	}
	events, err := Cluster.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for _, event := range events.Items {
		if event.Type == corev1.EventTypeNormal {
			continue
		}
		t.Logf("event %s %s/%s: %s: %s", event.Type, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason,
			event.Message)
	}
	operators, err := OperatorPods(ctx)
	if err != nil {
		t.Log(err)
	}
	for _, pod := range operators {
		printOperatorLog(ctx, t, pod.Name, namespace)
	}
}

// Failures are what a test complained about. They are printed again below the diagnosis, where people look first.
type Failures struct {
	sync.Mutex
	messages []string
}

func (f *Failures) add(message string) {
	f.Lock()
	defer f.Unlock()
	f.messages = append(f.messages, strings.TrimSpace(message))
}

// String joins the messages, a line each.
func (f *Failures) String() string {
	f.Lock()
	defer f.Unlock()
	return strings.Join(f.messages, "\n")
}

// Error is that of testing.T; so are the three below.
func (s *Namespace) Error(args ...any) {
	s.Helper()
	s.Failures.add(fmt.Sprintln(args...))
	s.T.Error(args...)
}

// Errorf complains and goes on.
func (s *Namespace) Errorf(format string, args ...any) {
	s.Helper()
	s.Failures.add(fmt.Sprintf(format, args...))
	s.T.Errorf(format, args...)
}

// Fatal complains and ends the test.
func (s *Namespace) Fatal(args ...any) {
	s.Helper()
	s.Failures.add(fmt.Sprintln(args...))
	s.T.Fatal(args...)
}

// Fatalf complains and ends the test.
func (s *Namespace) Fatalf(format string, args ...any) {
	s.Helper()
	s.Failures.add(fmt.Sprintf(format, args...))
	s.T.Fatalf(format, args...)
}

func printStatus(t *testing.T, list client.ObjectList) {
	t.Helper()
	switch l := list.(type) {
	case *databasev1.RedisList:
		for _, o := range l.Items {
			t.Logf("Redis %s: %s", o.Name, asYAML(o.Status))
		}
	case *platformv1.ApplicationList:
		for _, o := range l.Items {
			t.Logf("Application %s: %s", o.Name, Describe(o.Status.Conditions))
		}
	case *platformv1.ComponentList:
		for _, o := range l.Items {
			t.Logf("Component %s: %s", o.Name, Describe(o.Status.Conditions))
		}
	case *platformv1.WorkloadSetList:
		for _, o := range l.Items {
			t.Logf("WorkloadSet %s: %s", o.Name, Describe(o.Status.Conditions))
		}
	case *platformv1.OperationList:
		for _, o := range l.Items {
			t.Logf("Operation %s: %s", o.Name, asYAML(o.Status))
		}
	}
}

func asYAML(value any) string {
	data, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return "\n" + string(data)
}

func printLog(ctx context.Context, t *testing.T, namespace, pod, container string) {
	t.Helper()
	last := int64(lastLines)
	data, err := LogsOf(ctx, namespace, pod, &corev1.PodLogOptions{Container: container, TailLines: &last})
	if err != nil {
		t.Log(err)
		return
	}
	t.Logf("end of the log of %s/%s:\n%s", pod, container, data)
}

// printOperatorLog prints what the operator last said of one namespace, without the stacks.
func printOperatorLog(ctx context.Context, t *testing.T, pod, about string) {
	t.Helper()
	data, err := Logs(ctx, OperatorNamespace, pod, "")
	if err != nil {
		t.Log(err)
		return
	}
	var lines []string
	for line := range strings.Lines(data) {
		if strings.Contains(line, about) {
			line, _, _ = strings.Cut(line, `,"stacktrace"`)
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	lines = lines[max(0, len(lines)-lastLines):]
	t.Logf("what %s said of namespace %s:\n%s", pod, about, strings.Join(lines, "\n"))
}
