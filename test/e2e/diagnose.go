// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// lastLines is how much of a log a failed test prints.
const lastLines = 80

// diagnose prints what a person would look at first when a test has failed.
func diagnose(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.Background()
	for _, list := range []client.ObjectList{
		&databasev1.RedisList{}, &platformv1.ApplicationList{}, &platformv1.ComponentList{},
		&platformv1.WorkloadSetList{}, &platformv1.OperationList{},
	} {
		if err := world.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			t.Log(err)
			continue
		}
		printStatus(t, list)
	}
	pods, err := world.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for _, pod := range pods.Items {
		t.Logf("pod %s: %s, restarts %v, report %s", pod.Name, pod.Status.Phase, restarts(&pod), pod.Annotations[platformv1.ReportAnnotation])
		for _, container := range pod.Spec.Containers {
			printLog(ctx, t, namespace, pod.Name, container.Name)
		}
	}
	events, err := world.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for _, event := range events.Items {
		if event.Type == corev1.EventTypeNormal {
			continue
		}
		t.Logf("event %s %s/%s: %s: %s", event.Type, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
	}
	operators, err := operatorPods(ctx)
	if err != nil {
		t.Log(err)
	}
	for _, pod := range operators {
		printLog(ctx, t, operatorNamespace, pod.Name, "")
	}
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
			t.Logf("Application %s: %s", o.Name, describe(o.Status.Conditions))
		}
	case *platformv1.ComponentList:
		for _, o := range l.Items {
			t.Logf("Component %s: %s", o.Name, describe(o.Status.Conditions))
		}
	case *platformv1.WorkloadSetList:
		for _, o := range l.Items {
			t.Logf("WorkloadSet %s: %s", o.Name, describe(o.Status.Conditions))
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
	data, err := world.kube.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: &last}).DoRaw(ctx)
	if err != nil {
		t.Log(err)
		return
	}
	lines := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool {
		return strings.Contains(line, `"msg":"Starting `)
	})
	t.Logf("end of the log of %s:\n%s", strings.TrimSuffix(pod+"/"+container, "/"), strings.Join(lines, "\n"))
}
