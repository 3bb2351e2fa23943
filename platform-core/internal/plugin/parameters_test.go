// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

func TestCheckParametersRefuses(t *testing.T) {
	b := loadRedis(t)
	for _, tc := range []struct{ version, name, value, want string }{
		{"7.0", "maxmemroy", "1", `parameter "maxmemroy" is not known to redis 7.0: did you mean "maxmemory"?`},
		{"7.0", "zzz", "1", `parameter "zzz" is not known to redis 7.0: leave it out`},
		{"7.0", "", "1", `parameter "" is not known to redis 7.0: leave it out`},
		{"7.0", "set-max-listpack-value", "1", `parameter "set-max-listpack-value" is not known to redis 7.0: only to 8.0`},
		{"8.0", "io-threads-do-reads", "yes", `parameter "io-threads-do-reads" is not known to redis 8.0: only to 7.0`},
		{"7.0", "loglevel", "nothing", `parameter "loglevel" has value "nothing": it must be one of "debug", "verbose", ` +
			`"notice" or "warning"`},
		{"7.0", "maxmemory", "100 mb", `parameter "maxmemory" has value "100 mb": it must be a size such as 1048576, ` +
			`512kb, 100mb or 2gb`},
		{"7.0", "client-output-buffer-limit", "pubsub 32mb 8mb 60", `parameter "client-output-buffer-limit" has value ` +
			`"pubsub 32mb 8mb 60": it must be hard limit, soft limit and seconds of each class, in this order, such as ` +
			`"normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60"`},
		{"7.0", "maxmemory", "-1", `parameter "maxmemory" has value "-1": it must be a size such as 1048576, 512kb, 100mb ` +
			`or 2gb`},
		{"7.0", "appendonly", "true", `parameter "appendonly" has value "true": it must be one of "yes" or "no"`},
		{"7.0", "appendonly", "", `parameter "appendonly" has value "": it must be one of "yes" or "no"`},
		{"7.0", "hz", "0", `parameter "hz" has value "0": it must be a whole number from 1 to 500`},
		{"7.0", "hz", "10.5", `parameter "hz" has value "10.5": it must be a whole number from 1 to 500`},
		{"7.0", "hz", "0x10", `parameter "hz" has value "0x10": it must be a whole number from 1 to 500`},
		{"7.0", "hz", "+5", `parameter "hz" has value "+5": it must be a whole number from 1 to 500`},
		{"7.0", "hz", "", `parameter "hz" has value "": it must be a whole number from 1 to 500`},
		{"7.0", "tcp-keepalive", "99999999999999999999",
			`parameter "tcp-keepalive" has value "99999999999999999999": it must be a whole number from 0 to 2147483647`},
		{"7.0", "save", "3600", `parameter "save" has value "3600": it must be pairs of seconds and changes such as "3600 ` +
			`1 300 100", or empty for no snapshots`},
		{"7.0", "maxmemory", "1mb\nrequirepass x",
			`parameter "maxmemory" has a line break or a NUL in its value "1mb\nrequirepass x": a value is one line of text`},
		{"7.0", "maxmemory", "1mb\r", `parameter "maxmemory" has a line break or a NUL in its value "1mb\r": a value is ` +
			`one line of text`},
		{"7.0", "maxmemory", "1\x00", `parameter "maxmemory" has a line break or a NUL in its value "1\x00": a value is ` +
			`one line of text`},
		{"7.0", "proc-title-template", strings.Repeat("x", 5000),
			`parameter "proc-title-template" has a value of 5000 characters: at most 4096 are allowed`},
		{"7.0", "proc-title-template", strings.Repeat("'", 200), `parameter "proc-title-template" has value "` +
			strings.Repeat("'", 80) + `…": it must be text with {title}, {listen-addr}, {server-mode}, {port}, {tls-port}, ` +
			`{unixsocket} or {config-file}, without quotes`},
		{"7.0", "requirepass", "x", `parameter "requirepass" cannot be set: it is set by the engine: the password is that ` +
			`of auth.passwordFrom, or of credentials in an Application`},
		{"7.0", "dir", "/", `parameter "dir" cannot be set: it is set by the engine: the data is on the volume of storage`},
		{"7.0", "tls-port", "1", `parameter "tls-port" cannot be set: it is set by the engine: tls says whether TLS is ` +
			`spoken, and with whose certificate`},
		{"7.0", "cluster-enabled", "yes", `parameter "cluster-enabled" cannot be set: it is set by the engine: make a ` +
			`RedisCluster, whose Application has the topology cluster`},
		{"7.0", "unixsocketperm", "1", `parameter "unixsocketperm" cannot be set: it is set by the engine`},
		{"7.0", "slave-priority", "1", `parameter "slave-priority" cannot be set: it is called replica-priority now`},
		{"7.0", "activedefrag", "yes", `parameter "activedefrag" cannot be set: it needs a Redis that is built with its ` +
			`own jemalloc`},
	} {
		errs := b.CheckParameters("redis", tc.version, platformv1.Parameters{tc.name: platformv1.ParameterValue(tc.value)})
		if len(errs) != 1 || errs[0].Error() != tc.want || errs[0].Name != tc.name || errs[0].Value != tc.value {
			t.Errorf("%s %q=%.40q: got %v\nwant %s", tc.version, tc.name, tc.value, errs, tc.want)
		}
	}
}

func TestCheckParametersAllows(t *testing.T) {
	b := loadRedis(t)
	for name, values := range map[string][]platformv1.ParameterValue{
		"maxmemory":         {"0", "100mb", "2GB", "1048576", "5k"},
		"maxmemory-clients": {"5%", "0", "1gb"},
		"hz":                {"1", "500", "010"},
		"save":              {"", "3600 1", "3600 1 300 100"},
		"client-output-buffer-limit": {"normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60",
			"NORMAL 0 0 0 slave 1 1 1 pubsub 0 0 0"},
		"client-query-buffer-limit": {"1mb", "1048576", "2m", "1024kb", "1g"},
		"notify-keyspace-events":    {"", "KEA", "Kg$"},
		"slowlog-log-slower-than":   {"-1", "0", "10000"},
		"list-max-listpack-size":    {"-2", "128"},
		"shutdown-on-sigterm":       {"default", "save now", "nosave force"},
		"server_cpulist":            {"", "0-3", "0,2,4-6:2"},
	} {
		for _, value := range values {
			for _, version := range []string{"7.0", "8.0"} {
				if errs := b.CheckParameters("redis", version, platformv1.Parameters{name: value}); len(errs) > 0 {
					t.Errorf("%s %s=%q: %v", version, name, value, errs)
				}
			}
		}
	}
	if errs := b.CheckParameters("redis", "7.0", nil); len(errs) > 0 {
		t.Errorf("no parameters: %v", errs)
	}
}

func TestCheckParametersReturnsAllInOrder(t *testing.T) {
	errs := loadRedis(t).CheckParameters("redis", "7.0",
		platformv1.Parameters{"zz": "1", "hz": "0", "dir": "x", "maxmemory": "1mb"})
	var names []string
	for _, err := range errs {
		names = append(names, err.Name)
	}
	if got := strings.Join(names, " "); got != "dir hz zz" {
		t.Errorf("got %q", got)
	}
}

func TestComponentWithoutParameters(t *testing.T) {
	b := &Bundle{Components: schema.Components{Components: []schema.Component{{Name: "proxy"}}}}
	for _, component := range []string{"proxy", "absent"} {
		errs := b.CheckParameters(component, "1", platformv1.Parameters{"a": "b"})
		if len(errs) != 1 || !strings.Contains(errs[0].Message, "has no parameters") {
			t.Errorf("%s: got %v", component, errs)
		}
	}
}

// What CONFIG GET * of the real servers lists is in the schema, with a default that the schema
// allows, or reserved with a reason; and the schema has nothing that the server does not know.
func TestRedisParametersAreComplete(t *testing.T) {
	b := loadRedis(t)
	c, _ := b.Component("redis")
	parameters := b.Parameters(c)
	for _, version := range b.Manifest.SupportedVersions {
		data, err := os.ReadFile(filepath.Join(redisFolder, "testdata", "config-"+version+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var server map[string]string
		if err := json.Unmarshal(data, &server); err != nil {
			t.Fatal(err)
		}
		if len(server) < 150 {
			t.Fatalf("%s: the server lists %d parameters", version, len(server))
		}
		for name, value := range server {
			message := parameters.check(version, name, value)
			if message != "" && parameters.reserved(name) == "" {
				t.Errorf("%s: %s", version, message)
			}
		}
		for _, name := range parameters.Names(version) {
			if _, ok := server[name]; !ok {
				t.Errorf("%s: the schema has %q, which the server does not know", version, name)
			}
			if allowed := parameters.Allowed(version, name); allowed == "" || strings.Contains(allowed, "_|_") {
				t.Errorf("%s: what %q takes is described as %q", version, name, allowed)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartParams, "redis.yaml", "reserved:\n",
		"defaults:\n  maxmemory: ${component.memoryLimit * 3 / 4}\n  hz: 20\n  set-max-listpack-value: \"64\"\n  "+
			"proc-title-template: \"${app.name}\"\nreserved:\n")
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	c, _ := b.Component("redis")
	v := sampleValues(c, "standalone", "7.0", 1<<30)
	got, err := b.ParametersInForce(c, v, platformv1.Parameters{"hz": "50", "save": ""})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"maxmemory": "805306368", "hz": "50", "save": "", "proc-title-template": "sample"}
	if len(got) != len(want) {
		t.Errorf("got %v; want %v", got, want)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q; want %q", name, got[name], value)
		}
	}
	v.App.Name = "it's"
	if _, err := b.ParametersInForce(c, v, nil); err == nil ||
		!strings.Contains(err.Error(), "the plugin's default is not allowed") {
		t.Errorf("a default that is not allowed gives %v", err)
	}
}

// A parameter that is a list is split at blanks; every other is one value, whatever it holds, escaped for the agents.
func TestParametersInFiles(t *testing.T) {
	b := loadRedis(t)
	c, _ := b.Component("redis")
	v := sampleValues(c, "standalone", "7.0", 0)
	v.Params = map[string]string{"save": "3600 1", "proc-title-template": "a b ${app.name}",
		"client-output-buffer-limit": "pubsub 1 2 3"}
	p, err := b.RenderPlan("redis", v)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, entry := range p.Files[0].Entries {
		got[entry.Key] = strings.Join(entry.Args, "|")
		if entry.Dynamic {
			t.Errorf("%s is dynamic", entry.Key)
		}
	}
	for key, want := range map[string]string{"save": "3600|1", "proc-title-template": "a b $${app.name}",
		"client-output-buffer-limit": "pubsub|1|2|3", "bind": "*|-::*"} {
		if got[key] != want {
			t.Errorf("%s has %q; want %q", key, got[key], want)
		}
	}
	v.Params = map[string]string{"save": ""}
	p, err = b.RenderPlan("redis", v)
	if last := p.Files[0].Entries[len(p.Files[0].Entries)-1]; err != nil || last.Key != "save" || len(last.Args) != 1 ||
		last.Args[0] != "" {
		t.Errorf("an empty list gives %+v, %v", last, err)
	}
}

// A user name is no secret: a reference to it becomes its text.
func TestUsernameIsResolved(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartComponents, components, "replication]\n      env:\n",
		"replication]\n      env:\n        - name: REDIS_USER\n          secret: {credential: default, key: username}\n")
	edit(t, sources, PartComponents, components, "          - key: requirepass\n", "          - key: masteruser\n       "+
		"     secret: {credential: default, key: username}\n          - key: requirepass\n")
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	c, _ := b.Component("redis")
	p, err := b.RenderPlan("redis", sampleValues(c, "standalone", "7.0", 0))
	if err != nil {
		t.Fatal(err)
	}
	if env := p.Probe.Env[0]; env.Value != "default" || env.Secret != nil {
		t.Errorf("env is %+v", env)
	}
	if env := p.Probe.Env[1]; env.Secret == nil || env.Secret.Key != "password" {
		t.Errorf("env is %+v", env)
	}
	for _, entry := range p.Files[0].Entries {
		if entry.Key == "masteruser" && (entry.Secret != nil || len(entry.Args) != 1 || entry.Args[0] != "default") {
			t.Errorf("entry is %+v", entry)
		}
	}
}

// An expression that gives nothing leaves the parameter to the middleware.
func TestDefaultsThatAreNotThere(t *testing.T) {
	sources, errs := LoadFolder(os.DirFS(redisFolder), "redis")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("redis")
	for topology, want := range map[string]string{"standalone": "", "replication": "yes"} {
		got, err := b.ParametersInForce(c, sampleValues(c, topology, "7.0", 0), nil)
		if err != nil || got["appendonly"] != want {
			t.Errorf("%s: appendonly is %q, %v; want %q", topology, got["appendonly"], err, want)
		}
	}
}
