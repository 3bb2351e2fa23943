// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// nginxFolder is a plugin without roles whose process speaks HTTP.
var nginxFolder = filepath.Join("..", "..", "..", "common-operator", "plugins", "nginx", "1.0.0")

// asking are the sources of that plugin with another probe.
func asking(t *testing.T, probe string) map[Part]Source {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(nginxFolder), "nginx")
	if len(errs) > 0 {
		t.Fatalf("the nginx plugin cannot be read: %v", errs)
	}
	edit(t, sources, PartComponents, components, `command: [wget, -q, -O, "-", "http://127.0.0.1:8081/health"]`, probe)
	return sources
}

func TestProbesByHTTP(t *testing.T) {
	for probe, want := range map[string]map[bool]plan.HTTPProbe{
		"http: {port: http, path: '/health?all', tls: true}": {
			false: {Port: 8080, Path: "/health?all"}, true: {Port: 8080, Path: "/health?all", TLS: true}},
		"http: {port: http, path: /}": {false: {Port: 8080, Path: "/"}, true: {Port: 8080, Path: "/"}},
		"http: {port: http, path: '/${app.topology}', interval: '${app.tls ? \"30s\" : \"0s\"}', timeout: 5s}": {
			false: {Port: 8080, Path: "/web", TimeoutSeconds: 5},
			true:  {Port: 8080, Path: "/web", IntervalSeconds: 30, TimeoutSeconds: 5}},
	} {
		bundle, errs := Load(asking(t, probe))
		if len(errs) > 0 {
			t.Fatalf("%s: %v", probe, list(errs))
		}
		c, _ := bundle.Component("nginx")
		for tls, want := range want {
			values := sampleValues(c, "web", bundle.Manifest.SupportedVersions[0], 0)
			values.App.TLS = tls
			p, err := bundle.RenderPlan("nginx", values)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Probe; got.HTTP == nil || !reflect.DeepEqual(*got.HTTP, want) || got.Command != nil ||
				got.FailureThreshold != 3 {
				t.Errorf("%s, TLS %v: the probe is %+v; want %+v", probe, tls, got, want)
			}
		}
	}
}

func TestBrokenProbesByHTTP(t *testing.T) {
	for probe, says := range map[string]string{
		"":                   "components[0].probe must have a command, or http, or both",
		"http: {path: /}":    "components[0].probe.http.port is missing",
		"http: {port: http}": "components[0].probe.http.path is missing",
		"http: {port: http, path: there}": "components[0].probe.http.path is \"there\": it must be the path of " +
			"a URL",
		"http: {port: 8080, path: /}": "components[0].probe.http.port is 8080: it must " +
			"be text",
		"http: {port: web, path: /}": `components[0].probe.http.port names the port ` +
			`"web", which is not there: there is http, metrics`,
		"http: {port: metrics, path: /}":           "it is there only where metrics are wanted",
		"http: {port: http, path: '/${pod.name}'}": "a placeholder that uses pod is not allowed here",
		"http: {port: http, path: /, timeout: soon}": `components[0].probe.http.timeout is "soon": it ` +
			`must be whole seconds`,
		"http: {port: http, path: /}\n      env: [{name: A, value: b}]": "components[0].probe.env is for a command",
		"http: {port: http, path: /}\n      reserved: [-a]":             "components[0].probe.reserved is for a command",
		"http: {port: http, path: /, scheme: HTTPS}": `field "components[0].probe.http.scheme" is not ` +
			`known`,
	} {
		_, errs := Load(asking(t, probe))
		if !strings.Contains(list(errs), says) {
			t.Errorf("%s: got\n%s\nwant %q", probe, list(errs), says)
		}
	}
}

func TestProbesByHTTPSNeedTLS(t *testing.T) {
	sources := asking(t, "http: {port: http, path: /, tls: true}")
	text := sources[PartComponents].Data[components]
	begin := strings.Index(text, "    tls:\n")
	end := begin + strings.Index(text[begin:], "    # nginx tells its numbers")
	edit(t, sources, PartComponents, components, text[begin:end], "")
	_, errs := Load(sources)
	says := "components[0].probe.http.tls is true, and the component does not say that it can speak TLS"
	if !strings.Contains(list(errs), says) {
		t.Errorf("got\n%s\nwant %q", list(errs), says)
	}
}

// A command has to succeed once for each process, and the request is made after that.
func TestProbesOfBothKinds(t *testing.T) {
	bundle, errs := Load(asking(t,
		"command: ['true']\n      env: [{name: A, value: b}]\n      http: {port: http, path: /}"))
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	c, _ := bundle.Component("nginx")
	p, err := bundle.RenderPlan("nginx", sampleValues(c, "web", bundle.Manifest.SupportedVersions[0], 0))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Probe; got.HTTP == nil || len(got.Command) != 1 || len(got.Env) != 1 {
		t.Errorf("the probe is %+v", got)
	}
}
