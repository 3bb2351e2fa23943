// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"testing"
)

// brokerSources reads a plugin with what relay has not: Services of pods.
func brokerSources(t testing.TB) map[Part]Source {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(filepath.Join("..", "engine", "testdata", "plugins", "broker", "1.0.0")),
		"broker")
	if len(errs) > 0 {
		t.Fatalf("the broker plugin cannot be read: %v", errs)
	}
	return sources
}

func TestBrokerLoads(t *testing.T) {
	if bundle, errs := Load(brokerSources(t)); bundle == nil || len(errs) > 0 {
		t.Fatalf("the broker plugin is refused:\n%s", list(errs))
	}
}

func TestBrokenPodServices(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{plugin: "broker", part: PartComponents, key: components, old: old, new: new, at: at, says: says}
	}
	const known = `give what uses pod.external "when: component.external"`
	run(t, map[string]broken{
		"port unknown": c("      port: outside", "      port: inside", "port: inside",
			`names the port "inside", which is not there`),
		"port of peers": c("      port: outside", "      port: peer", "      port: peer",
			"whose access is Peers: clients need one"),
		"no port": c("    podServices:\n      port: outside\n", "    podServices: {}\n",
			"podServices:", "podServices.port is missing"),
		"nothing declared": c("    podServices:\n      port: outside\n", "", "OUTSIDE://",
			"the component declares no podServices"),
		"address without when": c("            when: component.external\n", "", "OUTSIDE://", known),
		"address in a command": c("command: [broker,", "command: [broker, \"${pod.external.host}\",",
			"${pod.external.host}\", ", known),
		"address in an expression": c("OUTSIDE://${pod.external.host}", "OUTSIDE://${pod.external.host + ''}",
			"OUTSIDE://", "${pod.external.host} and ${pod.external.port} with nothing else between the braces"),
		"Service called as a pod": c("      - ports: [client]\n",
			"      - ports: [client]\n      - {name: broker-main-0, ports: [client]}\n", "broker-main-0",
			"may have: name it otherwise"),
	})
}
