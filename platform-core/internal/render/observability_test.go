// SPDX-License-Identifier: Apache-2.0

package render

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
)

func watched(change func(*platformv1.Monitoring)) func(*platformv1.Application) {
	return component(func(c *platformv1.ApplicationComponent) {
		c.Monitoring = &platformv1.Monitoring{Enabled: true}
		if change != nil {
			change(c.Monitoring)
		}
	})
}

// Metrics that are not wanted are nothing; wanted, they are another pod; and who reads them how often is nothing that a
// pod knows.
func TestRevisionKnowsMetricsAndNotTheirReaders(t *testing.T) {
	b := redis(t)
	without, _ := render(t, b, settings, application(nil))
	off, output := render(t, b, settings, application(watched(func(m *platformv1.Monitoring) { m.Enabled = false })))
	if off.Spec.Revision != without.Spec.Revision || string(off.Spec.Template.Raw) != string(without.Spec.Template.Raw) ||
		output.PodMonitor != nil {
		t.Error("metrics that are not wanted change something")
	}
	on, _ := render(t, b, settings, application(watched(nil)))
	if on.Spec.Revision == without.Spec.Revision {
		t.Error("metrics do not change the revision")
	}
	read, output := render(t, b, settings, application(watched(func(m *platformv1.Monitoring) {
		m.Interval, m.Labels = "5s", map[string]string{"team": "a"}
	})))
	if read.Spec.Revision != on.Spec.Revision || string(read.Spec.Template.Raw) != string(on.Spec.Template.Raw) {
		t.Error("who reads the metrics changes the pods")
	}
	if got := output.PodMonitor.GetLabels(); got["team"] != "a" || got[platformv1.DomainLabel] != "database" {
		t.Errorf("labels are %v", got)
	}
	for _, service := range output.Services {
		if slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "metrics" }) {
			t.Errorf("Service %s has the port of the metrics", service.Name)
		}
	}
}

// A password is never in a pod; its Secret is named. Where the process is looked at by itself, it has the port, and
// there is no exporter.
func TestWhoServesMetrics(t *testing.T) {
	set, _ := render(t, redis(t), settings, application(watched(nil)))
	pod, err := Pod(&platformv1.WorkloadSet{Spec: set.Spec}, 0)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "exporter" })
	if i < 0 {
		t.Fatal("there is no exporter")
	}
	exporter := pod.Spec.Containers[i]
	if len(exporter.Ports) != 1 || exporter.Ports[0].ContainerPort != 9121 || exporter.Ports[0].Name != "metrics" {
		t.Errorf("its ports are %v", exporter.Ports)
	}
	j := slices.IndexFunc(exporter.Env, func(e corev1.EnvVar) bool { return e.Name == "REDIS_PASSWORD" })
	if j < 0 || exporter.Env[j].Value != "" || exporter.Env[j].ValueFrom.SecretKeyRef.Name != "cache-default" ||
		exporter.Env[j].ValueFrom.SecretKeyRef.Key != "password" {
		t.Errorf("its environment is %v", exporter.Env)
	}
	without := redis(t, "      exporter: exporter\n", "",
		"      env:\n        - name: REDIS_ADDR\n          value: \"${app.tls ? 'rediss' : 'redis'}://127.0.0.1:6379\"\n"+
			"        - name: REDIS_PASSWORD\n          secret: {credential: default, key: password}\n        - name: "+
			"REDIS_EXPORTER_TLS_CA_CERT_FILE\n"+
			"          value: /zeroinfra/certs/ca.crt\n          when: app.tls\n", "      tls: true\n")
	own, output := render(t, without, settings, application(func(app *platformv1.Application) {
		watched(nil)(app)
		withTLS(nil)(app)
	}))
	if pod, err = Pod(&platformv1.WorkloadSet{Spec: own.Spec}, 0); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pod.Spec.Containers[0].Ports,
		func(p corev1.ContainerPort) bool { return p.Name == "metrics" }) {
		t.Errorf("the process has the ports %v", pod.Spec.Containers[0].Ports)
	}
	endpoints, _, err := unstructured.NestedSlice(output.PodMonitor.Object, "spec", "podMetricsEndpoints")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := endpoints[0].(map[string]any)
	ca, _, _ := unstructured.NestedString(endpoint, "tlsConfig", "ca", "secret", "name")
	name, _, _ := unstructured.NestedString(endpoint, "tlsConfig", "serverName")
	if endpoint["scheme"] != "https" || ca != "cache-trust" ||
		!slices.Contains(output.Certificate.Object["spec"].(map[string]any)["dnsNames"].([]any), any(name)) {
		t.Errorf("the endpoint is %v", endpoint)
	}
}

// Whoever reads metrics that are behind a credential is given the Secret that has it, and is given none else.
func TestMetricsBehindACredential(t *testing.T) {
	const declared = "      exporter: exporter\n"
	for added, want := range map[string]any{
		"": nil, "      credential: default\n": map[string]any{"type": "Bearer",
			"credentials": map[string]any{"name": "cache-default", "key": "password"}},
	} {
		_, output := render(t, redis(t, declared, declared+added), settings, application(watched(nil)))
		endpoints, _, err := unstructured.NestedSlice(output.PodMonitor.Object, "spec", "podMetricsEndpoints")
		if err != nil {
			t.Fatal(err)
		}
		if got := endpoints[0].(map[string]any)["authorization"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%q: the authorization is %v; want %v", added, got, want)
		}
	}
}

func TestMonitoringIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*platformv1.Monitoring)
		says   string
	}{
		"no label": {func(m *platformv1.Monitoring) { m.Labels = map[string]string{"a b": "c"} }, "which is no label"},
		"no value": {func(m *platformv1.Monitoring) { m.Labels = map[string]string{"a": "c d"} }, "which is no label"},
		"engine's label": {func(m *platformv1.Monitoring) { m.Labels = map[string]string{platformv1.DomainLabel: "sea"} },
			"is set by the engine"},
		"label of others": {func(m *platformv1.Monitoring) { m.Labels = map[string]string{platformv1.ManagedByLabel: "me"} },
			"is set by the engine"},
	} {
		_, refusal := Components(redis(t), application(watched(tc.change)))
		if refusal == nil || !strings.Contains(refusal.Message, tc.says) {
			t.Errorf("%s: got %v; want %q", name, refusal, tc.says)
		}
	}
}

func TestNetworkPolicyOfMetrics(t *testing.T) {
	from := []networkingv1.NetworkPolicyPeer{{}}
	ports := func(change func(*platformv1.Application)) (all []int32, last networkingv1.NetworkPolicyIngressRule) {
		_, output := render(t, redis(t), settings, application(func(app *platformv1.Application) {
			app.Spec.NetworkPolicy = &platformv1.NetworkPolicy{MonitoringFrom: from}
			if change != nil {
				change(app)
			}
		}))
		for _, rule := range output.NetworkPolicy.Spec.Ingress {
			last = rule
			for _, port := range rule.Ports {
				all = append(all, port.Port.IntVal)
			}
		}
		return all, last
	}
	if got, _ := ports(nil); slices.Contains(got, 9121) {
		t.Errorf("without metrics, ports %v are open", got)
	}
	got, last := ports(watched(nil))
	if len(last.Ports) != 1 || last.Ports[0].Port.IntVal != 9121 || len(last.From) != 1 {
		t.Errorf("ports %v are open, the last to %v", got, last)
	}
}

// What a volume of logs adds: a claim, a mount, bounds for the agent; and nothing for who asks for none.
func TestLogsVolume(t *testing.T) {
	b := redis(t, "    parameters: redis\n    cred",
		"    logs: {path: /log, files: [a.log], signal: SIGUSR1}\n    parameters: redis\n    cred")
	logged := func(size string) func(*platformv1.Application) {
		return component(func(c *platformv1.ApplicationComponent) {
			c.Logs = &platformv1.Logs{Volume: &platformv1.LogsVolume{Size: resource.MustParse(size),
				StorageClassName: new("fast")}}
		})
	}
	without, _ := render(t, b, settings,
		application(component(func(c *platformv1.ApplicationComponent) { c.Logs = &platformv1.Logs{} })))
	if plain, _ := render(t, redis(t), settings, application(nil)); plain.Spec.Revision != without.Spec.Revision {
		t.Error("logs on the standard output change the revision")
	}
	small, _ := render(t, b, settings, application(logged("100Mi")))
	large, _ := render(t, b, settings, application(logged("1Gi")))
	if small.Spec.Revision == without.Spec.Revision || small.Spec.Revision != large.Spec.Revision {
		t.Error("the revision is to know whether there is a volume, and not its size")
	}
	volume := small.Spec.Volumes[len(small.Spec.Volumes)-1]
	if volume.Name != podtemplate.LogsVolume || volume.Size.String() != "100Mi" || *volume.StorageClassName != "fast" {
		t.Errorf("the volume is %+v", volume)
	}
	p, err := Plan(&platformv1.WorkloadSet{Spec: small.Spec})
	if err != nil || p.Logs == nil || p.Logs.MaxBytes != 100<<20/100*80 || p.Logs.Dir != "/log" {
		t.Errorf("the plan has %+v, %v", p.Logs, err)
	}
	pod, err := Pod(&platformv1.WorkloadSet{Spec: small.Spec}, 0)
	if err != nil || !slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts,
		func(m corev1.VolumeMount) bool { return m.Name == "logs" && m.MountPath == "/log" }) {
		t.Errorf("the pod mounts %v, %v", pod.Spec.Containers[0].VolumeMounts, err)
	}
	if _, refusal := Components(b, application(logged("15Mi"))); refusal == nil ||
		!strings.Contains(refusal.Message, "at least 16Mi") {
		t.Errorf("got %v", refusal)
	}
}
