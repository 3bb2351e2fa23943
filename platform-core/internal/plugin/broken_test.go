// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"
	"testing"
)

const components = "components.yaml"

// run checks a table of broken bundles: each change of the redis plugin is refused at its line.
func run(t *testing.T, table map[string]broken) {
	t.Helper()
	for name, tc := range table {
		t.Run(name, tc.check)
	}
}

func TestBrokenManifest(t *testing.T) {
	m := func(key, value, at, says string) broken {
		return broken{part: PartManifest, key: key, new: value, at: at, says: says}
	}
	run(t, map[string]broken{
		"unknown key":           m("colour", "red", "red", `key "colour" is not known`),
		"another version":       m("version", "1.0.1", "1", `must be "1.0.0" as in the name`),
		"no domain":             m("domain", "sea", "sea", "must be one of storage, database, message, model, common, batch"),
		"no versions":           m("supported-versions", " ", " ", "is empty"),
		"odd version":           m("supported-versions", "7.0,8 0", "7", `has "8 0"`),
		"version twice":         m("supported-versions", "7.0, 8.0, 7.0", "7", `has "7.0" twice`),
		"upgrade from nonsense": m("allowed-upgrade-from", "v1", "v", "each must be a semantic version"),
		"upgrade from itself":   m("allowed-upgrade-from", "1.0.0", "1", "own version"),
		"reference elsewhere":   m("params-ref", "other-params-1.0.0", "o", `must be "redis-params-1.0.0"`),
		"no reference":          m("params-ref", "", "", "params-ref is missing"),
	})
}

func TestBrokenProbeOfConnections(t *testing.T) {
	c := func(new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: "healthy: exitCode",
			new: new + "\n      healthy: exitCode", at: at, says: says}
	}
	run(t, map[string]broken{
		"gives text":               c("outOfConnections: stderr", "outOfConnections:", "gives string: it must give bool"),
		"is no expression":         c("outOfConnections: nonsense", "outOfConnections:", "undeclared reference"),
		"attributes when a text":   c("attributesWhen: stdout", "attributesWhen:", "gives string: it must give bool"),
		"reserved way for nothing": c("reserved: [-a]", "reserved:", "add probe.outOfConnections"),
	})
}

// inComponents is what is broken in the part that names the components.
func inComponents(old, new, at, says string) broken {
	return broken{part: PartComponents, key: components, old: old, new: new, at: at, says: says}
}

func TestBrokenComponents(t *testing.T) {
	c := inComponents
	run(t, map[string]broken{
		"no YAML": c("    images:\n", "    images: [\n", "container: redis", "this is not YAML"),
		"duplicate key": c("    container: redis\n", "    container: redis\n    container: redis\n",
			"container: redis\n    images", `key "container" is there twice`),
		"unknown field": c("    container: redis\n", "    containr: redis\n", "containr",
			`did you mean "container"?`),
		"wrong type": c("port: 6379", "port: many", "port: many",
			`ports[0].port is the text "many": it must be a whole number`),
		"missing field": c("    container: redis\n", "", "- name: redis",
			"components[0].container is missing"),
		"not a quantity": c("size: 1Gi", "size: big", "size: big", `"big" is not allowed`),
		"no size":        c("size: 1Gi", "size: 0", "size: 0", "must be greater than 0"),
		"long name": c("  - name: redis\n    authority", "  - name: redis-redis-1\n    authority",
			"redis-redis-1", "1 to 12 small letters"),
		"authority": c("authority: engine", "authority: both", "both",
			`one of "engine" or "middleware"`),
		"image missing": c("      \"8.0\": zeroinfra/redis:8.0\n", "", "images:",
			`has no image for "8.0"`),
		"image too many": c("      \"8.0\":", "      \"9.0\": zeroinfra/redis:9.0\n      \"8.0\":", `"9.0"`,
			"supported-versions does not name"),
		"image is no name": c("zeroinfra/redis:8.0", "\"zeroinfra redis\"", "zeroinfra redis",
			"the name of an image"),
		"range": c("replicas: {default: 1, min: 1, max: 1}\n    resources",
			"replicas: {default: 1, min: 2, max: 3}\n    resources", "min: 2", "must grow in this order"),
		"steps": c("replicas: {default: 1, min: 1, max: 1}\n    resources",
			"replicas: {default: 2, min: 1, max: 3, step: 2}\n    resources", "min: 1, max: 3", "takes steps of 2 from 1"),
		"two volumes": c("        size: 1Gi\n", "        size: 1Gi\n      - {name: a, size: 1Gi}\n    "+
			"  - {name: b, size: 1Gi}\n      - {name: c, size: 1Gi}\n      - {name: d, size: 1Gi}\n", "volumes:", "at most 4"),
		"port twice": c("port: 6379", "port: 6379\n      - name: again\n        port: 6379",
			"- name: again", "has the port 6379 of components[0].ports[0]: one port has one name"),
		"comparison": c("healthy: exitCode == 0", "healthy: exitCode = 0", "healthy:",
			"to compare, write =="),
		"number and text": c("healthy: exitCode == 0", "healthy: exitCode == '0'", "healthy:",
			"a number is compared with a number, without quotes"),
		"function of no probe": c("healthy: exitCode == 0", "healthy: stdout.substring(1) == '' && exitCode == 0",
			"healthy:", "undeclared reference to 'substring'; known here: stdout, stderr, exitCode, fields, and the standard "+
				"functions of CEL"),
		"engine's port":      c("port: 6379", "port: 4880", "4880", "are the agents'"),
		"engine's container": c("container: redis\n", "container: status\n", "status", "are taken"),
		"role unknown": c("- role: primary", "- role: leader", "role: leader",
			`names the role "leader", which is not there: there is primary, replica`),
		"port unknown": c("ports: [redis]\n        exposure", "ports: [http]\n        exposure",
			"ports: [http]", `names the port "http"`),
		"exposure": c("exposure: Client", "exposure: Public", "Public",
			`one of "Client" or "Internal"`),
		"template unknown": c("podTemplate: redis", "podTemplate: valkey", "valkey",
			`names the pod template "valkey"`),
		"parameters unknown": c("parameters: redis\n", "parameters: valkey\n", "valkey",
			`names the parameter set "valkey"`),
		"reloaded credential unknown": c("      # A server that ran",
			"      reload: {signal: SIGHUP, credentials: [admin]}\n      # A server that ran", "      reload:",
			`names the credential of this component "admin"`),
		"reloaded credential of a process": c("      # A server that ran", "      env: [{name: PASSWORD, secret: "+
			"{credential: default, key: password}}]\n      reload: {signal: SIGHUP, credentials: [default]}\n      # A server "+
			"that ran", "      reload:", "no reload changes that"),
		"credential unknown": c("credentials: [default]", "credentials: [admin]", "credentials: [admin]",
			`names the credential "admin"`),
		"secret not mounted": c("credential: default, key: password}\n      interval",
			"credential: admin, key: password}\n      interval", "credential: admin",
			`names the credential of this component "admin"`),
		"secret key": c("credential: default, key: password}\n      interval",
			"credential: default, key: token}\n      interval", "key: token", `one of "username" or "password"`),
		"value and secret": c("INFO, server, persistence, replication]\n      env:\n        - name: REDISCLI_AUTH\n",
			"INFO]\n      env:\n        - name: REDISCLI_AUTH\n          value: x\n", "- name: REDISCLI_AUTH",
			"has a value and a secret"),
		"engine's variable": c("replication]\n      env:\n        - name: REDISCLI_AUTH",
			"replication]\n      env:\n        - name: POD_NAME", "POD_NAME", "set by the engine"),
	})
}

func TestBrokenProcesses(t *testing.T) {
	c := inComponents
	run(t, map[string]broken{
		"signal":  c("signal: SIGTERM", "signal: TERM", "signal: TERM", "one of SIGHUP"),
		"timeout": c("timeoutSeconds: 60", "timeoutSeconds: 86400", "86400", "from 1 to 3600"),
		"no command": c("command: [redis-server, /zeroinfra/config/redis.conf]", "command: []", "command: []",
			"at least one"),
		"reload of both": c("      dir: /data\n", "      dir: /data\n      reload: {signal: SIGHUP, command: [a]}\n",
			"reload:", "exactly one of signal, command and each"),
		"file elsewhere": c("path: /zeroinfra/config/redis.conf", "path: /etc/redis.conf", "path: /etc",
			"right below /zeroinfra/config"),
		"file climbs": c("path: /zeroinfra/config/redis.conf", "path: /zeroinfra/config/../x", "path: /zero",
			"right below /zeroinfra/config"),
		"format":              c("format: redis", "format: toml", "toml", `it must be one of "redis"`),
		"mode":                c(`mode: "0600"`, "mode: 600", "mode: 600", "mode is 600: it must be text"),
		"line break":          c("args: [/data]", `args: ["a\nb"]`, `"a\nb"`, "text without line breaks"),
		"entry is parameter":  c("key: daemonize", "key: timeout", "key: timeout", "which users may set too"),
		"placeholder unknown": c("args: [/data]", `args: ["${app.nam}"]`, "app.nam", "undefined field 'nam'"),
		"placeholder of pod": c("mode: \"0600\"\n", "mode: \"${pod.name}\"\n", "pod.name",
			"the agents fill it in in commands"),
		"expression of pod": c("args: [/data]", `args: ["${pod.name + 'x'}"]`, "pod.name",
			"pod as ${pod.name}, ${pod.ordinal}, ${pod.fqdn}, ${pod.zone}, ${pod.external.host} and ${pod.external.port}"),
		"placeholder open": c("args: [/data]", `args: ["${app.name"]`, "${app.name", `"}" is missing`),
		"placeholder where none can be": c("username: default", "username: ${app.name}", "username: $",
			"a placeholder is not allowed here"),
		"placeholder fails": c("args: [/data]", `args: ["${params['maxmemory']}"]`, "params['max",
			"no such key: maxmemory"),
		"placeholder fails without limits": c("args: [/data]", `args: ["${1 / component.memoryLimit}"]`, "1 / comp",
			"without limits"),
		"probe expression": c("healthy: exitCode == 0", "healthy: exit == 0", "healthy:",
			"undeclared reference to 'exit'"),
		"probe gives text": c("healthy: exitCode == 0 &&", "healthy: stdout + ''  #", "healthy:",
			"gives string: it must give bool"),
		"probe without role": c(`role: "'role' in fields ? (fields['role'] == 'master' ? 'primary' : 'replica') : `+
			`''"`, `role: ""`, "probe:", "add probe.role"),
		"topology component": c("      - name: redis\n        replicas: {default",
			"      - name: sentinel\n        replicas: {default", "- name: sentinel", `names the component "sentinel"`),
		"two topologies": c("credentials:\n  - name: default",
			"  - name: standalone\n    components: [{name: redis}]\ncredentials:\n  - name: default",
			"- name: standalone\n    components: [", "names must differ"),
		"binding's service": c("  component: redis\n  port", "  component: redis\n  service: read\n  port",
			"service: read", `names the Service "read"`),
		"binding's read-only service": c("  component: redis\n  port",
			"  component: redis\n  readOnlyService: replicas\n  port", "readOnlyService: replicas",
			`names the Service "replicas"`),
		"binding's credential": c("\n  credential: default\n", "\n  credential: admin\n", "credential: admin\n",
			`names the credential "admin"`),
		"alias of what there is": c("\n  credential: default\n", "\n  credential: default\n  aliases: {host: port}\n",
			"aliases:", "is a key that every binding can have"),
		"alias of nothing": c("\n  credential: default\n", "\n  credential: default\n  aliases: {bucket: name}\n",
			"aliases:", `one of "host"`),
		"alias of no user": c("\n  credential: default\n", "\n  aliases: {accessKey: username}\n", "aliases:",
			"the binding has no credential"),
		"restartStrategy": c("    podTemplate: redis\n", "    podTemplate: redis\n    restartStrategy: Never\n",
			"restartStrategy:", `one of "Rolling" or "AllAtOnce"`),
		"restarts with a writer": c("    podTemplate: redis\n", "    podTemplate: redis\n    restartStrategy: AllAtOnce\n",
			"restartStrategy:", "a component without roles"),
		"credential taken": c("  - name: default\n    username", "  - name: binding\n    username", "- name: binding",
			"are taken"),
		"short password": c("length: 32", "length: 4", "length: 4", "from 16 to 128"),
	})
}

func TestBrokenPodTemplates(t *testing.T) {
	p := func(old, new, at, says string) broken {
		return broken{part: PartPodTemplates, key: "redis.yaml", old: old, new: new, at: at, says: says}
	}
	const container = "    - name: redis\n"
	security := func(field string) string { return container + "      securityContext: {" + field + "}\n" }
	run(t, map[string]broken{
		"unknown field": p("fsGroup: 999", "fsGroups: 999", "fsGroups", `did you mean "fsGroup"?`),
		"root":          p("runAsUser: 999", "runAsUser: 0", "runAsUser", "never run as root"),
		"no user":       p("    runAsUser: 999\n", "", "securityContext:", "must be the user of the image"),
		"no group":      p("    fsGroup: 999\n", "", "securityContext:", "the volumes are for"),
		"host network":  p("spec:\n", "spec:\n  hostNetwork: true\n", "hostNetwork", "Pod Security restricted"),
		"node":          p("spec:\n", "spec:\n  nodeName: a\n", "nodeName", "set by the engine"),
		"account":       p("spec:\n", "spec:\n  serviceAccountName: admin\n", "admin", "set by the engine"),
		"host path": p("spec:\n", "spec:\n  volumes: [{name: x, hostPath: {path: /}}]\n", "hostPath",
			"a kind that is not allowed"),
		"engine's volume": p("spec:\n", "spec:\n  volumes: [{name: zeroinfra-run, emptyDir: {}}]\n", "zeroinfra-run",
			"is the engine's"),
		"volume twice": p("spec:\n", "spec:\n  volumes: [{name: data, emptyDir: {}}]\n", "volumes:",
			"names must differ"),
		"volume not mounted": p("        - name: data\n          mountPath: /data\n", "        []\n", "containers:",
			`mounts the volume "data"`),
		"mount unknown": p("- name: data\n", "- name: date\n", "- name: date", "there is data"),
		"mount of ours": p("mountPath: /data", "mountPath: /zeroinfra/run", "/zeroinfra/run", "is the engine's"),
		"no container":  p("- name: redis", "- name: server", "containers:", `has no container "redis"`),
		"image":         p(container, container+"      image: x\n", "image: x", "set by the engine"),
		"probe": p(container, container+"      livenessProbe: {tcpSocket: {port: 1}}\n", "livenessProbe",
			"set by the engine"),
		"sidecar's image": p("  containers:\n", "  containers:\n    - name: side\n", "- name: side", "is missing"),
		"taken name": p("  containers:\n", "  containers:\n    - {name: status, image: x}\n", "name: status",
			"is taken"),
		"privileged": p(container, security("privileged: true"), "privileged", "Pod Security restricted"),
		"escalation": p(container, security("allowPrivilegeEscalation: true"), "allowPriv",
			"Pod Security restricted"),
		"capability": p(container, security("capabilities: {add: [NET_ADMIN]}"), "capab",
			"Pod Security restricted"),
		"writable root":    p(container, security("readOnlyRootFilesystem: false"), "readOnly", "mount an emptyDir"),
		"container's root": p(container, security("runAsUser: 0"), "securityContext: {", "runs as root"),
		"seccomp": p(container, security("seccompProfile: {type: Unconfined}"), "seccomp",
			"must be RuntimeDefault"),
		"host port": p("  containers:\n",
			"  containers:\n    - {name: side, image: x, ports: [{containerPort: 1, hostPort: 1}]}\n", "hostPort",
			"a port of the node"),
		"engine's label": p("spec:\n", "metadata: {labels: {platform.zeroinfra.github.com/role: primary}}\nspec:\n",
			"labels", "set by the engine"),
		"name": p("spec:\n", "metadata: {name: x}\nspec:\n", "name: x", "labels and annotations"),
		"replicas": p(container, container+"      env: [{name: N, value: \"${component.replicas}\"}]\n",
			"component.replicas", "scaling would replace every pod"),
		"pod in a number": p("fsGroup: 999", "fsGroup: \"${pod.ordinal}\"", "pod.ordinal",
			"only allowed where the field is text"),
		"text in a number": p("fsGroup: 999", "fsGroup: \"${app.name}\"", "app.name",
			"the placeholder gives text: the field takes a whole number"),
		"placeholder for list": p("  containers:\n", "  tolerations: \"${app.name}\"\n  containers:\n", "tolerations",
			"cannot give a map or a list"),
		"unused template": {part: PartPodTemplates, key: "other.yaml", new: "spec: {}\n", at: "spec",
			says: "no component uses this pod template"},
		"unknown key": {part: PartPodTemplates, key: "README.md", new: "x", says: "the key is not known"},
	})
}

func TestBrokenParameters(t *testing.T) {
	cue := func(old, new, at, says string) broken {
		return broken{part: PartParams, key: "redis.cue", old: old, new: new, at: at, says: says}
	}
	set := func(old, new, at, says string) broken {
		return broken{part: PartParams, key: "redis.yaml", old: old, new: new, at: at, says: says}
	}
	warns := func(b broken) broken { b.loads = warned; return b }
	run(t, map[string]broken{
		"syntax":    cue("#Parameters_7_0: {", "#Parameters_7_0: }", "#Parameters_7_0", "not valid CUE"),
		"reference": cue("maxmemory?: ", "maxmemory?: #Sise & ", "#Sise", `reference "#Sise" not found`),
		"import":    cue("#YesNo:    ", "import \"example.com/x\"\n#YesNo:    ", "import", "not valid CUE"),
		"another version": cue("#Parameters_8_0:", "#Parameters_9_0:", "#Parameters_9_0",
			"is for no supported version"),
		"no definition": cue("#Parameters: {", "#Others: {", "//", "#Parameters is missing"),
		"not optional":  cue("maxmemory?: ", "maxmemory: ", "maxmemory: ", `write "maxmemory?:"`),
		"a list":        cue("maxmemory?: ", "lists?: [...string]\n\tmaxmemory?: ", "lists?", "one line of text"),
		"a pattern": cue("#Parameters_7_0: {", "#Parameters_7_0: {\n\t[string]: string", "#Parameters_7_0",
			"name each parameter"),
		"contradiction": cue("#Parameters_7_0: {", "#Parameters_7_0: {\n\thz?: string", "hz?: string",
			"exclude each other"),
		"reserved and known": set("reserved:\n", "reserved:\n  hz: is ours\n", "hz: is ours", "take it out of one"),
		"list unknown":       set("  - save\n", "  - saves\n", "- saves", `did you mean "save"?`),
		"default unknown": set("reserved:\n", "defaults: {maxmemroy: 1mb}\nreserved:\n", "defaults:",
			`did you mean "maxmemory"?`),
		"default not allowed": set("reserved:\n", "defaults: {hz: 900}\nreserved:\n", "defaults:",
			`parameter "hz" has value "900": it must be a whole number from 1 to 500`),
		"default of no limits": set("reserved:\n", "defaults:\n  maxmemory: ${component.memoryLimit / 2 - 1}\nreserved:\n",
			"  maxmemory: ${", `parameter "maxmemory" has value "-1"`),
		"default of a truth": set("reserved:\n", "defaults: {hz: true}\nreserved:\n", "defaults:",
			"put anything else in quotes"),
		"pattern": warns(cue("maxmemory?: ", "depth?: =~\"^(0$\"\n\tmaxmemory?: ", "depth?",
			`the pattern "^(0$" is no regular expression: error parsing regexp: missing closing )`)),
		"pattern beside others": warns(cue("maxmemory?: ", "depth?: string & !~\"[\"\n\tmaxmemory?: ", "depth?",
			`the pattern "[" is no regular expression`)),
		"default of parameters": set("reserved:\n", "defaults: {hz: \"${params['x']}\"}\nreserved:\n", "defaults:",
			"undeclared reference to 'params'"),
		"default of a list": set("reserved:\n", "defaults: {hz: [1]}\nreserved:\n", "defaults:",
			"it must be text or a whole number"),
		"unknown field": set("lists:\n", "listed:\n", "listed:", `did you mean "lists"?`),
		"no schema":     {part: PartParams, key: "more.yaml", new: "lists: []\n", says: `its schema "more.cue" is missing`},
		"no set": {part: PartParams, key: "more.cue", new: "#Parameters: {}\n",
			says: `its parameter set "more.yaml" is missing`},
	})
}

func TestBrokenOperations(t *testing.T) {
	o := func(old, new, at, says string) broken {
		return broken{part: PartOperations, key: "Restart.yaml", old: old, new: new, at: at, says: says}
	}
	run(t, map[string]broken{
		"another name": o("name: Restart", "name: Reboot", "name: Reboot", `must be "Restart" as in the key`),
		"small name":   o("name: Restart", "name: restart", "name: restart", "begins with a capital"),
		"no steps": o("steps:\n  - name: restart\n    agent:\n      call: Restart\n", "steps: []\n", "steps",
			"at least one step"),
		"no action": o("    agent:\n      call: Restart\n", "", "- name: restart",
			"must have exactly one of agent, engine"),
		"unknown call":   o("call: Restart", "call: Kill", "call: Kill", `one of "Restart", "Reload"`),
		"no reload":      o("call: Restart", "call: Reload", "- name: restart", "has no process.reload"),
		"target unknown": o("steps:\n", "targets: [sentinel]\nsteps:\n", "targets", `names the component "sentinel"`),
		"same step": o("steps:\n", "steps:\n  - {name: restart, agent: {call: Restart}}\n", "- name: restart",
			"names must differ"),
	})
}

// What all samples have in common is said once.
func TestOneErrorForAllSamples(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartParams, "redis.yaml", "reserved:\n", "defaults: {hz: 900}\nreserved:\n")
	if _, errs := Load(sources); len(errs) != 1 || !strings.HasPrefix(errs[0].Message, "for version 7.0 and topology ") {
		t.Errorf("got\n%s\nwant one error", list(errs))
	}
}
