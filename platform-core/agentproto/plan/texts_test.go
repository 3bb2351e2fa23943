// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// every has a text of its own in each place, in capital letters where Rewrite must not come.
func every() *plan.Plan {
	secret := &plan.SecretRef{Credential: "CREDENTIAL", Key: "KEY"}
	return &plan.Plan{
		Version: 1, Digest: "DIGEST", RestartDigest: "RESTART", Domain: "DOMAIN",
		Process: plan.Process{
			Command: []string{"the command", "argument"},
			Env:     []plan.EnvVar{{Name: "NAME", Value: "a value"}, {Name: "SECRET", Secret: secret}}, Dir: "/dir",
			Stop: plan.Stop{Signal: "SIGTERM", TimeoutSeconds: 3}, Signals: []string{"SIGHUP"},
			Backoff: plan.Backoff{MaxSeconds: 4},
			Reload: &plan.Reload{Signal: "SIGHUP", Command: []string{"the reload"}, Each: []string{"the each"},
				Env: []plan.EnvVar{{Name: "RELOAD", Value: "reload value"}}},
			Hooks: &plan.Hooks{PreStart: &plan.Hook{Command: []string{"the start"},
				Env: []plan.EnvVar{{Name: "START", Value: "start value"}, {Name: "SECRET", Secret: secret}}},
				PreStop: &plan.Hook{Command: []string{"the stop"}, TimeoutSeconds: 2}},
		},
		Files: []plan.File{{Path: "PATH", Format: plan.FormatRedis, Mode: "MODE", Entries: []plan.Entry{
			{Key: "SETTING", Args: []string{"one", "two"}, Secret: secret, Dynamic: true}, {Key: "BARE"}}}},
		Probe: plan.Probe{Command: []string{"the probe"}, Env: []plan.EnvVar{{Name: "PROBE", Value: "probe value"}},
			Reserved: []string{"the reserved"}, OutOfConnections: "FULL",
			Healthy: "HEALTHY", Role: "ROLE", Version: "VERSION", Attributes: map[string]string{"ATTRIBUTE": "EXPRESSION"},
			IntervalSeconds: 5},
		TLS: &plan.TLS{Reload: &plan.Reload{Command: []string{"the renewal"},
			Env: []plan.EnvVar{{Name: "RENEWAL", Value: "renewal value"}}}},
		Actions: []plan.Action{{Name: "ACTION",
			Query: &plan.Query{Statement: "STATEMENT", Arguments: []string{"an argument"}, Database: "DATABASE"}}},
		Writing: &plan.Writing{Set: "SET", PrimaryArgs: []string{"the writer"},
			ReplicaArgs: []string{"FOLLOWER ${primary.fqdn}"},
			Promote:     &plan.Action{Name: "PROMOTE", Command: []string{"the promotion"}},
			Follow: &plan.Action{Name: "FOLLOW", Command: []string{"the following", "${parameters.primary}"},
				Parameters: map[string]string{"primary": "CUE"}},
			Rejoin: &plan.Action{Name: "REJOIN", Command: []string{"the return"},
				Env: []plan.EnvVar{{Name: "RETURN", Value: "return value"}}}},
	}
}

func encode(t *testing.T, p *plan.Plan) string {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRewriteReachesEachTextAndNothingElse(t *testing.T) {
	p := every()
	before := encode(t, p)
	var seen []string
	got, err := p.Rewrite(func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		seen = append(seen, text)
		return "<" + text + ">", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"the command", "argument", "a value", "/dir", "the reload", "the each", "reload value", "the start",
		"start value", "the stop", "one", "two", "the renewal", "renewal value",
		"an argument", "the writer", "the promotion", "the following", "the return", "return value", "the probe",
		"the reserved", "probe value"}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("texts are %q, want %q", seen, want)
	}
	if after := encode(t, p); after != before {
		t.Errorf("the plan itself was changed to %s", after)
	}
	for _, text := range want {
		before = strings.Replace(before, `"`+text+`"`, `"<`+text+`>"`, 1)
	}
	if after := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(encode(t, got)); after != before {
		t.Errorf("got  %s\nwant %s", after, before)
	}
}

func TestRewriteSaysWhereAnErrorIs(t *testing.T) {
	broken := errors.New("broken")
	for text, where := range map[string]string{
		"argument": "process: command: broken", "a value": `process: variable "NAME": broken`, "/dir": "process: dir: broken",
		"the reload": "reload: command: broken", "the each": "reload: each: broken",
		"reload value": `reload: variable "RELOAD": broken`,
		"two":          `file "PATH": setting "SETTING": broken`, "the renewal": "tls: reload: command: broken",
		"renewal value": `tls: reload: variable "RENEWAL": broken`,
		"the probe":     "probe: command: broken", "probe value": `probe: variable "PROBE": broken`,
	} {
		got, err := every().Rewrite(func(one string) (string, error) {
			if one == text {
				return "", broken
			}
			return one, nil
		})
		if !errors.Is(err, broken) || err.Error() != where || got != nil {
			t.Errorf("%s: got %v, %v; want %q", text, got, err, where)
		}
	}
}
