// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

var shared = sync.OnceValues(func() (*reaper.Reaper, error) { return reaper.New(slog.New(slog.DiscardHandler)) })

// redis is the probe that a plugin for Redis would declare.
var redis = plan.Probe{
	Command: []string{"redis-cli", "INFO"},
	Healthy: "exitCode == 0 && fields['loading'] == '0'",
	Role:    "fields['role'] == 'master' ? 'primary' : 'secondary'",
	Version: "fields['redis_version']", MemberID: "fields['run_id']",
	Attributes: map[string]string{"mode": "fields['redis_mode']",
		"first": "stdout.startsWith('# Server') ? 'server' : stderr"},
}

const info = "# Server\r\nredis_version:7.0.15\r\nrun_id:5f2\r\nredis_mode:standalone\r\n\r\n# Persistence\r\n" +
	"loading:0\r\n# Replication\r\nrole:master\r\n"

func judge(t *testing.T, p plan.Probe, result command.Result) probe.Outcome {
	t.Helper()
	x, err := probe.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return x.Judge(result)
}

func TestHealthyOutputIsMapped(t *testing.T) {
	got := judge(t, redis, command.Result{Stdout: info})
	want := probe.Outcome{Role: "primary", Version: "7.0.15", MemberID: "5f2",
		Attributes: map[string]string{"mode": "standalone", "first": "server"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := judge(t, redis,
		command.Result{Stdout: strings.Replace(info, "master", "slave", 1)}); got.Role != "secondary" {
		t.Errorf("got %+v", got)
	}
}

func TestFields(t *testing.T) {
	output := "a:1\n b = two words \nc=x:y\nd:x=y\nno separator\n:no key\nempty:\r\nlast:1\nlast:2"
	for key, want := range map[string]string{"a": "1", "b": "two words", "c": "x:y", "d": "x=y", "empty": "",
		"last": "2"} {
		got := judge(t, plan.Probe{Role: "fields['" + key + "']"}, command.Result{Stdout: output})
		if got.Cause != "" || got.Role != want {
			t.Errorf("%s: got %+v, want %q", key, got, want)
		}
	}
	if got := judge(t, plan.Probe{Role: "string(fields.size())"}, command.Result{Stdout: output}); got.Role != "6" {
		t.Errorf("got %+v", got)
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name    string
		probe   plan.Probe
		result  command.Result
		cause   probe.Cause
		message string
	}{
		{"exit code", redis, command.Result{Stderr: "\n  Connection refused\nmore", Exit: reaper.Exit{Code: 1}},
			"exit code 1", "the probe failed with exit code 1: Connection refused"},
		{"signal", redis, command.Result{Exit: reaper.Exit{Code: -1, Signal: 11}}, "signal SIGSEGV",
			"the probe failed with signal SIGSEGV"},
		{"not healthy", redis, command.Result{Stdout: "loading:1\n"}, probe.CauseUnhealthy,
			"the probe says that it is not healthy: loading:1"},
		{"default expression", plan.Probe{}, command.Result{Exit: reaper.Exit{Code: 2}}, "exit code 2", "exit code 2"},
		{"missing field", redis, command.Result{Stdout: "LOADING\n"}, probe.CauseExpression,
			"cannot evaluate expression healthy: no such key: loading"},
		{"missing field of the role", redis, command.Result{Stdout: "loading:0\n"}, probe.CauseExpression,
			"cannot evaluate expression role: no such key: role"},
		{"missing field of the version", plan.Probe{Version: "fields['v']"}, command.Result{}, probe.CauseExpression,
			"expression version"},
		{"missing field of an attribute", plan.Probe{Attributes: map[string]string{"a": "fields['v']"}}, command.Result{},
			probe.CauseExpression, `expression attributes["a"]`},
		{"too costly", plan.Probe{Healthy: strings.Repeat("stdout.contains('yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy') || ", 50) +
			"false"},
			command.Result{Stdout: strings.Repeat("x", command.MaxOutput)}, probe.CauseExpression, "cost limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := judge(t, test.probe, test.result)
			if got.Cause != test.cause || !strings.Contains(got.Message, test.message) || got.Role != "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A middleware that is not healthy has attributes where its plan says so, and neither a role nor a version.
func TestAttributesOfAMiddlewareThatIsNotHealthy(t *testing.T) {
	p := redis
	p.AttributesWhen = "fields['state'] == 'copies'"
	copies := command.Result{Stdout: strings.Replace(info, "loading:0", "loading:1\r\nstate:copies", 1)}
	got := judge(t, p, copies)
	if want := map[string]string{"mode": "standalone", "first": "server"}; got.Cause != probe.CauseUnhealthy ||
		got.Role != "" || !reflect.DeepEqual(got.Attributes, want) {
		t.Errorf("got %+v, want the attributes %v", got, want)
	}
	for name, stdout := range map[string]string{
		"which the expression is not for": strings.Replace(info, "loading:0", "loading:1\r\nstate:waits", 1),
		"for which the expression fails":  strings.Replace(info, "loading:0", "loading:1", 1),
		"whose attributes fail":           "loading:1\nstate:copies\n",
	} {
		if got := judge(t, p, command.Result{Stdout: stdout}); got.Cause != probe.CauseUnhealthy || got.Attributes != nil {
			t.Errorf("one %s: got %+v", name, got)
		}
	}
	if got := judge(t, redis, copies); got.Attributes != nil {
		t.Errorf("a plan that does not say so: got %+v", got)
	}
	p.AttributesWhen = "nonsense"
	if _, err := probe.Compile(p); err == nil || !strings.Contains(err.Error(), "attributesWhen") {
		t.Errorf("got %v", err)
	}
}

// full is what a middleware says that turns its probe away.
const full = "AUTH failed: ERR max number of clients reached\nError: Server closed the connection\n"

func TestOutOfConnectionsIsToldApartFromNoAnswer(t *testing.T) {
	p := redis
	p.OutOfConnections = "stderr.contains('max number of clients reached')"
	refused := command.Result{Stderr: "Could not connect: Connection refused", Exit: reaper.Exit{Code: 1}}
	away := command.Result{Stderr: full, Exit: reaper.Exit{Code: 1}}
	want := probe.Outcome{Cause: probe.CauseOutOfConnections,
		OutOfConnections: "AUTH failed: ERR max number of clients reached",
		Message:          "there is no connection left for the probe: AUTH failed: ERR max number of clients reached"}
	if got := judge(t, p, away); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := judge(t, p, refused); got.Cause != "exit code 1" || got.OutOfConnections != "" {
		t.Errorf("a server that is down: got %+v", got)
	}
	if got := judge(t, p, command.Result{Stdout: info, Stderr: full}); got.Cause != "" || got.Role != "primary" {
		t.Errorf("a server that answers: got %+v", got)
	}
	if got := judge(t, redis, away); got.Cause != "exit code 1" {
		t.Errorf("a plan that does not tell it apart: got %+v", got)
	}
	p.OutOfConnections = "fields['full'] == 'yes'"
	if got := judge(t, p, away); got.Cause != "exit code 1" {
		t.Errorf("an expression that fails: got %+v", got)
	}
}

// TestReservedWayIn: a probe that is turned away tries once more with the reserved arguments.
func TestReservedWayIn(t *testing.T) {
	p := plan.Probe{Command: []string{"sh", "-c", `case "$1" in
		reserved) echo role:primary ;;
		paused) echo role:primary ;;
		*) echo too many clients >&2; exit 2 ;;
		esac`, "probe"}, OutOfConnections: "stderr.contains('too many clients')", Role: "fields['role']"}
	away := probe.Outcome{Cause: probe.CauseOutOfConnections, OutOfConnections: "too many clients",
		Message: "there is no connection left for the probe: too many clients"}
	for _, c := range []struct {
		name, reserved string
		want           probe.Outcome
	}{
		{"none", "", away},
		{"let in", "reserved", probe.Outcome{Role: "primary", OutOfConnections: "too many clients"}},
		{"turned away there, too", "other", away},
		{"let in, and not well", "paused", probe.Outcome{Cause: probe.CauseUnhealthy, OutOfConnections: "too many clients",
			Message: "the probe says that it is not healthy: role:primary"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p.Reserved = nil; c.reserved != "" {
				p.Reserved = []string{c.reserved}
			}
			if p.Healthy = ""; c.reserved == "paused" {
				p.Healthy = "exitCode == 0 && fields['role'] == 'none'"
			}
			if got := run(t, p); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAFailedCommandMayBeHealthy(t *testing.T) {
	p := plan.Probe{Healthy: "exitCode in [0, 3] || exitCode == 137", Role: "string(exitCode)"}
	for code, exit := range map[string]reaper.Exit{"3": {Code: 3}, "137": {Code: -1, Signal: 9}} {
		if got := judge(t, p, command.Result{Exit: exit}); got.Cause != "" || got.Role != code {
			t.Errorf("got %+v, want role %s", got, code)
		}
	}
}

func TestExpressionsAreCheckedWhenTheyAreCompiled(t *testing.T) {
	for name, test := range map[string]struct {
		probe plan.Probe
		want  string
	}{
		"syntax":    {plan.Probe{Healthy: "exitCode =="}, "cannot compile expression healthy"},
		"type":      {plan.Probe{Healthy: "stdout"}, "it gives string, not bool"},
		"role type": {plan.Probe{Role: "exitCode"}, "it gives int, not string"},
		"unknown":   {plan.Probe{Version: "password"}, "undeclared reference to 'password'"},
		"attribute": {plan.Probe{Attributes: map[string]string{"x": "1"}}, `attributes["x"]`},
	} {
		if _, err := probe.Compile(test.probe); err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q in one line", name, err, test.want)
		}
	}
}

func TestMessagesAreBoundedText(t *testing.T) {
	got := judge(t, plan.Probe{}, command.Result{Stderr: "\xff" + strings.Repeat("é", 1000) + "\nsecond",
		Exit: reaper.Exit{Code: 1}})
	if len([]rune(got.Message)) > 300 || !strings.HasSuffix(got.Message, "…") ||
		strings.ToValidUTF8(got.Message, "") != got.Message {
		t.Errorf("message is %q", got.Message)
	}
}

// run runs a real command.
func run(t *testing.T, p plan.Probe) probe.Outcome {
	t.Helper()
	r, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	dirs := planfile.Dirs{Secrets: filepath.Join(t.TempDir(), "secrets")}
	if err := os.MkdirAll(filepath.Join(dirs.Secrets, "default"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dirs.Secrets, "default", "password"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := probe.New(p, dirs.Secret, r)
	if err != nil {
		t.Fatal(err)
	}
	return made.Run(t.Context())
}

func TestRunWithASecret(t *testing.T) {
	p := plan.Probe{Command: []string{"sh", "-c", `echo "password=$P"`},
		Env:  []plan.EnvVar{{Name: "P", Secret: &plan.SecretRef{Credential: "default", Key: "password"}}},
		Role: "fields['password']"}
	if got := run(t, p); got.Cause != "" || got.Role != "hunter2" {
		t.Errorf("got %+v", got)
	}
}

func TestRunThatCannotBegin(t *testing.T) {
	p := plan.Probe{Command: []string{"true"},
		Env: []plan.EnvVar{{Name: "P", Secret: &plan.SecretRef{Credential: "missing", Key: "password"}}}}
	if got := run(t, p); got.Cause != probe.CauseStart || !strings.Contains(got.Message, "missing/password") {
		t.Errorf("got %+v", got)
	}
	if got := run(t, plan.Probe{Command: []string{"no-such-tool"}}); got.Cause != probe.CauseStart ||
		!strings.Contains(got.Message, "no-such-tool") {
		t.Errorf("got %+v", got)
	}
	if _, err := probe.New(plan.Probe{}, planfile.Dirs{}.Secret, nil); err == nil {
		t.Error("a probe without a command was taken")
	}
}

func TestRunThatHangs(t *testing.T) {
	got := run(t, plan.Probe{Command: []string{"sh", "-c", "sleep 1000 & wait"}, TimeoutSeconds: 1})
	if got.Cause != probe.CauseTimeout || got.Message != "the probe was killed at its deadline of 1s" {
		t.Errorf("got %+v", got)
	}
}

func TestInterval(t *testing.T) {
	for seconds, want := range map[int]time.Duration{0: 2 * time.Second, 7: 7 * time.Second} {
		p, err := probe.New(plan.Probe{Command: []string{"true"}, IntervalSeconds: seconds}, planfile.Dirs{}.Secret, nil)
		if err != nil || p.Interval() != want {
			t.Errorf("got %v, %v; want %v", p.Interval(), err, want)
		}
	}
}

func FuzzFields(f *testing.F) {
	x, err := probe.Compile(plan.Probe{
		Healthy: "fields.all(k, k.size() > 0 && !k.contains(':') && !k.contains('=') && !fields[k].contains('\\n'))"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a:1\nb=2\r\n: \n= \n")
	f.Fuzz(func(t *testing.T, output string) {
		if len(output) > 1000 {
			return
		}
		if got := x.Judge(command.Result{Stdout: output}); got.Cause != "" {
			t.Errorf("%q: %+v", output, got)
		}
	})
}
