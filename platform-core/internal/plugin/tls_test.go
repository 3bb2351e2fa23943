// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

func TestBrokenTLS(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: old, new: new, at: at, says: says}
	}
	const condition = "- key: tls-port\n            args: [\"6379\"]\n            when: app.tls"
	run(t, map[string]broken{
		"condition is no truth": c(condition, "- key: tls-port\n            args: [\"6379\"]\n            when: app.name",
			"when: app.name", "must give true or false"),
		"condition is unknown": c(condition, "- key: tls-port\n            args: [\"6379\"]\n            when: app.ssl",
			"when: app.ssl", "undefined field 'ssl'"),
		"condition of the pod": c(condition, "- key: tls-port\n            args: [\"6379\"]\n            when: pod.name",
			"when: pod.name", "cannot look at the pod"),
		"condition is empty": c(condition, "- key: tls-port\n            args: [\"6379\"]\n            when: ''",
			"when: ''", "Syntax error"),
		"condition elsewhere": c("dir: /data\n      stop", "dir: /data\n      when: app.tls\n      stop", "when: app.tls",
			`field "components[0].process.when" is not known`),
		"list as a text": c("dir: /data\n      stop", "dir: \"${['a']}\"\n      stop", "dir: \"${['a']}\"",
			"only a command and the arguments of an entry take one"),
		"list within a text": c("[redis-server, /zeroinfra/config/redis.conf]", "[redis-server, \"a${['a']}\"]",
			"[redis-server", "cannot be a part of a text"),
		"list of numbers": c("[redis-server, /zeroinfra/config/redis.conf]", "[redis-server, \"${[1]}\"]",
			"[redis-server", "it gives list(int)"),
		"reload in two ways": c("is gone.\n      reload:\n", "is gone.\n      reload:\n        signal: SIGHUP\n",
			"reload:\n        signal", "must have exactly one of signal and command"),
		"URI of TLS is missing": c("  uriSchemeTLS: rediss\n", "", "binding:", "has a uriScheme and no uriSchemeTLS"),
		"credential has our name": c("  - name: default\n    username", "  - name: a-tls\n    username", "a-tls",
			"are taken"),
	})
}

// Without TLS nothing of it is in the plan; with it, all is.
func TestWhatTLSAddsToAPlan(t *testing.T) {
	b := loadRedis(t)
	c, _ := b.Component("redis")
	values := sampleValues(c, "standalone", "7.0", 0)
	for _, on := range []bool{false, true} {
		values.App.TLS = on
		p, err := b.RenderPlan("redis", values)
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(p.Files[0].Entries, func(e plan.Entry) bool { return e.Key == "tls-cert-file" })
		asks := slices.Index(p.Probe.Command, "--tls")
		if has != on || asks >= 0 != on || (p.TLS != nil) != on {
			t.Errorf("TLS %v: the plan is %+v", on, p)
		}
		if on && p.Probe.Command[asks+1] != "--cacert" {
			t.Errorf("the probe is %q", p.Probe.Command)
		}
		for _, entry := range p.Files[0].Entries {
			if entry.When != "" {
				t.Errorf("the condition of %s is left", entry.Key)
			}
		}
	}
}
