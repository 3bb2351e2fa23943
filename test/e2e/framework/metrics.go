// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// MetricsOf reads the metrics of a pod as a Prometheus does, from a pod of the test's own.
func (a *Application) MetricsOf(pod *corev1.Pod, port int) (string, error) {
	a.Helper()
	return Run(a.Ctx, a.Namespace.Name, a.ClientPod(), ClientPodName, "", "timeout", "10", "wget", "-q", "-O", "-",
		fmt.Sprintf("http://%s:%d/metrics", pod.Status.PodIP, port))
}

// WaitForSample waits until a metric of a pod has a value.
func (a *Application) WaitForSample(pod *corev1.Pod, port int, want float64, metric string, labels ...string) {
	a.Helper()
	a.Eventually(SettleTimeout, fmt.Sprintf("%s of pod %q is %v", metric, pod.Name, want), func() error {
		page, err := a.MetricsOf(pod, port)
		if err != nil {
			return err
		}
		if got, found := Sample(page, metric, labels...); !found || got != want {
			return fmt.Errorf("it is %v (there: %t)", got, found)
		}
		return nil
	})
}
