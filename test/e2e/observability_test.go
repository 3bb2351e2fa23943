// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

// exporterPort and etcdMetricsPort are where the plugins serve metrics.
const (
	exporterPort    = 9121
	etcdMetricsPort = 2381
)

// metricsOf reads the metrics of a pod as a Prometheus does, from a pod of the test's own.
func (a *application) metricsOf(pod *corev1.Pod, port int) (string, error) {
	a.Helper()
	return run(a.ctx, a.space.name, a.clientPod(), clientName, "", "timeout", "10", "wget", "-q", "-O", "-", fmt.Sprintf("http://%s:%d/metrics", pod.Status.PodIP, port))
}

// wantSample waits until a metric of a pod has a value.
func (a *application) wantSample(pod *corev1.Pod, port int, want float64, metric string, labels ...string) {
	a.Helper()
	a.eventually(settleIn, fmt.Sprintf("%s of pod %q is %v", metric, pod.Name, want), func() error {
		page, err := a.metricsOf(pod, port)
		if err != nil {
			return err
		}
		if got, found := sample(page, metric, labels...); !found || got != want {
			return fmt.Errorf("it is %v (there: %t)", got, found)
		}
		return nil
	})
}

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

// TestMonitoring proves that the metrics of a running server can be read where they are asked for, by whom the NetworkPolicy lets,
// and that its password is on no command line and in no pod.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "monitoring")
	spec := platformv1.ApplicationSpec{
		Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0", Topology: "standalone", NetworkPolicy: &platformv1.NetworkPolicy{},
		Components: []platformv1.ApplicationComponent{{Name: "redis", Monitoring: &platformv1.Monitoring{Enabled: true}}},
	}
	a := s.apply("watched", spec)
	members := etcdApplication()
	one := int32(1)
	members.Components[0].Replicas = &one
	monitored(etcdComponent, &platformv1.Monitoring{Enabled: true})(&members)
	e := s.apply("members", members)
	a.ready()
	a.eventually(settleIn, "it says that there are no PodMonitors", func() error {
		if got := meta.FindStatusCondition(a.object().Status.Conditions, platformv1.MonitoredCondition); got == nil || got.Status != metav1.ConditionFalse || got.Reason != platformv1.ReasonPodMonitorNotFound {
			return fmt.Errorf("the condition is %v", got)
		}
		return nil
	})
	pod := a.pods()[0]
	a.wantSample(&pod, exporterPort, 1, "redis_up")
	a.wantSample(&pod, exporterPort, 1, "redis_instance_info", `redis_version="7.0.`, `role="master"`)
	a.checkPasswordOfExporter(&pod)

	e.ready()
	member := e.pods()[0]
	e.wantSample(&member, etcdMetricsPort, 1, "etcd_server_has_leader")

	// Another namespace alone may read them now.
	a.update(func(spec *platformv1.ApplicationSpec) {
		spec.NetworkPolicy.MonitoringFrom = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"},
		}}}
	})
	a.eventually(settleIn, "the metrics are kept from those who may not read them", func() error {
		if _, err := a.metricsOf(&pod, exporterPort); err == nil {
			return fmt.Errorf("they are answered")
		}
		return nil
	})
	a.update(monitored("redis", nil))
	a.eventually(readyIn, "the exporter goes", func() error {
		pods := a.pods()
		if len(pods) != 1 || slices.ContainsFunc(pods[0].Spec.Containers, func(c corev1.Container) bool { return c.Name == "exporter" }) {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	a.ready()
}

// checkPasswordOfExporter looks for the password in the pod and on the exporter's command line.
func (a *application) checkPasswordOfExporter(pod *corev1.Pod) {
	a.Helper()
	secret := &corev1.Secret{}
	a.mustGet(platformv1.CredentialNameFor(a.name, "default"), secret)
	password := string(secret.Data["password"])
	line, err := run(a.ctx, a.space.name, pod.Name, "exporter", "", "cat", "/proc/1/cmdline")
	if err != nil || !strings.Contains(line, "redis-exporter") {
		a.Fatalf("the command line is %q, %v", line, err)
	}
	if strings.Contains(line, password) || strings.Contains(pod.String(), password) {
		a.Error("the password can be seen")
	}
}

// TestAccessLogs proves that requests are on the standard output, or, where that is asked for, on a volume that outlives the pod
// and is never full of them.
func TestAccessLogs(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "logs")
	s.commonOperatorServes()
	n := &nginx{s.apply("web", nginxApplication())}
	n.update(replicas(nginxComponent, 1))
	n.havePods("web-nginx-main-0")
	pod := n.pods()[0]
	n.eventually(settleIn, "a request is on the standard output", func() error {
		n.request("on-output")
		out, err := logs(n.ctx, n.space.name, pod.Name, nginxComponent)
		if err == nil && !strings.Contains(out, "on-output") {
			err = fmt.Errorf("it is not")
		}
		return err
	})

	n.update(component(nginxComponent, func(c *platformv1.ApplicationComponent) {
		c.Logs = &platformv1.Logs{Volume: &platformv1.LogsVolume{Size: resource.MustParse("16Mi")}}
	}))
	n.eventually(readyIn, "the pod is replaced", func() error {
		if pods := n.pods(); len(pods) != 1 || pods[0].UID == pod.UID {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	n.ready()
	if _, there := n.claims()["logs-web-nginx-main-0"]; !there {
		t.Errorf("the claims are %v", n.claims())
	}
	n.eventually(settleIn, "a request is on the volume", func() error {
		n.request("on-volume")
		return n.logged("access.log", "on-volume")
	})

	pod = n.pods()[0]
	n.delete(&pod)
	n.eventually(readyIn, "another pod takes its place", func() error {
		if pods := n.pods(); len(pods) != 1 || pods[0].UID == pod.UID {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	n.ready()
	n.wantLogged("access.log", "on-volume")

	// More than a fifth of what logs may take: the file is renamed, and nginx goes on in another.
	if out, err := n.exec(pod.Name, "sh", "-c", "dd if=/dev/zero bs=1M count=3 >> /var/log/nginx/access.log"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n.wantLogged("access.log.1", "on-volume")
	n.eventually(settleIn, "requests are in the new file", func() error {
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
	out, err := n.exec(n.pods()[0].Name, "sh", "-c", "wget -q -O /dev/null http://"+n.name+":8080/"+path+" 2>&1 || true")
	if err != nil {
		n.Fatalf("%v: %s", err, out)
	}
}

// wantLogged waits until a file of the volume has a request.
func (n *nginx) wantLogged(file, request string) {
	n.Helper()
	n.eventually(settleIn, fmt.Sprintf("%s has %s", file, request), func() error { return n.logged(file, request) })
}

// logged says what is wrong unless a file of the volume has a request.
func (n *nginx) logged(file, request string) error {
	n.Helper()
	out, err := n.exec(n.pods()[0].Name, "grep", "-c", request, "/var/log/nginx/"+file)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
