// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"maps"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/replication"

	"github.com/zeroinfra/agents/internal/driver"
)

// replicated is a replication in the words of the driver.
func replicated(with ...string) map[string]string {
	p := map[string]string{parameterEndpoint: "https://s3.example.com:9000", parameterTargetBucket: "copy",
		parameterAccessKey: "replicator", parameterPrefix: "",
		parameterDeleteMarkers: no, parameterDeletes: no, parameterExisting: no, parameterBandwidth: "0",
		parameterSynchronous: no}
	for i := 0; i < len(with); i += 2 {
		p[with[i]] = with[i+1]
	}
	return p
}

func TestRulesReadBackAsTheyWereAskedFor(t *testing.T) {
	for _, p := range []map[string]string{
		replicated(),
		replicated(parameterEndpoint, "http://10.0.0.1:9000", parameterPrefix, "logs/", parameterDeleteMarkers, yes),
		replicated(parameterDeletes, yes, parameterExisting, yes, parameterBandwidth, "200000000", parameterSynchronous, yes),
	} {
		target, err := remoteOf("source", "key", p)
		if err != nil {
			t.Fatal(err)
		}
		if got := parametersOf(ruleOf("offsite", "arn", 3, p), target); !maps.Equal(got, p) {
			t.Errorf("got %v, want %v", got, p)
		}
	}
}

func TestRulesThatSomebodyChangedAreForeign(t *testing.T) {
	p := replicated()
	target, err := remoteOf("source", "key", p)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*replication.Rule, *remote){
		"off":           func(r *replication.Rule, _ *remote) { r.Status = replication.Disabled },
		"a tag":         func(r *replication.Rule, _ *remote) { r.Filter.Tag = replication.Tag{Key: "a", Value: "b"} },
		"a class":       func(r *replication.Rule, _ *remote) { r.Destination.StorageClass = "STANDARD" },
		"proxied reads": func(_ *replication.Rule, r *remote) { r.DisableProxy = false },
	} {
		rule, at := ruleOf("offsite", "arn", 1, p), target
		change(&rule, &at)
		if got := parametersOf(rule, at); got[parameterPrefix] != foreignRule {
			t.Errorf("%s: got %v", what, got)
		}
	}
	// Its target is gone.
	if got := parametersOf(ruleOf("offsite", "arn", 1, p), remote{}); got[parameterEndpoint] != "" ||
		got[parameterPrefix] != "" {
		t.Errorf("got %v", got)
	}
}

func TestRulesOfOthersStay(t *testing.T) {
	rules := []replication.Rule{{ID: "theirs", Priority: 4}, {ID: "ours", Priority: 2}}
	if got := priorityFor(rules, "ours"); got != 2 {
		t.Errorf("ours has the priority %d", got)
	}
	if got := priorityFor(rules, "new"); got != 5 {
		t.Errorf("a new one has the priority %d", got)
	}
	if got := withRule(rules, replication.Rule{ID: "ours", Priority: 9}); len(got) != 2 || got[0].ID != "theirs" ||
		got[1].Priority != 9 {
		t.Errorf("got %v", got)
	}
	if got := withoutRule(rules, "ours"); len(got) != 1 || got[0].ID != "theirs" {
		t.Errorf("got %v", got)
	}
}

func TestReplicationsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name, key, want string
		parameters      map[string]string
	}{
		{"source/offsite", "key", "", replicated()},
		{"source/offsite", "key", "", replicated(parameterBandwidth, "100000000")},
		{"source", "key", "a slash, and the name of a rule", replicated()},
		{"source/", "key", "a slash, and the name of a rule", replicated()},
		{"source/a/b", "key", "a slash, and the name of a rule", replicated()},
		{"source/offsite", "", "needs an account", replicated()},
		{"source/offsite", "key", "needs an account", replicated(parameterAccessKey, "")},
		{"source/offsite", "key", "has no endpoint yet", replicated(parameterEndpoint, "")},
		{"source/offsite", "key", "must be a URL", replicated(parameterEndpoint, "s3.example.com")},
		{"source/offsite", "key", "must be a URL", replicated(parameterEndpoint, "https://s3.example.com/path")},
		{"source/offsite", "key", "no less than 100000000", replicated(parameterBandwidth, "99999999")},
		{"source/offsite", "key", "must be one of yes, no", replicated(parameterDeletes, "some")},
		{"source/offsite", "key", "is not known", replicated("storage-class", "STANDARD")},
	} {
		err := replications{}.check(nil, driver.Change{Query: driver.Query{Name: c.name, Password: c.key},
			Intent: driver.Create, Parameters: c.parameters})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
