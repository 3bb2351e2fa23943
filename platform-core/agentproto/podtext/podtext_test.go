// SPDX-License-Identifier: Apache-2.0

package podtext_test

import (
	"errors"
	"strings"
	"testing"
	"testing/quick"

	"github.com/zeroinfra/platform-core/agentproto/podtext"
)

var pod = func() podtext.Pod {
	pod := podtext.PodOf("redis-orders-node-a-12", "redis-orders.shop.svc")
	pod.External, pod.Zone = podtext.External{Host: "192.0.2.7", Port: 30100}, new("eu-1a")
	return pod
}()

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"plain":                             "plain",
		"${pod.name}":                       "redis-orders-node-a-12",
		"id=${pod.ordinal};":                "id=12;",
		"${pod.fqdn}:6379":                  "redis-orders-node-a-12.redis-orders.shop.svc:6379",
		"${pod.external.host}":              "192.0.2.7",
		"=${pod.external.port};":            "=30100;",
		"${pod.zone}":                       "eu-1a",
		"${pod.name}${pod.ordinal}":         "redis-orders-node-a-1212",
		"$${pod.name}":                      "${pod.name}",
		"$$${pod.name}":                     "$${pod.name}",
		"$${${pod.ordinal}":                 "${12",
		"$${":                               "${",
		"$$":                                "$$",
		"$":                                 "$",
		"$1 $pod.name {pod.name} } $$":      "$1 $pod.name {pod.name} } $$",
		"${pod.ordinal}$":                   "12$",
		"${pod.ordinal}$${pod.ordinal}":     "12${pod.ordinal}",
		"\xff${pod.ordinal}\n\x00":          "\xff12\n\x00",
		"höhe ${pod.ordinal} ünd $${ mehr}": "höhe 12 ünd ${ mehr}",
	} {
		got, err := podtext.Expand(text, pod)
		if err != nil || got != want {
			t.Errorf("Expand(%q) = %q, %v; want %q", text, got, err, want)
		}
		if err := podtext.Check(text); err != nil {
			t.Errorf("Check(%q) = %v", text, err)
		}
	}
}

func TestUnknownReferencesAreRefused(t *testing.T) {
	for text, part := range map[string]string{
		"${":                           "no closing brace",
		"a ${pod.name":                 "no closing brace",
		"${}":                          `"${}" is unknown`,
		"${pod.ip}":                    `"${pod.ip}" is unknown`,
		"${pod.external}":              `"${pod.external}" is unknown`,
		"${ pod.name }":                "is unknown",
		"${POD.NAME}":                  "is unknown",
		"${pod.name:-x}":               "is unknown",
		"${${pod.name}}":               "is unknown",
		"${pod.name} ${HOME}":          `"${HOME}" is unknown`,
		"${" + strings.Repeat("ä", 99): "...",
	} {
		got, err := podtext.Expand(text, pod)
		if err == nil || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), "$${") || got != "" {
			t.Errorf("Expand(%q) = %q, %v; want an error with %q", text, got, err, part)
		}
		if podtext.Check(text) == nil {
			t.Errorf("Check(%q) accepts it", text)
		}
	}
}

func TestWhatThePodHasNotIsRefusedOnlyWhereItIsAskedFor(t *testing.T) {
	for _, test := range []struct {
		name, domain, text, part string
	}{
		{"", "", "${pod.name}", "POD_NAME"},
		{"", "d", "${pod.fqdn}", "no domain"},
		{"redis-0", "", "${pod.fqdn}", "no domain"},
		{"redis", "d", "${pod.ordinal}", `"redis" does not end`},
		{"redis-", "d", "${pod.ordinal}", "does not end"},
		{"redis-+1", "d", "${pod.ordinal}", "does not end"},
		{"redis-01", "d", "${pod.ordinal}", "does not end"},
		{"redis-99999999999999999999", "d", "${pod.ordinal}", "does not end"},
		{"7", "d", "${pod.ordinal}", "does not end"},
	} {
		of := podtext.PodOf(test.name, test.domain)
		if got, err := podtext.Expand(test.text, of); err == nil || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
		if got, err := podtext.Expand("no $${reference}", of); err != nil || got != "no ${reference}" {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

func TestEscapeComesBack(t *testing.T) {
	comesBack := func(text string) bool {
		got, err := podtext.Expand(podtext.Escape(text), pod)
		return err == nil && got == text && podtext.Check(podtext.Escape(text)) == nil
	}
	// Few letters, so that every short arrangement of those that matter is there.
	letters := []byte("${}p")
	for n := range 7 {
		text := make([]byte, n)
		var try func(at int)
		try = func(at int) {
			if at == n {
				if !comesBack(string(text)) {
					t.Fatalf("%q does not come back", text)
				}
				return
			}
			for _, letter := range letters {
				text[at] = letter
				try(at + 1)
			}
		}
		try(0)
	}
	if err := quick.Check(comesBack, nil); err != nil {
		t.Error(err)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "${pod.name}", "$${pod.fqdn}", "$$${", "${", "${pod.ordinal", "a$", "\xff$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := podtext.Expand(podtext.Escape(text), pod); err != nil || got != text {
			t.Fatalf("%q came back as %q, %v", text, got, err)
		}
		got, err := podtext.Expand(text, pod)
		if (err == nil) != (podtext.Check(text) == nil) {
			t.Fatalf("Expand says %v, Check says %v", err, podtext.Check(text))
		}
		if err == nil && !strings.Contains(text, "${") && got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestThePrimaryIsKnownToFollowersOnly(t *testing.T) {
	follower := pod
	follower.Primary = "redis-orders-node-a-0.redis-orders.shop.svc"
	got, err := podtext.Expand("--replicaof ${primary.fqdn} $${primary.fqdn}", follower)
	if want := "--replicaof redis-orders-node-a-0.redis-orders.shop.svc ${primary.fqdn}"; err != nil || got != want {
		t.Errorf("Expand = %q, %v; want %q", got, err, want)
	}
	if _, err := podtext.Expand("${primary.fqdn}", pod); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("without a primary: %v", err)
	}
}

func TestZone(t *testing.T) {
	nowhere := podtext.PodOf("broker-0", "")
	if got, err := podtext.Expand("a ${pod.zone}", nowhere); !errors.Is(err, podtext.ErrZoneUnknown) {
		t.Errorf("got %q, %v of a zone that is not known", got, err)
	}
	nowhere.Zone = new("")
	if got, err := podtext.Expand("a ${pod.zone}.", nowhere); got != "a ." || err != nil {
		t.Errorf("got %q, %v of a node in no zone", got, err)
	}
}
