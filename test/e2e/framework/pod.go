// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReplacePod deletes a pod and waits until another one of its name is ready.
func (s *Namespace) ReplacePod(name string, options ...client.DeleteOption) {
	s.Helper()
	pod := &corev1.Pod{}
	s.MustGet(name, pod)
	before := pod.DeepCopy()
	s.Delete(pod, options...)
	s.Eventually(ReadyTimeout, "another pod "+name+" is ready", func() error { return s.PodReplaced(before) })
}

// Exec runs a command in a container until it ends, with its input and output connected.
func Exec(ctx context.Context, namespace, pod, container string, command []string, stdin io.Reader, stdout,
	stderr io.Writer) error {
	url := Cluster.Kube.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command,
			Stdin: stdin != nil, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	primary, err := remotecommand.NewWebSocketExecutor(Cluster.Config, http.MethodGet, url.String())
	if err != nil {
		return err
	}
	secondary, err := remotecommand.NewSPDYExecutor(Cluster.Config, http.MethodPost, url)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewFallbackExecutor(primary, secondary, httpstream.IsUpgradeFailure)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr})
}

// unreached is what the API server says when it did not get as far as the kubelet: the command was not begun.
const unreached = "error dialing backend"

// Run runs a command in a container and returns what it printed, without the last line break. A kubelet that is not
// reached is asked again for a while.
func Run(ctx context.Context, namespace, pod, container, stdin string, command ...string) (out string, err error) {
	err = fmt.Errorf("%s was not run", command[0])
	_, _ = Poll(ctx, rereadFor, "the kubelet is reached", func() error {
		out, err = runOnce(ctx, namespace, pod, container, stdin, command...)
		if err != nil && strings.Contains(err.Error(), unreached) {
			return err
		}
		return nil
	})
	return out, err
}

func runOnce(ctx context.Context, namespace, pod, container, stdin string, command ...string) (string, error) {
	var in io.Reader
	if stdin != "" {
		in = strings.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	err := Exec(ctx, namespace, pod, container, command, in, &stdout, &stderr)
	out := strings.TrimSuffix(stdout.String(), "\n")
	if err != nil {
		return out, fmt.Errorf("cannot run %s in container %q of pod %q: %w: %s%s", command[0], container, pod, err,
			stderr.String(), stdout.String())
	}
	return out, nil
}

// Logs returns all that a container has logged since it was started.
func Logs(ctx context.Context, namespace, pod, container string) (string, error) {
	return LogsOf(ctx, namespace, pod, &corev1.PodLogOptions{Container: container})
}

// LogsOf is logs with a choice of what of them.
func LogsOf(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (string, error) {
	data, err := Cluster.Kube.CoreV1().Pods(namespace).GetLogs(pod, options).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot read the log of container %q of pod %q: %w", options.Container, pod, err)
	}
	return string(data), nil
}

// Restarts returns the number of restarts of each container of a pod, init containers included.
func Restarts(pod *corev1.Pod) map[string]int32 {
	counts := map[string]int32{}
	for _, status := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...),
		pod.Status.ContainerStatuses...) {
		counts[status.Name] = status.RestartCount
	}
	return counts
}

// PodReplaced says what is missing until another pod than this one is ready.
func (s *Namespace) PodReplaced(before *corev1.Pod) error {
	pod := &corev1.Pod{}
	if err := s.Get(before.Name, pod); err != nil {
		return err
	}
	if pod.UID == before.UID {
		return fmt.Errorf("pod %q is still the old one", pod.Name)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("pod %q is not ready: %s", pod.Name, pod.Status.Phase)
}

// Evict asks for the eviction of a pod as "kubectl drain" does.
func (s *Namespace) Evict(pod *corev1.Pod) error {
	return Cluster.Client.SubResource("eviction").Create(s.Ctx, pod,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
}
