// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

const (
	// metricsPort is where the operator serves metrics.
	metricsPort = 8080
	// ProbesPort is where the operator serves probes.
	ProbesPort = 8081
)

// LeaderTimeout is when a test gives up on a new leader after the old one was killed: a Lease that nobody
// gave back lasts 15 s; the test logs what it took.
const LeaderTimeout = 3 * time.Minute

// OperatorPods returns the pods of the operator that are not being deleted.
func OperatorPods(ctx context.Context) ([]corev1.Pod, error) { return PodsOf(ctx, OperatorName) }

// PodsOf is OperatorPods for any operator.
func PodsOf(ctx context.Context, operator string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := Cluster.Client.List(ctx, &pods, client.InNamespace(OperatorNamespace),
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

// Leader returns the name of the pod that holds the operator's Lease, when that pod is there.
func Leader(ctx context.Context) (string, error) { return LeaderOf(ctx, OperatorName) }

// LeaderOf is Leader for any operator.
func LeaderOf(ctx context.Context, operator string) (string, error) {
	lease, err := leaseOf(ctx, operator)
	if err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("nobody holds the operator's Lease")
	}
	// The identity is "<pod>_<uuid>".
	holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	pods, err := PodsOf(ctx, operator)
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

// LedSince returns nil once somebody has renewed an operator's Lease after this time: who lost it meanwhile leads
// again, or another one does.
func LedSince(ctx context.Context, operator string, since time.Time) error {
	lease, err := leaseOf(ctx, operator)
	if err != nil {
		return err
	}
	if lease.Spec.RenewTime == nil || !lease.Spec.RenewTime.After(since) {
		return fmt.Errorf("the Lease of %s was renewed last at %s", operator, lease.Spec.RenewTime)
	}
	_, err = LeaderOf(ctx, operator)
	return err
}

func leaseOf(ctx context.Context, operator string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: OperatorNamespace, Name: operator + ".zeroinfra.github.com"}
	return lease, Cluster.Client.Get(ctx, key, lease)
}

// WaitForOperator waits until a leader is at work and the plugin redis is loaded.
func WaitForOperator(ctx context.Context) error {
	_, err := Poll(ctx, ReadyTimeout, "the operator leads and has loaded the plugin redis", func() error {
		if _, err := Leader(ctx); err != nil {
			return err
		}
		plugin := &platformv1.Plugin{}
		if err := Cluster.Client.Get(ctx, client.ObjectKey{Name: "redis-1.0.0"}, plugin); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) {
			return fmt.Errorf("plugin %q is not accepted: %s", plugin.Name, Describe(plugin.Status.Conditions))
		}
		return nil
	})
	return err
}

// added are the operators that tests of this package installed, each when a test first needed it: the tests of the
// charts need a cluster without them.
var added struct {
	sync.Mutex
	// attempted are those that a test has asked for, charts those that were not there before.
	attempted map[string]bool
	charts    []string
}

// EnsureOperator installs an operator of the suite, where no test of this package has. Main uninstalls it at the end,
// unless it was there before.
func (s *Namespace) EnsureOperator(chart string) {
	s.Helper()
	added.Lock()
	defer added.Unlock()
	if added.attempted[chart] {
		return
	}
	if added.attempted == nil {
		added.attempted = map[string]bool{}
	}
	added.attempted[chart] = true
	if !Installed(s.Ctx, chart) {
		added.charts = append(added.charts, chart)
	}
	s.MustInstall(chart)
}

// uninstallAdded uninstalls what EnsureOperator installed.
func uninstallAdded(ctx context.Context) error {
	added.Lock()
	defer added.Unlock()
	var failed []error
	for _, chart := range added.charts {
		failed = append(failed, Uninstall(ctx, chart))
	}
	added.charts = nil
	return errors.Join(failed...)
}

// EnsureCommonOperator installs the common operator, where no test has, and waits until it has loaded the plugin nginx.
func (s *Namespace) EnsureCommonOperator() {
	s.Helper()
	s.EnsureOperator(CommonOperator)
	s.WaitForPlugin("nginx-1.0.0", "common")
}

// EnsureStorageOperator installs the storage operator, where no test has, and waits until it has loaded its plugins.
func (s *Namespace) EnsureStorageOperator() {
	s.Helper()
	s.EnsureOperator(StorageOperator)
	for _, plugin := range []string{"minio-1.0.0", "s3-external-1.0.0"} {
		s.WaitForPlugin(plugin, "storage")
	}
}

// WaitForPlugin waits until the operator of a domain has a plugin.
func (s *Namespace) WaitForPlugin(name, domain string) {
	s.Helper()
	s.Eventually(SettleTimeout, fmt.Sprintf("the plugin %s is accepted", name), func() error {
		plugin := &platformv1.Plugin{}
		if err := Cluster.Client.Get(s.Ctx, client.ObjectKey{Name: name}, plugin); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) ||
			plugin.Labels[platformv1.DomainLabel] != domain {
			return fmt.Errorf("its domain is %q, and it says: %s", plugin.Labels[platformv1.DomainLabel],
				Describe(plugin.Status.Conditions))
		}
		return nil
	})
}

// MustLeader waits for a leader and returns its pod.
func (s *Namespace) MustLeader() string {
	s.Helper()
	var name string
	s.Eventually(LeaderTimeout, "there is a leader", func() (err error) {
		name, err = Leader(s.Ctx)
		return err
	})
	return name
}

// DeleteOperatorPods deletes all pods of the operator as "kubectl delete --force" does. The kubelet still gives them a
// moment, in which a leader gives its Lease back.
func (s *Namespace) DeleteOperatorPods() {
	s.Helper()
	err := Cluster.Kube.CoreV1().Pods(OperatorNamespace).DeleteCollection(s.Ctx,
		*metav1.NewDeleteOptions(0), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + OperatorName})
	if err != nil {
		s.Fatalf("cannot delete the operator's pods: %v", err)
	}
}

// StopOperator has no operator run. What runs by itself goes on meanwhile. It is installed again at the end of the
// test, if not before.
func (s *Namespace) StopOperator() {
	s.Helper()
	s.RestoreOperatorAtEnd()
	if err := Install(s.Ctx, OperatorName, "replicas=0"); err != nil {
		s.Fatal(err)
	}
	s.Eventually(ReadyTimeout, "the operator is gone", func() error {
		// One that is being deleted still answers.
		var pods corev1.PodList
		err := Cluster.Client.List(s.Ctx, &pods, client.InNamespace(OperatorNamespace),
			client.MatchingLabels{"app.kubernetes.io/name": OperatorName})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there are %d pods", len(pods.Items))
		}
		return err
	})
}

// StartOperator has it run again.
func (s *Namespace) StartOperator() {
	s.Helper()
	if err := Install(s.Ctx, OperatorName); err != nil {
		s.Fatal(err)
	}
	if err := WaitForOperator(s.Ctx); err != nil {
		s.Fatal(err)
	}
}

// PrepareOperatorKill returns what kills every replica of the operator with SIGKILL. The pods are deleted then, so that
// the kubelet's growing delay before it starts a container again is not what is measured.
func (s *Namespace) PrepareOperatorKill() (kill func()) {
	s.Helper()
	pods, err := OperatorPods(s.Ctx)
	if err != nil {
		s.Fatal(err)
	}
	killPods := s.PreparePodKill(pods...)
	return func() {
		killPods()
		s.DeleteOperatorPods()
	}
}

// KillOperator kills every replica of an operator with SIGKILL, has its pods be made anew, and waits until another one
// leads.
func (s *Namespace) KillOperator(operator string) {
	s.Helper()
	pods, err := PodsOf(s.Ctx, operator)
	if err != nil {
		s.Fatal(err)
	}
	s.PreparePodKill(pods...)()
	for i := range pods {
		s.Delete(&pods[i], GraceZero)
	}
	s.Eventually(LeaderTimeout, operator+" has a leader that was not there before", func() error {
		leader, err := LeaderOf(s.Ctx, operator)
		if err == nil && slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == leader }) {
			err = fmt.Errorf("it is %q still", leader)
		}
		return err
	})
}

// PreparePodKill returns what kills the first process of every running container of pods.
func (s *Namespace) PreparePodKill(pods ...corev1.Pod) (kill func()) {
	s.Helper()
	var ids []string
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Running != nil {
				ids = append(ids, status.ContainerID)
			}
		}
	}
	return s.PrepareContainerKill(ids...)
}

// ScrapeMetrics reads the metrics of a pod of the operator.
func ScrapeMetrics(ctx context.Context, pod string) (string, error) {
	return FetchFromOperator(ctx, pod, metricsPort, "metrics")
}

// FetchFromOperator reads a page of a pod of the operator through the API server.
func FetchFromOperator(ctx context.Context, pod string, port int, path string) (string, error) {
	data, err := Cluster.Kube.CoreV1().RESTClient().Get().Namespace(OperatorNamespace).Resource("pods").
		Name(fmt.Sprintf("%s:%d", pod, port)).SubResource("proxy").Suffix(path).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot read /%s of pod %q: %w", path, pod, err)
	}
	return string(data), nil
}

// Sample sums the values of all series of a metric whose labels contain all of the given texts.
// It says whether there was one.
func Sample(page, metric string, labels ...string) (sum float64, found bool) {
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
