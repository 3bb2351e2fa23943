// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/podtext"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// relaySources reads a plugin that uses what redis does not: sets, needs, peers, several volumes and files, dynamic
// parameters.
func relaySources(t testing.TB) map[Part]Source {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(filepath.Join("testdata", "relay", "1.0.0")), "relay")
	if len(errs) > 0 {
		t.Fatalf("the relay plugin cannot be read: %v", errs)
	}
	return sources
}

func loadRelay(t testing.TB) *Bundle {
	t.Helper()
	bundle, errs := Load(relaySources(t))
	if len(errs) > 0 {
		t.Fatalf("the relay plugin is refused:\n%s", list(errs))
	}
	return bundle
}

// inRelay returns what makes a broken one of a text of the relay plugin.
func inRelay(part Part, key string) func(old, new, at, says string) broken {
	return func(old, new, at, says string) broken {
		return broken{plugin: "relay", part: part, key: key, old: old, new: new, at: at, says: says}
	}
}

func TestBrokenRelay(t *testing.T) {
	c := inRelay(PartComponents, components)
	warns := func(b broken) broken { b.loads = warned; return b }
	run(t, map[string]broken{
		"no sets": c("sets: {default: 2, min: 1, max: 4}", "sets: {default: 0, min: 0, max: 4}",
			"sets:", "a whole number from 1 to 64"),
		"sets in odd order": c("sets: {default: 2, min: 1, max: 4}", "sets: {default: 5, min: 1, max: 4}",
			"sets:", "must grow in this order"),
		"too many pods": c("sets: {default: 2, min: 1, max: 4}", "sets: {default: 2, min: 1, max: 5}",
			"replicas:", "allows 5 sets of 250 pods: a component has at most 1000 pods"),
		"scaling": c("scaling: Fixed", "scaling: Never", "Never",
			`one of "Online", "Sets" or "Fixed"`),
		"pod management": c("OrderedReady", "Ordered", "Ordered", `one of "Parallel" or "OrderedReady"`),
		"restarts in order": c("OrderedReady", "OrderedReady\n    restartStrategy: AllAtOnce",
			"restartStrategy:", "with podManagementPolicy Parallel"),
		"needs nobody": c("needs: [hub]", "needs: [hup]", "needs: [hup]",
			`names the component "hup", which is not there: there is edge, hub`),
		"needs itself": c("needs: [hub]", "needs: [edge]", "needs: [edge]", "is a circle: edge need"),
		"needs twice":  c("needs: [hub]", "needs: [hub, hub]", "needs: [hub", "names must differ"),
		"needs in a circle": c("    scaling: Fixed\n", "    scaling: Fixed\n    needs: [edge]\n",
			"needs: [edge]", "is a circle: hub, edge need each other"),
		"needs what the topology has": c("    scaling: Fixed\n", "    scaling: Fixed\n    needs: [edge]\n",
			"needs: [edge]", `names "edge", which topology "hubs" has not`),
		"more pods in a topology": warns(
			c("replicas: {default: 3, min: 1, max: 5}", "replicas: {default: 3, min: 1, max: 251}", "max: 251",
				`allows 251, which component "hub" does not: it takes 0 to 250, and a topology can only narrow that`)),
		"more sets in a topology": warns(
			c("replicas: {default: 3, min: 1, max: 5}", "sets: {default: 1, min: 1, max: 5}", "max: 5}",
				`allows 5, which component "hub" does not: it takes 1 to 4`)),
		"steps lost in a topology": warns(
			c("replicas: {default: 3, min: 0, max: 250}", "replicas: {default: 3, min: 1, max: 9, step: 2}", "max: 5}",
				`allows 2, which component "hub" does not: it takes 1 to 9 in steps of 2`)),
		"updated before nobody": c("  - name: plain\n", "  - name: plain\n    updateOrder: [hub, hup]\n", "hup]",
			`names the component of this topology "hup", which is not there: there is edge, hub`),
		"updated in another topology": c("  - name: hubs\n", "  - name: hubs\n    updateOrder: [hub, edge]\n", "updateOrder:",
			`names the component of this topology "edge", which is not there: there is hub`),
		"updated twice": c("  - name: plain\n", "  - name: plain\n    updateOrder: [hub, hub]\n", "updateOrder:",
			"names must differ"),
		"updated alone": c("  - name: plain\n", "  - name: plain\n    updateOrder: [hub]\n", "updateOrder:",
			"at least two components"),
		"needs what may not be there": c("        replicas: {default: 3, min: 1, max: 5}\n",
			"        replicas: {default: 3, min: 1, max: 5}\n        optional: true\n", "needs: [hub]",
			"or not always: it would wait for ever"),
		"nothing but options": c("  - name: hubs\n    components:\n      - name: hub\n",
			"  - name: hubs\n    components:\n      - name: hub\n        optional: true\n",
			"    components:\n      - name: hub\n        optional", "are all optional: an instance would be nothing"),
		"access": c("access: Peers", "access: Nobody", "Nobody",
			`one of "Client", "Peers" or "Metrics"`),
		"peers' port for clients": c("        exposure: Internal\n", "", "ports: [client, peer]",
			`names the port "peer", whose access is Peers`),
		"two ways to reload": c("each: [hubctl, set]", "each: [hubctl, set]\n        signal: SIGHUP", "reload:",
			"exactly one of signal, command and each"),
		"no way to reload": c("        each: [hubctl, set]\n", "", "reload:",
			"exactly one of signal, command and each"),
		"signal with env": c("each: [hubctl, set]", "signal: SIGHUP",
			"        env:\n          - {name: ORDINAL", "is for a command: a signal has none"),
		"signal with time": c(
			"each: [hubctl, set]\n        env:\n          - {name: ORDINAL, value: \"${pod.ordinal}\"}",
			"signal: SIGHUP\n        timeoutSeconds: 5", "timeoutSeconds", "a signal takes no time"),
		"dynamic without reload": c(
			"      reload:\n        each: [hubctl, set]\n        env:\n          - {name: ORDINAL, value: \"${pod.ordinal}\"}\n",
			"", "process:", `names dynamic parameters: add process.reload`),
		"placeholder in text": c("I am ${pod.name}", "I am ${app.name}", "I am",
			"a placeholder that is not of the pod"),
		"peers in a pod template": {plugin: "relay", part: PartPodTemplates, key: "hub.yaml", old: "    - name: hub\n",
			new: "    - name: hub\n      env: [{name: P, value: \"${peers[0].name}\"}]\n", at: "peers[0]",
			says: "undeclared reference to 'peers'"},
		"peer that may not be there": c("--mode, ", "--first, \"${peers[0].fqdn}\", --mode, ", "--first",
			"with 1 sets of 0 pods"),
		"peers of peers": c("p.fqdn + ':7001'", "peers.map(q, q.fqdn).join(',')", "--peers", "steps: at most"),
		"long peers": c("p.fqdn + ':7001'", "p.fqdn + p.fqdn + p.fqdn + p.fqdn", "--peers",
			"of 250 pods: components[0].process.command[4]: placeholder"),
	})
}

func TestBrokenParametersOfRelay(t *testing.T) {
	set := inRelay(PartParams, "hub.yaml")
	run(t, map[string]broken{
		"dynamic unknown":           set("- rate", "- rates", "- rates", `did you mean "rate"?`),
		"dynamic unknown beginning": set("- log-*", "- logs-*", "- logs-*", `parameter "logs-*" is not in the schema`),
		"dynamic is no pattern": set("- log-*", "- l*g", "- l*g",
			"the name of a parameter, or its beginning and *"),
		"reset value unknown": set("dynamic:", "resetValues: {rates: 1}\ndynamic:", "resetValues:",
			`did you mean "rate"?`),
		"reset value and dynamic": set("dynamic:", "resetValues: {rate: 1}\ndynamic:", "resetValues:",
			`parameter "rate" is in "dynamic" too`),
		"reset value is not allowed": set("dynamic:\n  - rate\n", "resetValues: {rate: 0}\ndynamic:\n", "resetValues:",
			`the reset value is not allowed: parameter "rate" has value "0"`),
		"reset value holds a placeholder": set("dynamic:\n  - rate\n", "resetValues: {rate: \"${app.name}\"}\ndynamic:\n",
			"resetValues:", "placeholder"),
		"rule gives text": set("dynamic:", "rules: [{rule: \"params['mode']\", message: x}]\ndynamic:", "rules:",
			"it gives text: a rule gives true or false"),
		"rule of nothing known": set("dynamic:", "rules: [{rule: \"params['mood'] == ''\", message: x}]\ndynamic:",
			"rules:", `parameter "mood" is not in the schema`),
		"rule with peers": set("dynamic:", "rules: [{rule: peers.size() > 0, message: x}]\ndynamic:", "rules:",
			"undeclared reference to 'peers'"),
		"rule that defaults break": set("dynamic:",
			"rules: [{rule: \"params['mode'] == 'loose'\", message: mode must be loose}]\ndynamic:", "defaults:",
			"mode must be loose"),
		"rule without a message": set("dynamic:", "rules: [{rule: \"true\"}]\ndynamic:", "rules:", "message is missing"),
	})
}

func TestBrokenFilesOfRelay(t *testing.T) {
	c := inRelay(PartComponents, components)
	run(t, map[string]broken{
		"dynamic in a placeholder": c("${params['mode']}", "${params['mode']}${'rate' in params ? params['rate'] : ''}",
			"--mode", `uses the dynamic parameter "rate": a change of it would restart`),
		"dynamic in no file": c("parameters: {match: [\"log-*\"]}", "parameters: {match: [log-level]}", "files:",
			`take in no parameter "log-file", which is dynamic`),
		"parameter in no file": c(`parameters: {except: ["log-*", mode]}`,
			`parameters: {except: ["log-*", mode, queue]}`, "files:", `take in no parameter "queue", and no placeholder uses `+
				`it: setting it would change nothing; have a file take it in, use ${params['queue']}, or take it out of hub.cue`),
		"parameter in two files": c(`parameters: {except: ["log-*", mode]}`, "parameters: All", "parameters: {match",
			`takes in "log-file", which components[0].files[0] takes in already`),
		"selects nothing known": c(`match: ["log-*"]`, `match: ["log-*", "lag-*"]`, `match: ["log-*", "lag-*"]`,
			`is "lag-*": no parameter of the schema is called so`),
		"excepts nothing known": c(`"log-*", mode]`, `"log-*", mood]`, "except:",
			`is "mood": no parameter of the schema is called so`),
		"selects in no way": c(`parameters: {match: ["log-*"]}`, "parameters: Some", "parameters: Some",
			"All, {match: [names]} or {except: [names]}"),
		"selects in two ways": c(`parameters: {match: ["log-*"]}`, `parameters: {match: ["log-*"], except: [mode]}`,
			"parameters: {match", "All, {match: [names]} or {except: [names]}"),
		"parameters without a set": c("      command: [edge]\n",
			"      command: [edge]\n    files: [{path: /zeroinfra/config/e, format: env, entries: [], parameters: All}]\n",
			"files: [{path", "the component has none: name its parameter set"),
		"parameters in text": c("        format: properties", "        format: text",
			`parameters: {match: ["log-*"]}`, "not allowed in a file of format text"),
		"form out of text": c(`match: ["log-*"]}`, `match: ["log-*"], form: pg_hba}`, "parameters: {match",
			"is for a file of format text: properties escapes values itself"),
		"form unknown": c(`match: ["log-*"]}`, `match: ["log-*"], form: hosts}`, "parameters: {match",
			"and form: pg_hba"),
		"after nothing": c(`mode]}`, `mode], after: sizes}`, "parameters: {except",
			`is "sizes", and no entry of the file has that key: did you mean "size"?`),
		"after what may be left out": c("args: [\"${set.replicas}\"]}\n        parameters: {except: [\"log-*\", mode]}",
			"args: [a], when: app.tls}\n        parameters: {except: [\"log-*\", mode], after: size}",
			"- path: /zeroinfra/config/hub.conf", `the parameters come after the entry "size", which is left out`),
		"dynamic entry, no reload": c("      command: [edge]\n", "      command: [edge]\n    files: [{path: "+
			"/zeroinfra/config/e, format: env, entries: [{key: A, args: [b], dynamic: true}]}]\n", "files: [{path",
			"the process has none: add process.reload"),
	})
}

// An entry that says so may be made of dynamic parameters, and those that come after an entry are there.
func TestEntriesThatAReloadTakesOver(t *testing.T) {
	sources := relaySources(t)
	edit(t, sources, PartComponents, componentsKey,
		"          - {key: size, args: [\"${set.replicas}\"]}\n        parameters: {except: [\"log-*\", mode]}",
		"          - {key: size, args: [\"${set.replicas}\"]}\n          - {key: pace, args: [\"${'rate' in params ? "+
			"params['rate'] : '0'}\"], dynamic: true}\n          - {key: last, args: [a]}\n        parameters: {except: "+
			"[\"log-*\", mode], after: size}")
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	hub, _ := b.Component("hub")
	v := sampleValues(hub, "plain", "2", 0)
	v.Params = map[string]string{"rate": "5", "queue": "7", "mode": "strict"}
	p, err := b.RenderPlan("hub", v)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range p.Files[0].Entries {
		got = append(got, fmt.Sprint(entry.Key, entry.Args, entry.Dynamic))
	}
	if want := "size[3] false queue[7] false rate[5] true pace[5] true last[a] false"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// The first set has no dynamic parameter: what each would run for is nothing. The error is at the component, not at the
// set.
func TestEachNeedsDynamicParameters(t *testing.T) {
	sources := relaySources(t)
	edit(t, sources, PartParams, "hub.yaml", "dynamic:\n  - rate\n  - log-*\n", "")
	_, errs := Load(sources)
	if text := list(errs); !strings.Contains(text,
		`process.reload.each is run for each changed dynamic parameter, and the component has none`) {
		t.Errorf("got\n%s", text)
	}
}

func TestRelayPlan(t *testing.T) {
	b := loadRelay(t)
	hub, _ := b.Component("hub")
	v := sampleValues(hub, "plain", "2", 0)
	params, err := b.ParametersInForce(hub, v,
		platformv1.Parameters{"rate": "5", "queue": "7", "log-file": "/log/${pod.name}"})
	if err != nil {
		t.Fatal(err)
	}
	v.Params = params
	p, err := b.RenderPlan("hub", v)
	if err != nil {
		t.Fatal(err)
	}
	pod := podtext.PodOf("sample-hub-1-2", "d.svc")
	expand := func(text string) string {
		t.Helper()
		got, err := podtext.Expand(text, pod)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	command := p.Process.Command
	if got := expand(command[2]); got != pod.Name {
		t.Errorf("--name is %q", got)
	}
	peers := strings.Split(command[4], ",")
	if len(peers) != 6 || peers[4] != "sample-hub-1-1.sample-hub-headless.default.svc.cluster.local:7001" {
		t.Errorf("--peers is %q", peers)
	}
	if got := expand(p.Process.Env[0].Value); got != "sample-hub-1-2.d.svc of sample" {
		t.Errorf("SELF is %q", got)
	}
	var lines []string
	for _, file := range p.Files {
		for _, e := range file.Entries {
			line := file.Path[len("/zeroinfra/config/"):] + " " + e.Key + "=" + expand(strings.Join(e.Args, " "))
			if e.Dynamic {
				line += " dynamic"
			}
			lines = append(lines, line)
		}
	}
	want := []string{
		"hub.conf size=3", "hub.conf queue=7", "hub.conf rate=5 dynamic",
		// What a user writes is a value, whatever it looks like.
		"log.properties log-file=/log/${pod.name} dynamic", "banner banner=I am sample-hub-1-2 for ${you}",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q\nwant %q", lines, want)
	}
}

func TestRules(t *testing.T) {
	sources := relaySources(t)
	edit(t, sources, PartParams, "hub.yaml", "dynamic:", "rules:\n  - rule: \"!('rate' in params) || params['mode'] == "+
		"'loose' || int(params['rate']) < 10\"\n    message: rate must be below 10 unless mode is loose\ndynamic:")
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	hub, _ := b.Component("hub")
	v := sampleValues(hub, "plain", "1", 0)
	for _, tc := range []struct {
		user platformv1.Parameters
		says string
	}{
		{nil, ""}, {platformv1.Parameters{"rate": "9"}, ""}, {platformv1.Parameters{"rate": "10", "mode": "loose"}, ""},
		{platformv1.Parameters{"rate": "10"}, "rate must be below 10 unless mode is loose"},
	} {
		_, err := b.ParametersInForce(hub, v, tc.user)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v gives %v; want %q", tc.user, err, tc.says)
		}
	}
}

func TestRange(t *testing.T) {
	for _, tc := range []struct {
		r    schema.Range
		text string
		all  []int32
	}{
		{schema.Range{Min: 2, Max: 2}, "exactly 2", []int32{2}},
		{schema.Range{Min: 0, Max: 3}, "0 to 3", []int32{0, 1, 2, 3}},
		{schema.Range{Min: 1, Max: 5, Step: 2}, "1, 3 or 5", []int32{1, 3, 5}},
		{schema.Range{Min: 3, Max: 5, Step: 2}, "3 or 5", []int32{3, 5}},
		{schema.Range{Min: 1, Max: 9, Step: 2}, "1 to 9 in steps of 2", []int32{1, 3, 5, 7, 9}},
	} {
		var allowed []int32
		for n := int32(-1); n < 12; n++ {
			if tc.r.Allows(n) {
				allowed = append(allowed, n)
			}
		}
		if tc.r.String() != tc.text || !slices.Equal(allowed, tc.all) {
			t.Errorf("%+v is %q and allows %v; want %q and %v", tc.r, tc.r, allowed, tc.text, tc.all)
		}
	}
}

// A plan for as many peers as there can be stays within the cost limits.
func TestThousandPeers(t *testing.T) {
	b := loadRelay(t)
	hub, _ := b.Component("hub")
	v := sampleValues(hub, "hubs", "1", 0)
	sampleSize{sets: 4, replicas: 250}.fill(&v, false)
	v.Params = map[string]string{"mode": "strict"}
	p, err := b.RenderPlan("hub", v)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(p.Process.Command[4], ",") + 1; got != placeholder.MaxPeers {
		t.Errorf("--peers has %d of %d", got, placeholder.MaxPeers)
	}
}
