// SPDX-License-Identifier: Apache-2.0

package render

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestPodOfEachOrdinal(t *testing.T) {
	b := redis(t, "    - name: redis\n      volumeMounts", "    - name: redis\n      env:\n        - {name: SELF, "+
		"value: \"${pod.fqdn}:${component.headless}\"}\n        - {name: N, value: \"${pod.ordinal}\"}\n        - {name: "+
		"COST, value: \"$${pod.name}\"}\n      volumeMounts")
	ws, _ := render(t, b, settings, application(nil))
	for ordinal, name := range map[int32]string{0: "cache-redis-main-0", 12: "cache-redis-main-12"} {
		p := pod(t, ws, ordinal)
		if p.Name != name || p.Spec.Hostname != name || p.Spec.Subdomain != "cache-redis-headless" || p.Namespace != "shop" {
			t.Errorf("pod is %s, hostname %s.%s", p.Name, p.Spec.Hostname, p.Spec.Subdomain)
		}
		env := map[string]string{}
		for _, e := range p.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		domain := "cache-redis-headless.shop.svc.cluster.local"
		if env["SELF"] != name+"."+domain+":"+domain || env["N"] != strings.TrimPrefix(name, "cache-redis-main-") ||
			env["COST"] != "${pod.name}" {
			t.Errorf("environment is %v", env)
		}
		volumes := map[string]corev1.Volume{}
		for _, v := range p.Spec.Volumes {
			volumes[v.Name] = v
		}
		if got := volumes["data"].PersistentVolumeClaim.ClaimName; got != "data-"+name {
			t.Errorf("claim is %q", got)
		}
		if got := volumes["zeroinfra-tls"].Secret.SecretName; got != name+"-agent" {
			t.Errorf("certificate is %q", got)
		}
		if p.Labels[platformv1.RevisionLabel] != ws.Spec.Revision || p.Labels[platformv1.OrdinalLabel] == "" ||
			p.Labels[platformv1.DomainLabel] != "database" {
			t.Errorf("labels are %v", p.Labels)
		}
		if _, ok := p.Labels[platformv1.RoleLabel]; ok {
			t.Error("a new pod has a role")
		}
	}
	ws.Spec.Template.Raw = []byte("{")
	if _, err := Pod(ws, 0); err == nil || !strings.Contains(err.Error(), `cannot render pod "cache-redis-main-0"`) {
		t.Errorf("a broken template gives %v", err)
	}
}

func TestClusterDomain(t *testing.T) {
	b := redis(t, "    - name: redis\n      volumeMounts",
		"    - name: redis\n      env: [{name: SELF, value: \"${pod.fqdn}\"}]\n      volumeMounts")
	s := settings
	s.ClusterDomain = "corp.example"
	ws, _ := render(t, b, s, application(nil))
	got := pod(t, ws, 0).Spec.Containers[0].Env
	if got[len(got)-1].Value != "cache-redis-main-0.cache-redis-headless.shop.svc.corp.example" {
		t.Errorf("environment is %v", got)
	}
}

// A parameter value is a value: it changes no shape, and is no placeholder in a pod either.
func TestParameterValuesStayValues(t *testing.T) {
	b := redis(t, "    - name: redis\n      volumeMounts", "    - name: redis\n      env: [{name: TITLE, value: "+
		"\"${'proc-title-template' in params ? params['proc-title-template'] : ''}\"}]\n      volumeMounts")
	const hostile = "${port} $${title}"
	ws, _ := render(t, b, settings, application(component(func(c *platformv1.ApplicationComponent) {
		c.Parameters = platformv1.Parameters{"proc-title-template": hostile}
	})))
	env := pod(t, ws, 0).Spec.Containers[0].Env
	if got := env[len(env)-1].Value; got != hostile {
		t.Errorf("the value became %q; want %q", got, hostile)
	}
	p, err := Plan(ws)
	if err != nil {
		t.Fatal(err)
	}
	last := p.Files[0].Entries[len(p.Files[0].Entries)-1]
	if last.Key != "proc-title-template" || len(last.Args) != 1 {
		t.Fatalf("the entry is %+v", last)
	}
	if got, err := podtext.Expand(last.Args[0], podtext.PodOf("cache-redis-main-0", p.Domain)); err != nil ||
		got != hostile {
		t.Errorf("the agents make %q of %q: %v; want %q", got, last.Args[0], err, hostile)
	}
}

func TestCredentials(t *testing.T) {
	b := redis(t)
	for _, tc := range []struct {
		own  *platformv1.SecretKeyReference
		want platformv1.SecretKeyReference
	}{
		{nil, platformv1.SecretKeyReference{Name: "cache-default", Key: "password"}},
		{&platformv1.SecretKeyReference{Name: "mine"}, platformv1.SecretKeyReference{Name: "mine", Key: "password"}},
		{&platformv1.SecretKeyReference{Name: "mine", Key: "redis"},
			platformv1.SecretKeyReference{Name: "mine", Key: "redis"}},
	} {
		app := application(func(a *platformv1.Application) {
			if tc.own != nil {
				a.Spec.Credentials = []platformv1.Credential{{Name: "default", PasswordFrom: *tc.own}}
			}
		})
		specs, refusal := Components(b, app)
		if refusal != nil || specs[0].Credentials[0].PasswordFrom != tc.want {
			t.Errorf("got %+v, %v; want %+v", specs, refusal, tc.want)
		}
		ws, _ := render(t, b, settings, app)
		found := false
		for _, v := range pod(t, ws, 0).Spec.Volumes {
			if v.Name == "zeroinfra-secrets" {
				s := v.Projected.Sources[0].Secret
				// The engine's own, whoever supplies the password: it has the revision that belongs to it.
				found = s.Name == "cache-default" && s.Items[0].Key == "password" && s.Items[0].Path == "default/password" &&
					s.Items[1].Key == "revision" && s.Items[1].Path == "default/revision"
			}
		}
		if !found {
			t.Error("the Secret is not mounted")
		}
	}
}

func TestSettingsOfServices(t *testing.T) {
	b := redis(t, "        exposure: Client\n", "        exposure: Client\n      - {name: any, ports: [redis], "+
		"exposure: Client}\n      - {name: own, ports: [redis], exposure: Internal}\n")
	dual := corev1.IPFamilyPolicyPreferDualStack
	exposure := &platformv1.ServiceExposure{
		ServiceSettings: platformv1.ServiceSettings{
			Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]string{"host": "db.example.com"},
			LoadBalancerSourceRanges: []string{"192.0.2.0/24"}, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		},
		IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, IPFamilyPolicy: &dual,
	}
	_, output := render(t, b, settings,
		application(component(func(c *platformv1.ApplicationComponent) { c.Service = exposure })))
	for i, want := range []struct {
		name string
		kind corev1.ServiceType
		host string
	}{
		{"cache-redis-headless", corev1.ServiceTypeClusterIP, ""},
		{"cache", corev1.ServiceTypeLoadBalancer, "db.example.com"},
		{"cache-any", corev1.ServiceTypeClusterIP, ""}, {"cache-own", corev1.ServiceTypeClusterIP, ""},
	} {
		got := output.Services[i]
		if got.Name != want.name || got.Spec.Type != want.kind || got.Annotations["host"] != want.host ||
			!slices.Equal(got.Spec.IPFamilies, exposure.IPFamilies) || *got.Spec.IPFamilyPolicy != dual {
			t.Errorf("Service %d is %+v, want %+v", i, got, want)
		}
		if first := want.name == "cache"; first != (len(got.Spec.LoadBalancerSourceRanges) > 0) ||
			first != (got.Spec.ExternalTrafficPolicy != "") {
			t.Errorf("Service %d lets in %v by the policy %q", i, got.Spec.LoadBalancerSourceRanges,
				got.Spec.ExternalTrafficPolicy)
		}
	}

	exposure.Overrides = []platformv1.ServiceOverride{
		{Name: "any", ServiceSettings: platformv1.ServiceSettings{Type: corev1.ServiceTypeNodePort}}}
	_, output = render(t, b, settings, application(
		component(func(c *platformv1.ApplicationComponent) { c.Service = exposure })))
	if other := output.Services[2]; other.Spec.Type != corev1.ServiceTypeNodePort || len(other.Annotations) > 0 {
		t.Errorf("the other Service is %+v", other)
	}
	for name, says := range map[string]string{"own": `its other Services for clients are ["any"]`,
		"primary": `has service.overrides for "primary"`} {
		exposure.Overrides[0].Name = name
		app := application(component(func(c *platformv1.ApplicationComponent) { c.Service = exposure }))
		if _, refusal := Components(b, app); refusal == nil || !strings.Contains(refusal.Message, says) {
			t.Errorf("an override of %q gives %v, want %q", name, refusal, says)
		}
	}
}

func TestServicesAndBinding(t *testing.T) {
	b := redis(t)
	annotations := map[string]string{"a": "b"}
	_, output := render(t, b, settings, application(component(func(c *platformv1.ApplicationComponent) {
		c.Service = &platformv1.ServiceExposure{
			ServiceSettings: platformv1.ServiceSettings{Type: corev1.ServiceTypeNodePort, Annotations: annotations}}
	})))
	headless, client := output.Services[0], output.Services[1]
	if headless.Name != "cache-redis-headless" || headless.Spec.ClusterIP != "None" ||
		!headless.Spec.PublishNotReadyAddresses || headless.Spec.Selector[platformv1.RoleLabel] != "" {
		t.Errorf("headless Service is %+v", headless)
	}
	if client.Name != "cache" || client.Spec.Type != corev1.ServiceTypeNodePort || client.Annotations["a"] != "b" ||
		client.Spec.Selector[platformv1.RoleLabel] != "primary" {
		t.Errorf("client Service is %+v", client)
	}
	want := []platformv1.Endpoint{{Name: "cache", Host: "cache.shop.svc", Port: 6379, Role: "primary",
		Type: corev1.ServiceTypeNodePort}}
	if !reflect.DeepEqual(output.Endpoints, want) {
		t.Errorf("endpoints are %+v", output.Endpoints)
	}
	data := Binding(b, "cache", "standalone", output.Endpoints, Login{Username: "default", Password: "p@ss:/word"}, nil)
	for key, value := range map[string]string{
		"type": "redis", "provider": "zeroinfra", "host": "cache.shop.svc", "port": "6379",
		"username": "default", "password": "p@ss:/word", "uri": "redis://default:p%40ss%3A%2Fword@cache.shop.svc:6379",
	} {
		if string(data[key]) != value {
			t.Errorf("%s is %q; want %q", key, data[key], value)
		}
	}
	if data["host-ro"] != nil || data["uri-ro"] != nil {
		t.Errorf("there are no replicas, and the binding names %s", data["host-ro"])
	}
	named := Login{Username: "default", Password: "p", Database: "shop"}
	data = Binding(b, "cache", "standalone", output.Endpoints, named, nil)
	if string(data["database"]) != "shop" || string(data["uri"]) != "redis://default:p@cache.shop.svc:6379/shop" {
		t.Errorf("of a database the binding says %q and %q", data["database"], data["uri"])
	}
	if Binding(b, "cache", "standalone", nil, Login{Username: "u", Password: "p"}, nil) != nil {
		t.Error("there is a binding without an endpoint")
	}
	replicas := slices.Concat(output.Endpoints,
		[]platformv1.Endpoint{{Name: "cache-replica", Host: "cache-replica.shop.svc", Port: 6379, Role: "replica"}})
	b.Components.Binding.ReadOnlyService = "replica"
	data = Binding(b, "cache", "standalone", replicas, Login{Username: "default", Password: "p"}, nil)
	if string(data["host-ro"]) != "cache-replica.shop.svc" ||
		string(data["uri-ro"]) != "redis://default:p@cache-replica.shop.svc:6379" {
		t.Errorf("for reads the binding names %s and %s", data["host-ro"], data["uri-ro"])
	}
}

// A probe can be a command of the ops agent, also in pods that do not have its container.
func TestOpsAgentIsInPodsWhoseProbeIsItsCommand(t *testing.T) {
	b := redis(t)
	b.Components.Entities = nil
	declared := &b.Components.Components[0]
	declared.Driver, declared.Actions, declared.Failover, declared.Monitoring = nil, nil, nil, nil
	c := &context{bundle: b, settings: settings, declared: declared, spec: &platformv1.ComponentSpec{}}
	for command, want := range map[string][]string{
		"/usr/bin/redis-cli":       {"/agent", "init"},
		"/zeroinfra/bin/agent-ops": {"/agent", "init", "--with", "agent-ops"},
	} {
		p := &plan.Plan{Probe: plan.Probe{Command: []string{command, "-p", "6379"}}}
		if got := c.initContainer(p).Command; !slices.Equal(got, want) {
			t.Errorf("with the probe %s the agents are brought by %v, want %v", command, got, want)
		}
	}
	if c.needsOps() {
		t.Error("the pod has the container of the ops agent, with nothing to do")
	}
}
