// SPDX-License-Identifier: Apache-2.0

package planfile_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// withPodTexts is a plan that says something of its pod in each place.
func withPodTexts(d planfile.Dirs) *plan.Plan {
	p := valid(d, 1)
	p.Domain = "redis-orders.shop.svc"
	p.Process.Command = append(p.Process.Command, "--id", "${pod.ordinal}")
	p.Process.Env = append(p.Process.Env, plan.EnvVar{Name: "SELF", Value: "${pod.name}"},
		plan.EnvVar{Name: "LITERAL", Value: "$${pod.name}"})
	p.Process.Dir = "/data/${pod.name}"
	p.Process.Reload = &plan.Reload{Each: []string{"set", "${pod.fqdn}"},
		Env: []plan.EnvVar{{Name: "SELF", Value: "${pod.fqdn}"}}}
	p.Files[0].Entries = append(p.Files[0].Entries,
		plan.Entry{Key: "announce", Args: []string{"${pod.fqdn}", "$${x}"}, Dynamic: true})
	p.Probe.Command = append(p.Probe.Command, "${pod.fqdn}")
	return p
}

func TestPodTextsAreFilledIn(t *testing.T) {
	d := pod(t)
	mount(t, d, withPodTexts(d))
	if err := d.Push(withPodTexts(d)); err != nil {
		t.Fatal(err)
	}
	// A plan that was kept is prepared like one that is new: what was filled in is not read again.
	p, err := d.Current()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		prepared, err := d.Prepare(p)
		if err != nil {
			t.Fatal(err)
		}
		here := prepared.Plan
		for _, text := range []struct{ got, want string }{
			{strings.Join(here.Process.Command, " "), "redis-server " + d.Config + "/redis.conf --id 2"},
			{here.Process.Dir, "/data/redis-orders-2"},
			{strings.Join(here.Process.Reload.Each, " "), "set redis-orders-2.redis-orders.shop.svc"},
			{strings.Join(here.Probe.Command, " "), "redis-cli ping redis-orders-2.redis-orders.shop.svc"},
		} {
			if text.got != text.want {
				t.Errorf("got %q, want %q", text.got, text.want)
			}
		}
		for _, want := range []string{"SELF=redis-orders-2", "LITERAL=${pod.name}"} {
			if !slices.Contains(prepared.Environ, want) {
				t.Errorf("%q is not in %q", want, prepared.Environ)
			}
		}
		if want := "SELF=redis-orders-2.redis-orders.shop.svc"; !slices.Contains(prepared.ReloadEnviron, want) {
			t.Errorf("%q is not in %q", want, prepared.ReloadEnviron)
		}
		if err := prepared.Write(nil); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(d.Config, "redis.conf"))
		if want := "requirepass hunter2\nannounce redis-orders-2.redis-orders.shop.svc \"${x}\"\n"; err != nil ||
			string(data) != want {
			t.Errorf("the file has %q, %v; want %q", data, err, want)
		}
		p = prepared.Source
	}
}

func TestDynamicSettingsHaveTheirSecrets(t *testing.T) {
	d := pod(t)
	p := withPodTexts(d)
	p.Files[0].Entries = append(p.Files[0].Entries,
		plan.Entry{Key: "save", Args: []string{"900", "1"}, Dynamic: true},
		plan.Entry{Key: "user", Args: []string{"default"}, Secret: &plan.SecretRef{Credential: "default", Key: "password"},
			Dynamic: true})
	prepared, err := d.Prepare(p)
	if err != nil {
		t.Fatal(err)
	}
	file := d.Config + "/redis.conf"
	want := []planfile.Setting{{File: file, Key: "announce", Value: "redis-orders-2.redis-orders.shop.svc ${x}"},
		{File: file, Key: "save", Value: "900 1"}, {File: file, Key: "user", Value: "default hunter2"}}
	if !reflect.DeepEqual(prepared.Dynamic, want) {
		t.Errorf("got %+v, want %+v", prepared.Dynamic, want)
	}
}

func TestRedact(t *testing.T) {
	d := pod(t)
	p := valid(d, 1)
	for name, secret := range map[string]string{"password": "hunter2", "long": "a hunter2 b", "odd": "x\"y\n",
		"empty": ""} {
		write(t, filepath.Join(d.Secrets, "default", name), secret)
		p.Process.Env = append(p.Process.Env,
			plan.EnvVar{Name: "V_" + name, Secret: &plan.SecretRef{Credential: "default", Key: name}})
	}
	prepared, err := d.Prepare(p)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"nothing to hide":         "nothing to hide",
		"<hunter2> and <hunter2>": "<***> and <***>",
		"a hunter2 b.":            "***.",
		`as it is: x"y`:           "as it is: ***",
		`quoted: "x\"y\n"`:        `quoted: "***"`,
	} {
		if got := prepared.Redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
