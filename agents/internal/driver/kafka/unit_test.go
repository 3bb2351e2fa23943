// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

func TestNamesOfQuotas(t *testing.T) {
	for _, name := range []string{"user/alice", "client/app", "user/alice/client/app", "user/*", "client/*",
		"user/*/client/*", "user/CN=a/OU=b/client/x y"} {
		parts, err := quotaEntity(name)
		if got := nameOf(parts); err != nil || got != name {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "alice", "user/", "client/", "user//client/app", "user/alice/client/"} {
		if parts, err := quotaEntity(name); err == nil {
			t.Errorf("%q is taken for %v", name, parts)
		}
	}
}

func TestAccessHasOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"{}":                                  "",
		`{"User:b":["write","read","read"]}`:  `{"User:b":["read","write"]}`,
		`{"User:b":[],"User:a":["describe"]}`: `{"User:a":["describe"]}`,
		`{"User:CN=a & b":["read"]}`:          `{"User:CN=a & b":["read"]}`,
	} {
		if got, err := accessOf(text); err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, err, want)
		}
	}
}

// TestRulesMadeByHandAreSeen: nothing that somebody may do is passed over.
func TestRulesMadeByHandAreSeen(t *testing.T) {
	r := &rules{topics: map[string][]sarama.Acl{"t": {
		allow("User:alice", sarama.AclOperationRead), allow("User:bob", sarama.AclOperationAll),
		{Principal: "User:carol", Host: "10.0.0.1", Operation: sarama.AclOperationWrite,
			PermissionType: sarama.AclPermissionDeny},
	}}}
	if got, want := r.of("t").String(),
		`{"User:alice":["read-without-group"],"User:bob":["all"],"User:carol":["deny-write@10.0.0.1"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRulesOfTopicsThatGo: rules of groups go with the last topic that somebody reads, and rules that were taken from a
// topic which stays can be given back.
func TestRulesOfTopicsThatGo(t *testing.T) {
	read, byHand := allow("User:alice", sarama.AclOperationRead), allow("User:bob", sarama.AclOperationAll)
	r := &rules{topics: map[string][]sarama.Acl{"a": {read, byHand}, "b": {read}},
		groups: map[sarama.Resource][]sarama.Acl{}}
	for _, group := range groupsOf("User:alice") {
		r.groups[group] = []sarama.Acl{read}
	}
	a, b := access{"User:alice": {wordRead}, "User:bob": {"all"}}, access{"User:alice": {wordRead}}
	for name, test := range map[string]struct {
		has      map[string]access
		problems driver.Problems
		want     int
	}{
		"somebody reads another one":    {map[string]access{"a": a}, driver.Problems{}, 2},
		"nobody reads another one":      {map[string]access{"a": a, "b": b}, driver.Problems{}, 5},
		"another one keeps its rules":   {map[string]access{"a": a, "b": b}, driver.Problems{"b": "no"}, 2},
		"the one that goes has problem": {map[string]access{"a": a}, driver.Problems{"a": "no"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.removals(test.has, map[string]access{}, test.problems); len(got) != test.want {
				t.Errorf("%d rules are removed, want %d", len(got), test.want)
			}
		})
	}
	additions, of := r.restorations([]string{"a"})
	if len(additions) != 4 || additions[0].Resource != resourceOf("a") || additions[0].Acl != read ||
		additions[3].Acl != byHand || len(of) != 4 || of[3] != "a" {
		t.Errorf("given back are %+v for %v", additions, of)
	}
}

// TestATopicIsPendingWhileReplicasAreMissing: one whose replicas move to other brokers is as asked all the time.
func TestATopicIsPendingWhileReplicasAreMissing(t *testing.T) {
	growing := partition{Replicas: []int32{1, 2, 3}, Adding: []int32{2, 3}}
	moving := partition{Replicas: []int32{1, 2, 3}, Adding: []int32{3}, Removing: []int32{1}}
	still := partition{Replicas: []int32{1, 2, 3}}
	for want, partitions := range map[string][]partition{
		"2 of 3 partitions are copied to more brokers": {growing, growing, still}, "": {moving, still},
	} {
		if got := (&topic{partitions: partitions}).pending(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := (&topic{partitions: []partition{growing, {Replicas: []int32{1}}}}).factorText(); got != "1-3" {
		t.Errorf("the replication factor of partitions that differ is %s", got)
	}
}

func TestAlike(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"0.50", "0.5"}: true, {"compact, delete", "compact,delete"}: true, {"TRUE", "true"}: true, {"1", "2"}: false,
		{"a", "b"}: false,
	} {
		if got := alike(pair[0], pair[1]); got != want {
			t.Errorf("%v: got %t", pair, got)
		}
	}
}

// serverOf plays the server of SCRAM-SHA-512 that knows a password.
func serverOf(t *testing.T, c *scramClient, password string) (first string, last func(final string) string) {
	t.Helper()
	salt := []byte("a salt of sixteen")
	begin, err := c.Step("")
	if err != nil {
		t.Fatal(err)
	}
	bare := strings.TrimPrefix(begin, "n,,")
	first = fmt.Sprintf("r=%s-server,s=%s,i=4096", attributes(bare)["r"], base64.StdEncoding.EncodeToString(salt))
	return first, func(final string) string {
		without, proof, _ := strings.Cut(final, ",p=")
		salted, err := pbkdf2.Key(sha512.New, password, salt, 4096, sha512.Size)
		if err != nil {
			t.Fatal(err)
		}
		message := bare + "," + first + "," + without
		key := sign(sha512.New, salted, "Client Key")
		stored := sha512.Sum512(key)
		signature := sign(sha512.New, stored[:], message)
		given, _ := base64.StdEncoding.DecodeString(proof)
		for i := range given {
			given[i] ^= signature[i]
		}
		if !hmac.Equal(given, key) {
			return "e=invalid-proof"
		}
		return "v=" + base64.StdEncoding.EncodeToString(sign(sha512.New, sign(sha512.New, salted, "Server Key"), message))
	}
}

func TestSCRAM(t *testing.T) {
	for name, test := range map[string]struct {
		password string
		change   func(string) string
		want     error
	}{
		"the password":     {"hunter22", func(s string) string { return s }, nil},
		"another password": {"hunter23", func(s string) string { return s }, errServer},
		"a server that knows no password": {"hunter22",
			func(string) string { return "v=" + base64.StdEncoding.EncodeToString(make([]byte, sha512.Size)) }, errServer},
		"a server that says nothing of it": {"hunter22", func(string) string { return "" }, errServer},
	} {
		t.Run(name, func(t *testing.T) {
			c := &scramClient{}
			if err := c.Begin("a,b=c", "hunter22", ""); err != nil {
				t.Fatal(err)
			}
			first, last := serverOf(t, c, test.password)
			final, err := c.Step(first)
			if err != nil || c.Done() {
				t.Fatal(final, err, c.Done())
			}
			if _, err := c.Step(test.change(last(final))); !errors.Is(err, test.want) || !c.Done() {
				t.Errorf("got %v, %t; want %v", err, c.Done(), test.want)
			}
		})
	}
}

func TestSCRAMRefusesFirstMessages(t *testing.T) {
	for _, first := range []string{"", "r=other,s=YQ==,i=4096", "r=NONCE,s=YQ==,i=4096", "r=NONCE1,s=YQ==,i=999999999",
		"r=NONCE1,s=?,i=4096", "e=unknown-user"} {
		c := &scramClient{}
		_ = c.Begin("alice", "hunter22", "")
		_, _ = c.Step("")
		if answer, err := c.Step(strings.ReplaceAll(first, "NONCE", c.nonce)); err == nil {
			t.Errorf("%q is answered with %q", first, answer)
		}
	}
}

func TestRefusalsAreToldFromFailures(t *testing.T) {
	problems := driver.Problems{}
	text := "No."
	if err := note(problems, "a", said(sarama.ErrInvalidConfig, &text)); err != nil ||
		problems["a"] != "Kafka refuses it: No" {
		t.Errorf("got %v, %v", problems, err)
	}
	if err := note(problems, "b", said(sarama.ErrNotController, nil)); err == nil || problems["b"] != "" {
		t.Errorf("an election is taken for a refusal: %v", problems)
	}
}
