// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/podtext"
)

var values = Values{
	App: App{Name: "cache", Namespace: "shop", Version: "7.0", Topology: "standalone"},
	Component: Component{Name: "redis", Replicas: 3, Headless: "cache-redis-headless.shop.svc.cluster.local",
		MemoryLimit: 1 << 30, CPULimit: 1500},
	Set: Set{Name: "main", Replicas: 3},
	Peers: []Peer{
		{Name: "cache-redis-main-0", Ordinal: 0, Set: "main", FQDN: "cache-redis-main-0.x"},
		{Name: "cache-redis-main-1", Ordinal: 1, Set: "main", FQDN: "cache-redis-main-1.x"},
	},
	Params: map[string]string{
		"plain": "value", "hostile": "${app.name} $${x} ${pod.name}", "dollar": "$", "lines": "a\nb",
	},
}

func TestEval(t *testing.T) {
	for text, want := range map[string]any{
		"":                                      "",
		"plain":                                 "plain",
		"${app.name}":                           "cache",
		"${component.replicas}":                 int64(3),
		"${component.replicas}x":                "3x",
		"${1.5}":                                1.5,
		"a${1.5}":                               "a1.5",
		"${component.name == ''}":               false,
		"${component.memoryLimit / 2}b":         "536870912b",
		"a ${app.name}-${set.name} z":           "a cache-main z",
		"$${app.name}":                          "${app.name}",
		"$$${app.name}":                         "$${app.name}",
		"$5 and $":                              "$5 and $",
		"${'}'}":                                "}",
		`${"{" + '}' + r'\'}`:                   `{}\`,
		`${'''a'}b'''}`:                         "a'}b",
		"${{'a': 'b'}['a']}":                    "b",
		"${params['hostile']}":                  "${app.name} $${x} ${pod.name}",
		"${'x' in params ? params['x'] : 'no'}": "no",
		"${app.name.upperAscii()}":              "CACHE",
		"${set.replicas}":                       int64(3),
		"${peers.filter(p, p.set == 'other').size()}": int64(0),
		"${peers.map(p, p.name + '=' + p.fqdn + ':' + string(p.ordinal)).join(',')}": "cache-redis-main-0=" +
			"cache-redis-main-0.x:0,cache-redis-main-1=cache-redis-main-1.x:1",
	} {
		template, err := Compile(text, Plan)
		if err != nil {
			t.Errorf("Compile(%q): %v", text, err)
			continue
		}
		got, err := template.Eval(values)
		if err != nil || got != want {
			t.Errorf("Eval(%q) = %#v, %v; want %#v", text, got, err, want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for text, tc := range map[string]struct {
		scope Scope
		says  string
	}{
		"${":          {Plan, `"}" is missing`},
		"${app.name":  {Plan, `"}" is missing`},
		"${'a}":       {Plan, "quote is not closed"},
		"${}":         {Plan, "is empty"},
		"${ }":        {Plan, "is empty"},
		"${app.nam}":  {Plan, "undefined field 'nam'"},
		"${secret}":   {Plan, "known here: app, component, set, params, peers"},
		"${pod.name}": {Defaults, "undeclared reference to 'pod'"},
		"${pod.name + 'a'}": {Plan,
			"pod as ${pod.name}, ${pod.ordinal}, ${pod.fqdn}, ${pod.zone}, ${pod.external.host} and ${pod.external.port}"},
		"${peers}":         {Plan, "it gives list(placeholder.Peer)"},
		"${peers[0].name}": {PodTemplate, "undeclared reference to 'peers'"},
		"${set.replicas}":  {PodTemplate, "scaling would replace every pod"},
		"${peers.map(p, peers.map(q, q.name).join(',')).join(',')}": {Plan, "steps"},
		"${params['x']}":            {Defaults, "undeclared reference to 'params'"},
		"${1 +}":                    {Plan, "Syntax error"},
		"${1 + 'a'}":                {Plan, "no matching overload"},
		"${[1]}":                    {Plan, "it gives list(int)"},
		"${params}":                 {Plan, "it gives map(string, string)"},
		"${app}":                    {Plan, "it gives placeholder.App"},
		"${dyn(1)}":                 {Plan, "it gives dyn"},
		"${params['a'].split(',')}": {Plan, "cannot be made of parameters"},
		"${[app.name]}":             {PodTemplate, "which only the plan of the agents takes"},
		"a ${[app.name]}":           {Plan, "cannot be a part of a text"},
		"${component.replicas}":     {PodTemplate, "scaling would replace every pod"},
		"${pod.name + app.name}":    {PodTemplate, "cannot use anything else"},
		"${pod.address}":            {PodTemplate, "undefined field 'address'"},
		"${string(" + many("app.name.size()+", 1200) + "1)}":                                    {Plan, "at most"},
		"${params.map(a, params.map(b, params.filter(c, c.contains(b)).size()).size()).size()}": {Plan, "steps"},
	} {
		_, err := Compile(text, tc.scope)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("Compile(%.60q, %s) = %v; want an error that says %q", text, tc.scope, err, tc.says)
		}
	}
}

func many(text string, count int) string { return strings.Repeat(text, count) }

func TestEvalFailsClearly(t *testing.T) {
	for text, says := range map[string]string{
		"${params['absent']}":             "no such key: absent",
		"${1 / (component.replicas - 3)}": "division by zero",
		"${int(app.name)}":                "cannot be evaluated",
		"${'" + many("x", 1500) + "' + '" + many("y", 2000) + "' + params['plain'] + '" + many("z", 500) + "'}": "",
	} {
		template, err := Compile(text, Plan)
		if err != nil {
			t.Errorf("Compile(%.40q): %v", text, err)
			continue
		}
		_, err = template.Eval(values)
		if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("Eval(%.40q) = %v; want %q", text, err, says)
		}
	}
}

func TestKind(t *testing.T) {
	for text, want := range map[string]Kind{
		"${1}": Int, "${1}0": Text, "${true}": Bool, "${0.5}": Number, "${''}": Text, "x": Text, "$${1}": Text,
	} {
		template, err := Compile(text, Plan)
		if err != nil || template.Kind() != want {
			t.Errorf("Kind(%q) = %v, %v; want %s", text, template, err, want)
		}
	}
}

// What a value holds is never taken as a placeholder, not even when the pod is filled in later.
func TestValuesAreNeverExpanded(t *testing.T) {
	pod := Pod{Name: "cache-redis-main-0", Ordinal: 0, FQDN: "cache-redis-main-0.x"}
	for text, want := range map[string]string{
		"${params['hostile']}":                    "${app.name} $${x} ${pod.name}",
		"a${params['hostile']}b":                  "a${app.name} $${x} ${pod.name}b",
		"${params['dollar']}{pod.name}":           "${pod.name}",
		"${params['dollar']}${pod.name}":          "$cache-redis-main-0",
		"$${x}${pod.ordinal}":                     "${x}0",
		"${pod.name}-agent":                       "cache-redis-main-0-agent",
		"${pod.fqdn}:${params['plain']}":          "cache-redis-main-0.x:value",
		"${'$'}${'$'}${pod.name}${'$'}{app.name}": "$$cache-redis-main-0${app.name}",
		"$${pod.name}":                            "${pod.name}",
	} {
		template, err := Compile(text, PodTemplate)
		if err != nil {
			t.Errorf("Compile(%q): %v", text, err)
			continue
		}
		partial, err := template.Partial(values)
		if err != nil {
			t.Errorf("Partial(%q): %v", text, err)
			continue
		}
		got, err := ExpandPod(map[string]any{"list": []any{partial}}, pod)
		if err != nil {
			t.Errorf("ExpandPod(%q): %v", partial, err)
			continue
		}
		if got := got.(map[string]any)["list"].([]any)[0]; got != want {
			t.Errorf("%q became %q, then %q; want %q", text, partial, got, want)
		}
	}
}

// In a plan, the agents fill in the pod: three expressions, and everything else is escaped for package podtext.
func TestPlanKeepsThePod(t *testing.T) {
	pod := podtext.PodOf("cache-redis-main-7", "x.svc")
	for text, want := range map[string]string{
		"${pod.name}.${ pod.ordinal }=${pod.fqdn}": "cache-redis-main-7.7=cache-redis-main-7.x.svc",
		"${params['hostile']}${pod.name}":          "${app.name} $${x} ${pod.name}cache-redis-main-7",
		"$${pod.name}${pod.name}":                  "${pod.name}cache-redis-main-7",
		"a$b${pod.name}$":                          "a$bcache-redis-main-7$",
		"${params['hostile']}":                     "${app.name} $${x} ${pod.name}",
	} {
		template, err := Compile(text, Plan)
		if err != nil {
			t.Errorf("Compile(%q): %v", text, err)
			continue
		}
		partial, err := template.Partial(values)
		if err != nil {
			t.Errorf("Partial(%q): %v", text, err)
			continue
		}
		if got, err := podtext.Expand(partial.(string), pod); err != nil || got != want {
			t.Errorf("%q became %q, then %q, %v; want %q", text, partial, got, err, want)
		}
	}
	// Before the pod, a dollar out of a value would read as an escape.
	template, err := Compile("${params['dollar']}${pod.name}", Plan)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := template.Partial(values); err == nil || !strings.Contains(err.Error(), "right before") {
		t.Errorf("Partial = %q, %v; want an error", got, err)
	}
}

func TestFixedAndParameters(t *testing.T) {
	for text, want := range map[string]struct {
		fixed bool
		names string
		exact bool
	}{
		"plain":       {true, "", true},
		"${pod.name}": {true, "", true},
		"$${x}":       {true, "", true},
		"${app.name}": {false, "", true},
		"${'a' in params ? params['b'] : params.c}": {false, "a b c", true},
		"${params[app.name]}":                       {false, "", false},
		"${params.map(k, k).join(',')}":             {false, "", false},
	} {
		template, err := Compile(text, Plan)
		if err != nil {
			t.Errorf("Compile(%q): %v", text, err)
			continue
		}
		names, exact := template.Parameters()
		slices.Sort(names)
		if template.Fixed() != want.fixed || strings.Join(names, " ") != want.names || exact != want.exact {
			t.Errorf("%q: Fixed() = %v, Parameters() = %v, %v; want %+v", text, template.Fixed(), names, exact, want)
		}
	}
}

func TestEvalNeedsThePod(t *testing.T) {
	template, err := Compile("x${pod.name}", PodTemplate)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := template.Eval(values); err == nil || !strings.Contains(err.Error(), "pod is not known yet") {
		t.Errorf("Eval = %v; want an error", err)
	}
	if !template.Late() {
		t.Error("Late() is false; want true")
	}
}

func TestExpandPodRefusesWhatIsNoPodExpression(t *testing.T) {
	for _, text := range []string{"${app.name}", "${", "${pod.nam}"} {
		if got, err := ExpandPod(text, Pod{}); err == nil {
			t.Errorf("ExpandPod(%q) = %v; want an error", text, got)
		}
	}
}

// Any text that is escaped comes back as it was, at once and through the later expansion.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "$", "${", "$${", "$$${a}", "a${pod.name}b$", "}{", "\x00'\"`"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		template, err := Compile(Escape(text), PodTemplate)
		if err != nil {
			t.Fatalf("Compile(Escape(%q)): %v", text, err)
		}
		got, err := template.Eval(values)
		if err != nil || got != text {
			t.Fatalf("Eval(Escape(%q)) = %q, %v", text, got, err)
		}
		partial, err := template.Partial(values)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ExpandPod(partial, Pod{Name: "p"}); err != nil || got != text {
			t.Fatalf("ExpandPod(Partial(Escape(%q))) = %q, %v", text, got, err)
		}
	})
}

// A text either is refused or gives a scalar, whatever it holds.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"${app.name}", "a${1}b", "${'}'}", "${r'\\'}", "${\"\"\"x\"\"\"}", "${{'a':1}['a']}",
		"${params.map(a,a)}", "${pod.name}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		template, err := Compile(text, PodTemplate)
		if err != nil {
			return
		}
		got, err := template.Partial(values)
		if err != nil {
			return
		}
		switch got.(type) {
		case string, int64, float64, bool:
		default:
			t.Fatalf("Partial(%q) = %#v; want a scalar", text, got)
		}
		if text, ok := got.(string); ok {
			if _, err := ExpandPod(text, Pod{Name: "p"}); err != nil && !strings.Contains(err.Error(), "cannot be evaluated") &&
				!strings.Contains(err.Error(), "at most") {
				t.Fatalf("ExpandPod(%q): %v", text, err)
			}
		}
	})
}

// What a plan's text becomes is one that the agents can expand, whatever the text and the values hold.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{"${pod.name}", "$${pod.name}", "${params['hostile']}${pod.ordinal}", "$$${x}",
		"${'$'}{pod.name}", "a${ pod.fqdn }b${'${pod.name}'}"} {
		f.Add(seed)
	}
	pod := podtext.PodOf("cache-redis-main-0", "x")
	f.Fuzz(func(t *testing.T, text string) {
		template, err := Compile(text, Plan)
		if err != nil {
			return
		}
		partial, err := template.Partial(values)
		late, ok := partial.(string)
		if err != nil || !ok {
			return
		}
		got, err := podtext.Expand(late, pod)
		if err != nil {
			t.Fatalf("%q became %q, which the agents refuse: %v", text, late, err)
		}
		if template.Late() {
			return
		}
		if want, err := template.Eval(values); err != nil || got != want {
			t.Fatalf("%q became %q, then %q; want %q, %v", text, late, got, want, err)
		}
	})
}
