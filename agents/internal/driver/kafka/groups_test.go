// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// classic is a group of consumers in a state, as its coordinator describes it. Only in a stable one these say what they
// read.
func classic(t *testing.T, state string, code sarama.KError) *group {
	t.Helper()
	member := &sarama.GroupMemberDescription{}
	if state == stableState {
		// A version, the topics, and no data of the user.
		member.MemberMetadata = append(append([]byte{0, 0, 0, 0, 0, 1, 0, 6}, "orders"...), 0, 0, 0, 0)
	}
	g := &group{name: "billing", kind: typeClassic, state: state, members: map[string]int{}}
	g.readClassic(&sarama.GroupDescription{GroupId: g.name, State: state, ProtocolType: typeConsumer, Err: code,
		Members: map[string]*sarama.GroupMemberDescription{"m": member}})
	return g
}

// described is the beginning of a description of a group of another type.
func described(code int16, state string) encoder {
	e := encoder{}.int32(0).length(1).int16(code).null().text("billing").text(state).int32(4).int32(4)
	return e
}

// share is a share group with a member that has subscribed to a topic, and has one of its partitions.
func share(topic string) encoder {
	member := encoder{}.text("m").null().int32(4).text("client").text("/10.0.0.1").length(1).text(topic).
		length(1).uuid([16]byte{1}).text(topic).length(1).int32(0).tags().tags().tags()
	return append(append(described(0, stableState).text("simple").length(1), member...), encoder{}.int32(0).tags()...)
}

// streams is an application that reads a topic, and has two for itself.
func streams(topic string) encoder {
	own := encoder{}.length(1).text("own").int32(3).int16(0).length(1).text("cleanup.policy").text("compact").tags().tags()
	e := append(described(0, stableState), 1).int32(4).length(1).text("0").length(1).text(topic).length(0)
	return append(append(append(e, own...), own...), encoder{}.tags().tags()...)
}

func other(t *testing.T, kind string, answer encoder) *group {
	t.Helper()
	g := &group{name: "billing", kind: kind, state: "", members: map[string]int{}}
	read := (*group).readShare
	if kind == typeStreams {
		read = (*group).readStreams
	}
	if err := g.readDescription(&decoder{data: answer}, read); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestTheGuardOfTopics(t *testing.T) {
	const reads, hides = "members of consumer groups read it (\"billing\" with 1): stop them", "do not tell at the moment"
	for name, test := range map[string]struct {
		group *group
		want  string
	}{
		"who has agreed on what is read":      {classic(t, stableState, sarama.ErrNoError), reads},
		"who has yet to agree":                {classic(t, "PreparingRebalance", sarama.ErrNoError), hides},
		"a group whose members are gone":      {classic(t, emptyState, sarama.ErrNoError), ""},
		"a group that is gone":                {classic(t, deadState, sarama.ErrNoError), ""},
		"a group that went a moment ago":      {classic(t, "", codeNoGroup), ""},
		"a coordinator that was another one":  {classic(t, "", sarama.ErrNotCoordinatorForConsumer), hides},
		"a share group":                       {other(t, typeShare, share("orders")), reads},
		"a share group that reads others":     {other(t, typeShare, share("others")), ""},
		"a share group that cannot be asked":  {other(t, typeShare, described(15, "")), hides},
		"an application":                      {other(t, typeStreams, streams("orders")), reads},
		"an application that reads others":    {other(t, typeStreams, streams("others")), ""},
		"an application without members":      {other(t, typeStreams, described(0, emptyState)), ""},
		"an application that has yet to tell": {other(t, typeStreams, append(described(0, "NotReady"), 0xff)), hides},
	} {
		t.Run(name, func(t *testing.T) {
			problems := driver.Problems{}
			guardBy([]*group{test.group}, []string{"orders"}, problems)
			if got := problems["orders"]; (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
