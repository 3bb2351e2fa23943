// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// Where the plugins serve metrics.
const (
	exporterPort     = 9121
	etcdMetricsPort  = 2381
	nginxMetricsPort = 9113
)

func monitored(component string, on *platformv1.Monitoring) func(*platformv1.ApplicationSpec) {
	return func(spec *platformv1.ApplicationSpec) {
		for i := range spec.Components {
			if spec.Components[i].Name == component {
				spec.Components[i].Monitoring = on
				return
			}
		}
		spec.Components = append(spec.Components, platformv1.ApplicationComponent{Name: component, Monitoring: on})
	}
}

// TestMonitoring proves that the metrics of a running server can be read where they are asked for, by whom the
// NetworkPolicy lets, and that its password is on no command line and in no pod.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "monitoring")
	spec := platformv1.ApplicationSpec{
		Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0", Topology: "standalone",
		NetworkPolicy: &platformv1.NetworkPolicy{},
		Components:    []platformv1.ApplicationComponent{{Name: "redis", Monitoring: &platformv1.Monitoring{Enabled: true}}},
	}
	a := s.CreateApplication("watched", spec)
	members := etcdApplication()
	one := int32(1)
	members.Components[0].Replicas = &one
	monitored(etcdComponent, &platformv1.Monitoring{Enabled: true})(&members)
	e := s.CreateApplication("members", members)
	a.WaitReady()
	a.Eventually(framework.SettleTimeout, "it says that there are no PodMonitors", func() error {
		if got := meta.FindStatusCondition(a.Object().Status.Conditions, platformv1.MonitoredCondition); got == nil ||
			got.Status != metav1.ConditionFalse || got.Reason != platformv1.ReasonPodMonitorNotFound {
			return fmt.Errorf("the condition is %v", got)
		}
		return nil
	})
	pod := a.Pods()[0]
	a.WaitForSample(&pod, exporterPort, 1, "redis_up")
	a.WaitForSample(&pod, exporterPort, 1, "redis_instance_info", `redis_version="7.0.`, `role="master"`)
	checkPasswordOfExporter(a, &pod)

	e.WaitReady()
	member := e.Pods()[0]
	e.WaitForSample(&member, etcdMetricsPort, 1, "etcd_server_has_leader")

	// Another namespace alone may read them now.
	a.Update(func(spec *platformv1.ApplicationSpec) {
		spec.NetworkPolicy.MonitoringFrom = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"},
		}}}
	})
	a.Eventually(framework.SettleTimeout, "the metrics are kept from those who may not read them", func() error {
		if _, err := a.MetricsOf(&pod, exporterPort); err == nil {
			return fmt.Errorf("they are answered")
		}
		return nil
	})
	a.Update(monitored("redis", nil))
	a.Eventually(framework.ReadyTimeout, "the exporter goes", func() error {
		pods := a.Pods()
		if len(pods) != 1 || slices.ContainsFunc(pods[0].Spec.Containers,
			func(c corev1.Container) bool { return c.Name == "exporter" }) {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	a.WaitReady()
}

// TestMonitoringOfNginx proves that the numbers of an nginx can be read, and that its pods have an agent for that only
// while somebody wants them.
func TestMonitoringOfNginx(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "nginxmetrics")
	s.EnsureCommonOperator()
	spec := nginxApplication()
	monitored(nginxComponent, &platformv1.Monitoring{Enabled: true})(&spec)
	n := &nginx{s.CreateApplication("web", spec)}
	n.WaitReady()
	pod := n.Pods()[0]
	n.WaitForSample(&pod, nginxMetricsPort, 1, "nginx_query_success", `query="status"`)
	for range 20 {
		n.request("")
	}
	n.Eventually(framework.SettleTimeout, "the requests are counted", func() error {
		all := 0.0
		for _, pod := range n.Pods() {
			page, err := n.MetricsOf(&pod, nginxMetricsPort)
			if err != nil {
				return err
			}
			requests, found := framework.Sample(page, "nginx_requests_total")
			if !found {
				return fmt.Errorf("pod %s tells of none", pod.Name)
			}
			all += requests
		}
		if all < 20 {
			return fmt.Errorf("there are %v", all)
		}
		return nil
	})
	n.Update(monitored(nginxComponent, nil))
	n.Eventually(framework.ReadyTimeout, "the agent goes", func() error {
		for _, pod := range n.Pods() {
			if len(pod.Spec.Containers) != 2 {
				return fmt.Errorf("pod %s has %d containers", pod.Name, len(pod.Spec.Containers))
			}
		}
		return nil
	})
	n.WaitReady()
}

// checkPasswordOfExporter looks for the password in the pod and on the exporter's command line.
func checkPasswordOfExporter(a *framework.Application, pod *corev1.Pod) {
	a.Helper()
	secret := &corev1.Secret{}
	a.MustGet(platformv1.CredentialNameFor(a.Name, "default"), secret)
	password := string(secret.Data["password"])
	line, err := framework.Run(a.Ctx, a.Namespace.Name, pod.Name, "exporter", "", "cat", "/proc/1/cmdline")
	if err != nil || !strings.Contains(line, "redis-exporter") {
		a.Fatalf("the command line is %q, %v", line, err)
	}
	if strings.Contains(line, password) || strings.Contains(pod.String(), password) {
		a.Error("the password can be seen")
	}
}

// TestAccessLogs proves that requests are on the standard output, or, where that is asked for, on a volume that
// outlives the pod and is never full of them.
func TestAccessLogs(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "logs")
	s.EnsureCommonOperator()
	n := &nginx{s.CreateApplication("web", nginxApplication())}
	n.Update(framework.WithComponentReplicas(nginxComponent, 1))
	n.WaitForPods("web-nginx-main-0")
	pod := n.Pods()[0]
	n.Eventually(framework.SettleTimeout, "a request is on the standard output", func() error {
		n.request("on-output")
		out, err := framework.Logs(n.Ctx, n.Namespace.Name, pod.Name, nginxComponent)
		if err == nil && !strings.Contains(out, "on-output") {
			err = fmt.Errorf("it is not")
		}
		return err
	})

	n.Update(framework.WithComponent(nginxComponent, func(c *platformv1.ApplicationComponent) {
		c.Logs = &platformv1.Logs{Volume: &platformv1.LogsVolume{Size: resource.MustParse("16Mi")}}
	}))
	n.Eventually(framework.ReadyTimeout, "the pod is replaced", func() error {
		if pods := n.Pods(); len(pods) != 1 || pods[0].UID == pod.UID {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	n.WaitReady()
	if _, there := n.Claims()["logs-web-nginx-main-0"]; !there {
		t.Errorf("the claims are %v", n.Claims())
	}
	n.Eventually(framework.SettleTimeout, "a request is on the volume", func() error {
		n.request("on-volume")
		return n.logged("access.log", "on-volume")
	})

	pod = n.Pods()[0]
	n.Delete(&pod)
	n.Eventually(framework.ReadyTimeout, "another pod takes its place", func() error {
		if pods := n.Pods(); len(pods) != 1 || pods[0].UID == pod.UID {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	n.WaitReady()
	n.wantLogged("access.log", "on-volume")

	// More than a fifth of what logs may take: the file is renamed, and nginx goes on in another.
	if out, err := n.exec(pod.Name, "sh", "-c", "dd if=/dev/zero bs=1M count=3 >> /var/log/nginx/access.log"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n.wantLogged("access.log.1", "on-volume")
	n.Eventually(framework.SettleTimeout, "requests are in the new file", func() error {
		n.request("afterwards")
		out, err := n.exec(pod.Name, "cat", "/var/log/nginx/access.log")
		if err == nil && !strings.Contains(out, "afterwards") {
			err = fmt.Errorf("they are not")
		}
		return err
	})
}

// request asks for a page by the Service, which there need not be.
func (n *nginx) request(path string) {
	n.Helper()
	out, err := n.exec(n.Pods()[0].Name, "sh", "-c", "wget -q -O /dev/null http://"+n.Name+":8080/"+path+" 2>&1 || true")
	if err != nil {
		n.Fatalf("%v: %s", err, out)
	}
}

// wantLogged waits until a file of the volume has a request.
func (n *nginx) wantLogged(file, request string) {
	n.Helper()
	n.Eventually(framework.SettleTimeout, fmt.Sprintf("%s has %s", file, request),
		func() error { return n.logged(file, request) })
}

// logged says what is wrong unless a file of the volume has a request.
func (n *nginx) logged(file, request string) error {
	n.Helper()
	out, err := n.exec(n.Pods()[0].Name, "grep", "-c", request, "/var/log/nginx/"+file)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
