// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"strings"
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

func TestBrokenMounts(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{plugin: "broker", part: PartComponents, key: components, old: old, new: new, at: at, says: says}
	}
	run(t, map[string]broken{
		"path of the engine": c("path: /scratch", "path: /zeroinfra/run", "/zeroinfra/run",
			"an absolute path that is not below /zeroinfra"),
		"one place": c("path: /scratch", "path: /models", "scratch, path", "two cannot be at one place"),
		"one name":  c("name: scratch", "name: models", "path: /scratch", "names must differ"),
		"unguarded and missing": c("'models' in component.mounts ?", "component.mounts[0] == '' ?",
			"component.mounts[0]", "index out of bounds"),
		"place of the template": {plugin: "broker", part: PartPodTemplates, key: "broker.yaml",
			old: "    - name: main\n",
			new: "    - name: main\n      volumeMounts: [{name: tmp, mountPath: /models}]\n  volumes: [{name: tmp, " +
				"emptyDir: {}}]\n",
			at: "mountPath: /models", says: "where the engine mounts \"models\""},
		"required in a drill": c("path: /scratch}",
			"path: /scratch, required: true}\n    backups:\n      - name: dump\n        command: [dump]\n        "+
				"restore: {folder: /data, command: [load]}\n        verify: {topology: cluster, operation: Count}",
			"required: true", "has no mounts"),
		"mount of a job": {plugin: "broker", part: PartOperations, key: "Count.yaml", old: "mounts: [models]",
			new: "mounts: [data]",
			at:  "mounts: [data]", says: "names the mount \"data\", which the component does not have"},
		"required and many": c("path: /scratch}", "path: /scratch, each: true, required: true}", "required: true",
			"take required or each out"),
	})
}

func TestBrokenAdditionalVolumes(t *testing.T) {
	const declared = "    volumes: [{name: data, size: 1Gi, additional: {max: 2, path: /volumes}}"
	c := func(new, at, says string) broken {
		return broken{plugin: "broker", part: PartComponents, key: components, old: "    mounts:\n",
			new: new + "]\n    mounts:\n", at: at, says: says}
	}
	one := func(max, path string) string {
		return strings.NewReplacer("max: 2", "max: "+max, "/volumes", path).Replace(declared)
	}
	run(t, map[string]broken{
		"too many":     c(one("7", "/volumes"), "max: 7", "6"),
		"deep":         c(one("2", "/data/more"), "/data/more", "a folder right below /"),
		"the engine's": c(one("2", "/zeroinfra"), "/zeroinfra", "is the engine's"),
		"beside two": c(one("6", "/volumes")+", {name: log, size: 1Gi}", "max: 6",
			"beside 2 volumes of the component there can be 5"),
		"of the second": c(strings.Replace(declared, "[", "[{name: log, size: 1Gi}, ", 1),
			"additional:", "beside the first one alone"),
		"one name": c(declared+", {name: data-1, size: 1Gi}", "name: data-1", "a volume that a user adds"),
	})
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
