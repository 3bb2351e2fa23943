// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

func TestBrokenMonitoring(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: old, new: new, at: at, says: says}
	}
	pod := func(old, new, at, says string) broken {
		return broken{part: PartPodTemplates, key: "redis.yaml", old: old, new: new, at: at, says: says}
	}
	const declared = "    monitoring:\n      port: metrics\n      exporter: exporter\n"
	run(t, map[string]broken{
		"port unknown": c("port: metrics\n      exporter", "port: metric\n      exporter", "port: metric\n",
			`names the port "metric", which is not there`),
		"exporter's own port": c("        port: 9121\n        access: Metrics\n", "        port: 9121\n",
			"- name: metrics", "its access must be Metrics"),
		"port of no metrics": c("        port: 6379\n", "        port: 6379\n        access: Metrics\n",
			"- name: redis\n        port", "monitoring.port does not name it"),
		"service with the port": c("ports: [redis]\n        exposure: Client",
			"ports: [redis, metrics]\n        exposure: Client", "ports: [redis, metrics]",
			"whose access is Metrics: no Service has it"),
		"process as exporter": c("exporter: exporter", "exporter: redis", "exporter: redis",
			"is the container of the process"),
		"exporter of the engine": c("exporter: exporter", "exporter: status", "exporter: status", "are taken"),
		"path":                   c(declared, declared+"      path: metrics\n", "path: metrics", "the path of a URL"),
		"env for nobody": c("      exporter: exporter\n", "", "env:\n        - name: REDIS_ADDR",
			"name its container in monitoring.exporter"),
		"env twice": c("- name: REDIS_PASSWORD", "- name: REDIS_ADDR", "- name: REDIS_ADDR\n          secret",
			"names must differ"),
		"unknown token": c(declared, declared+"      credential: other\n", "credential: other",
			`names the credential of this component "other"`),
		"unknown credential": c("- name: REDIS_PASSWORD\n          secret: {credential: default",
			"- name: REDIS_PASSWORD\n          secret: {credential: other", "credential: other",
			`names the credential of this component "other"`),
		"condition": c("value: /zeroinfra/certs/ca.crt\n          when: app.tls",
			"value: /zeroinfra/certs/ca.crt\n          when: app.name", "when: app.name", "must give true or false"),
		"the pod in env": c("value: /zeroinfra/certs/ca.crt\n          when", "value: ${pod.name}\n          when",
			"value: ${pod.name}", "a placeholder that uses pod is not allowed here"),
		"scaling in env": c("value: /zeroinfra/certs/ca.crt\n          when", "value: ${set.replicas}\n          when",
			"value: ${set.replicas}", "scaling would replace every pod"),
		"peers in a condition": c("value: /zeroinfra/certs/ca.crt\n          when: app.tls",
			"value: a\n          when: size(peers) > 1", "when: size(peers)", "undeclared reference to 'peers'"),
		"ports of the exporter": pod("zeroinfra/redis-exporter:1.45\n",
			"zeroinfra/redis-exporter:1.45\n      ports: [{containerPort: 1}]\n", "ports:", "is set by the engine"),
		"no metrics": c(declared, declared+"      metrics: []\n", "metrics: []", "a list of at least one metric"),
		"a metric with a dash": c(declared, declared+"      metrics: [{name: a-b, help: A.}]\n", "name: a-b",
			"the name of a metric"),
		"a metric without help": c(declared, declared+"      metrics: [{name: a}]\n", "metrics: [{name: a}]", "help"),
		"a metric twice": c(declared, declared+"      metrics: [{name: a, help: A.}, {name: a, help: B.}]\n",
			"metrics: [{name: a", "names must differ"),
		"TLS without TLS": {plugin: "relay", part: PartComponents, key: components, old: "    scaling: Fixed\n",
			new: "    scaling: Fixed\n    monitoring: {port: client, tls: true}\n", at: "monitoring:",
			says: "is for a component that can speak TLS"},
	})
}

// asked are metrics by queries as the redis plugin may have them, beside another process that nothing is exported of.
const asked = `    monitoring:
      port: metrics
      queries:
        - name: memory
          statement: INFO memory
          metrics:
            - {name: memory_used_bytes, column: used_memory, type: gauge, help: Memory that Redis has allocated.}
        - name: stats
          statement: INFO stats
          intervalSeconds: 5
          timeoutSeconds: 2
          labels: [role]
          metrics:
            - {name: commands_total, type: counter, help: Commands that were carried out.}
`

// withQueries is redis with these in place of its exporter.
func withQueries(t *testing.T, old, new string) ([]LoadError, *Bundle) {
	t.Helper()
	sources := redisSources(t)
	text := sources[PartComponents].Data[components]
	begin := strings.Index(text, "    monitoring:\n")
	end := begin + strings.Index(text[begin:], "    driver:\n")
	if !strings.Contains(asked, old) {
		edit(t, sources, PartComponents, components, old, new)
		text = sources[PartComponents].Data[components]
		begin = strings.Index(text, "    monitoring:\n")
		end = begin + strings.Index(text[begin:], "    parameters: redis\n")
		if at := strings.Index(text[begin:], "    driver:\n"); at >= 0 {
			end = begin + at
		}
	}
	sources[PartComponents].Data[components] = text[:begin] + strings.Replace(asked, old, new, 1) + text[end:]
	sources[PartPodTemplates].Data["redis.yaml"], _,
		_ = strings.Cut(sources[PartPodTemplates].Data["redis.yaml"], "    # There only where metrics")
	b, errs := Load(sources)
	return errs, b
}

func TestMetricsByQueries(t *testing.T) {
	errs, b := withQueries(t, "", "")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("redis")
	values := sampleValues(c, "standalone", "7.0", 0)
	for _, on := range []bool{false, true} {
		values.Component.Monitoring = on
		p, err := b.RenderPlan("redis", values)
		if err != nil || (p.Metrics != nil) != on {
			t.Fatalf("monitoring %v: %+v, %v", on, p.Metrics, err)
		}
		if on && (p.Metrics.Prefix != "redis" || len(p.Metrics.Queries) != 2 || p.Metrics.Queries[1].Labels[0] != "role") {
			t.Errorf("got %+v", p.Metrics)
		}
	}
	_, listed, _ := strings.Cut(asked, "      queries:\n")
	for name, tc := range map[string]struct{ old, new, says string }{
		"an exporter, too": {"      queries:\n", "      exporter: redis\n      queries:\n", "cannot both be there"},
		"no queries":       {listed, "        []\n", "at least one query"},
		"two of a name":    {"name: stats", "name: memory", "names must differ"},
		"a metric twice": {"name: commands_total, type: counter", "name: memory_used_bytes, type: gauge",
			`is "memory_used_bytes", which query memory has`},
		"a metric of ours":       {"name: memory_used_bytes", "name: query_success", "which the agent itself has"},
		"a counter's name":       {"commands_total", "commands", "names of counters end with _total"},
		"a gauge's name":         {"memory_used_bytes", "memory_total", "those of gauges do not"},
		"a label with numbers":   {"labels: [role]", "labels: [commands_total]", "is of a column that is a label, too"},
		"a label twice":          {"labels: [role]", "labels: [role, role]", "names must differ"},
		"a label's name":         {"labels: [role]", "labels: [the role]", "small letters, digits and underscores"},
		"no type":                {"type: gauge, ", "", "type is missing"},
		"no help":                {", help: Memory that Redis has allocated.", "", "help is missing"},
		"too long":               {"timeoutSeconds: 2", "timeoutSeconds: 20", "timeoutSeconds"},
		"a statement that grows": {"INFO memory", "INFO ${app.name}", "a placeholder is not allowed here"},
		"a database": {"statement: INFO memory\n", "statement: INFO memory\n          database: shop\n",
			"this one has none: take it out"},
		"a port for all": {"        port: 9121\n        access: Metrics\n", "        port: 9121\n",
			"is the ops agent's, which is there only where metrics are wanted"},
		"no driver": {"    driver:\n      protocol: redis\n      address: 127.0.0.1:6379\n      tls: true\n      " +
			"credential: default\n      entitiesFile: /zeroinfra/config/users/entities.conf\n", "",
			"needs a driver of component \"redis\": add it there"},
	} {
		errs, _ := withQueries(t, tc.old, tc.new)
		if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Message, tc.says) && e.Line > 0 }) {
			t.Errorf("%s: got %v; want %q", name, errs, tc.says)
		}
	}
}

func TestBrokenLogs(t *testing.T) {
	c := func(new, at, says string) broken {
		const anchor = "    parameters: redis\n    cred"
		return broken{part: PartComponents, key: components, old: anchor, new: new + anchor, at: at, says: says}
	}
	run(t, map[string]broken{
		"path of the engine": c("    logs: {path: /zeroinfra/x, files: [a.log], signal: SIGUSR1}\n", "logs:",
			"not below /zeroinfra"),
		"path":           c("    logs: {path: log, files: [a.log], signal: SIGUSR1}\n", "logs:", "an absolute path"),
		"no files":       c("    logs: {path: /log, files: [], signal: SIGUSR1}\n", "logs:", "at least one file's name"),
		"file elsewhere": c("    logs: {path: /log, files: [a/b], signal: SIGUSR1}\n", "logs:", "the name of a file"),
		"renamed file":   c("    logs: {path: /log, files: [a.1], signal: SIGUSR1}\n", "logs:", "does not end with a number"),
		"file twice":     c("    logs: {path: /log, files: [a, a], signal: SIGUSR1}\n", "logs:", "names must differ"),
		"signal":         c("    logs: {path: /log, files: [a], signal: USR1}\n", "logs:", "one of SIGHUP"),
		"no signal":      c("    logs: {path: /log, files: [a]}\n", "logs:", "signal is missing"),
	})
}

// What fits neither the pod template nor the rest of the component.
func TestObservabilityThatDoesNotFit(t *testing.T) {
	const anchor = "    parameters: redis\n    cred"
	logsAt := func(path string) []string {
		return []string{anchor, "    logs: {path: " + path + ", files: [a.log], signal: SIGUSR1}\n" + anchor}
	}
	for name, tc := range map[string]struct {
		changes []string
		says    string
	}{
		"mounted there": {logsAt("/data"), `is "/data", where the engine mounts the volume of the access logs`},
		"volume of logs": {append(logsAt("/log"), "      - name: data\n        size", "      - name: logs\n        size"),
			`is "logs", which is the volume that the engine adds`},
		"no such container": {[]string{"exporter: exporter", "exporter: other"},
			`has no container "other", which monitoring.exporter`},
	} {
		sources := redisSources(t)
		sources[PartComponents].Data[components] = strings.NewReplacer(tc.changes...).Replace(
			sources[PartComponents].Data[components])
		_, errs := Load(sources)
		if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Message, tc.says) }) {
			t.Errorf("%s: got %v; want %q", name, errs, tc.says)
		}
	}
}

func TestExporterEnv(t *testing.T) {
	b := loadRedis(t)
	c, _ := b.Component("redis")
	values := sampleValues(c, "standalone", "7.0", 0)
	for _, on := range []bool{false, true} {
		values.App.TLS = on
		env, err := b.RenderExporterEnv("redis", values)
		if err != nil {
			t.Fatal(err)
		}
		address := slices.IndexFunc(env, func(e plan.EnvVar) bool { return e.Name == "REDIS_ADDR" })
		certificate := slices.ContainsFunc(env,
			func(e plan.EnvVar) bool { return e.Name == "REDIS_EXPORTER_TLS_CA_CERT_FILE" })
		secret := slices.ContainsFunc(env, func(e plan.EnvVar) bool {
			return e.Name == "REDIS_PASSWORD" && e.Value == "" && e.Secret.Credential == "default"
		})
		if address < 0 || strings.HasPrefix(env[address].Value, "rediss://") != on || certificate != on || !secret {
			t.Errorf("TLS %v: got %+v", on, env)
		}
	}
}
