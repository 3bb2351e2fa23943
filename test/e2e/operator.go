// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Where the operator serves metrics and probes.
const (
	metricsPort = 8080
	probesPort  = 8081
)

// leaderIn is when a test gives up on a new leader after the old one was killed: a Lease that nobody
// gave back lasts 15 s; the test logs what it took.
const leaderIn = 3 * time.Minute

// operatorPods returns the pods of the operator that are not being deleted.
func operatorPods(ctx context.Context) ([]corev1.Pod, error) { return podsOf(ctx, operatorName) }

// podsOf is operatorPods for any operator.
func podsOf(ctx context.Context, operator string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := world.client.List(ctx, &pods, client.InNamespace(operatorNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": operator}); err != nil {
		return nil, err
	}
	var live []corev1.Pod
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			live = append(live, pod)
		}
	}
	return live, nil
}

// leader returns the name of the pod that holds the operator's Lease, when that pod is there.
func leader(ctx context.Context) (string, error) { return leaderOf(ctx, operatorName) }

// leaderOf is leader for any operator.
func leaderOf(ctx context.Context, operator string) (string, error) {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: operatorNamespace, Name: operator + ".zeroinfra.github.com"}
	if err := world.client.Get(ctx, key, lease); err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("nobody holds the operator's Lease")
	}
	// The identity is "<pod>_<uuid>".
	holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	pods, err := podsOf(ctx, operator)
	if err != nil {
		return "", err
	}
	for _, pod := range pods {
		if pod.Name == holder {
			return holder, nil
		}
	}
	return "", fmt.Errorf("the Lease is held by %q, which is gone", holder)
}

// operatorServes waits until a leader is at work and the plugin redis is loaded.
func operatorServes(ctx context.Context) error {
	_, err := poll(ctx, readyIn, "the operator leads and has loaded the plugin redis", func() error {
		if _, err := leader(ctx); err != nil {
			return err
		}
		plugin := &platformv1.Plugin{}
		if err := world.client.Get(ctx, client.ObjectKey{Name: "redis-1.0.0"}, plugin); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) {
			return fmt.Errorf("plugin %q is not accepted: %s", plugin.Name, describe(plugin.Status.Conditions))
		}
		return nil
	})
	return err
}

// common is the common operator, installed when a test first needs it: those of the charts want to be alone.
var common sync.Once

// commonOperatorServes waits until the common operator has loaded the plugin nginx.
func (s *space) commonOperatorServes() {
	s.Helper()
	common.Do(func() { s.mustInstall(commonOperator) })
	s.pluginAccepted("nginx-1.0.0", "common")
}

// storage installs the storage operator once for all tests.
var storage sync.Once

// storageOperatorServes installs the storage operator, where no test has, and waits until it has its plugin.
func (s *space) storageOperatorServes() {
	s.Helper()
	storage.Do(func() { s.mustInstall(storageOperator) })
	s.pluginAccepted("minio-1.0.0", "storage")
	s.pluginAccepted("minio-1.1.0", "storage")
	s.pluginAccepted("minio-1.3.0", "storage")
	s.pluginAccepted("s3-external-1.0.0", "storage")
	s.pluginAccepted("s3-external-1.1.0", "storage")
	s.pluginAccepted("s3-external-1.3.0", "storage")
}

// pluginAccepted waits until the operator of a domain has a plugin.
func (s *space) pluginAccepted(name, domain string) {
	s.Helper()
	s.eventually(settleIn, fmt.Sprintf("the plugin %s is accepted", name), func() error {
		plugin := &platformv1.Plugin{}
		if err := world.client.Get(s.ctx, client.ObjectKey{Name: name}, plugin); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) || plugin.Labels[platformv1.DomainLabel] != domain {
			return fmt.Errorf("its domain is %q, and it says: %s", plugin.Labels[platformv1.DomainLabel], describe(plugin.Status.Conditions))
		}
		return nil
	})
}

// mustLeader waits for a leader and returns its pod.
func (s *space) mustLeader() string {
	s.Helper()
	var name string
	s.eventually(leaderIn, "there is a leader", func() (err error) {
		name, err = leader(s.ctx)
		return err
	})
	return name
}

// deleteOperator deletes all pods of the operator as "kubectl delete --force" does. The kubelet still gives them a moment, in which
// a leader gives its Lease back.
func (s *space) deleteOperator() {
	s.Helper()
	err := world.kube.CoreV1().Pods(operatorNamespace).DeleteCollection(s.ctx,
		*metav1.NewDeleteOptions(0), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + operatorName})
	if err != nil {
		s.Fatalf("cannot delete the operator's pods: %v", err)
	}
}

// stopOperator has no operator run. What runs by itself goes on meanwhile. It is installed again at the end of the test, if not before.
func (s *space) stopOperator() {
	s.Helper()
	s.restoreOperator()
	if err := install(s.ctx, operatorName, "replicas=0"); err != nil {
		s.Fatal(err)
	}
	s.eventually(readyIn, "the operator is gone", func() error {
		// One that is being deleted still answers.
		var pods corev1.PodList
		err := world.client.List(s.ctx, &pods, client.InNamespace(operatorNamespace), client.MatchingLabels{"app.kubernetes.io/name": operatorName})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there are %d pods", len(pods.Items))
		}
		return err
	})
}

// startOperator has it run again.
func (s *space) startOperator() {
	s.Helper()
	if err := install(s.ctx, operatorName); err != nil {
		s.Fatal(err)
	}
	if err := operatorServes(s.ctx); err != nil {
		s.Fatal(err)
	}
}

// aimAtOperator returns what kills every replica of the operator with SIGKILL. The pods are deleted then, so that the kubelet's growing
// delay before it starts a container again is not what is measured.
func (s *space) aimAtOperator() (shoot func()) {
	s.Helper()
	pods, err := operatorPods(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	kill := s.aimAtPods(pods...)
	return func() {
		kill()
		s.deleteOperator()
	}
}

// aimAtPods returns what kills the first process of every running container of pods.
func (s *space) aimAtPods(pods ...corev1.Pod) (shoot func()) {
	s.Helper()
	var ids []string
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Running != nil {
				ids = append(ids, status.ContainerID)
			}
		}
	}
	return s.aimFromNode(ids...)
}

// scrape reads the metrics of a pod of the operator.
func scrape(ctx context.Context, pod string) (string, error) {
	return fetch(ctx, pod, metricsPort, "metrics")
}

// fetch reads a page of a pod of the operator through the API server.
func fetch(ctx context.Context, pod string, port int, path string) (string, error) {
	data, err := world.kube.CoreV1().RESTClient().Get().Namespace(operatorNamespace).Resource("pods").
		Name(fmt.Sprintf("%s:%d", pod, port)).SubResource("proxy").Suffix(path).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot read /%s of pod %q: %w", path, pod, err)
	}
	return string(data), nil
}

// sample sums the values of all series of a metric whose labels contain all of the given texts.
// It says whether there was one.
func sample(page, metric string, labels ...string) (sum float64, found bool) {
	for line := range strings.Lines(page) {
		// Labels may hold blanks, and no page that is read here has times behind the values.
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		if end < 0 {
			continue
		}
		series, value := line[:end], line[end+1:]
		if series != metric && !strings.HasPrefix(series, metric+"{") {
			continue
		}
		wanted := true
		for _, label := range labels {
			wanted = wanted && strings.Contains(series, label)
		}
		var number float64
		if _, err := fmt.Sscan(value, &number); wanted && err == nil {
			sum, found = sum+number, true
		}
	}
	return sum, found
}
