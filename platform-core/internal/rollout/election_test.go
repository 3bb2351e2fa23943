// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

var byAttributes = platformv1.SetElection{Member: "id", Primary: "leader", Epoch: "term"}

// elector is a pod by what it reports, such as "0 names 1 in 5": pod a-0, which is member m0, names member m1 in epoch
//  5. Further words: "labelled" has the label of a primary, "away" is on a node that is not reached, "ending" is on its
//     way out, "as" has the member that follows, "silent" reports nothing,
//
// "copying" is not healthy and reports all the same.
func elector(t *testing.T, text string) rollout.Pod {
	t.Helper()
	words := strings.Fields(text)
	p := rollout.Pod{Name: "a-" + words[0], Ordinal: int32(words[0][0] - '0'), Life: rollout.Alive, Ready: rollout.Ready,
		Role: "replica", Revision: "r1"}
	p.Report = report.Report{Health: report.Healthy, Role: "replica", ConfigDigest: "d1"}
	has := map[string]string{"id": "m" + words[0]}
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "names", "in", "as":
			i++
			switch value := words[i]; words[i-1] {
			case "names":
				has["leader"] = "m" + strings.TrimPrefix(value, "nobody")
				if value == words[0] {
					p.Report.Role = "primary"
				}
			case "in":
				has["term"] = value
			case "as":
				has["id"] = value
			}
		case "labelled":
			p.Role = "primary"
		case "away":
			p.Node = rollout.Unreachable
		case "ending":
			p.Life = rollout.Terminating
		case "copying":
			p.Ready, p.Report.Health, p.Report.Role = rollout.NotReady, report.Starting, ""
		case "silent":
			has = nil
			p.Report.Health, p.Report.Role = report.Unhealthy, ""
		default:
			t.Fatalf("%q has the unknown word %q", text, words[i])
		}
	}
	if has["leader"] == "m" {
		has["leader"] = ""
	}
	p.Report.Attributes = has
	return p
}

// electors are a set of so many replicas with these pods.
func electors(t *testing.T, replicas int32, pods ...string) rollout.Facts {
	t.Helper()
	f := rollout.Facts{Name: "a", Replicas: replicas, Revision: "r1", ConfigDigest: "d1", Roles: roles,
		Authority: rollout.AuthorityMiddleware}
	for _, text := range pods {
		f.Pods = append(f.Pods, elector(t, text))
	}
	return f
}

func recordedAs(text string) *platformv1.ElectionRecord {
	primary, epoch, found := strings.Cut(text, " in ")
	if !found {
		return nil
	}
	return &platformv1.ElectionRecord{Primary: primary, Epoch: epoch}
}

// said is an election as prose.
func said(e rollout.Election) string {
	text := "nobody"
	if e.Record != nil {
		text = e.Record.Primary + " in " + e.Record.Epoch
	}
	return fmt.Sprintf("%s: %s, label for %q", e.State, text, e.Named)
}

// The engine follows what a majority of the expected members reports, and never to an earlier epoch unless all of them
// do.
func TestElectFollowsAMajorityOfTheExpectedMembers(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded string
		replicas int32
		pods     []string
		want     string
	}{
		"the first election": {"", 3, []string{"0 names 1 in 2", "1 names 1 in 2", "2 names 1 in 2"},
			`Changed: a-1 in 2, label for ""`},
		"as recorded": {"a-1 in 2", 3, []string{"0 names 1 in 2", "1 names 1 in 2 labelled", "2 silent"},
			`Agreed: a-1 in 2, label for "a-1"`},
		"a later one": {"a-1 in 2", 3, []string{"0 names 0 in 3", "1 names 1 in 2 labelled", "2 names 0 in 3"},
			`Changed: a-0 in 3, label for ""`},
		"the same primary again": {"a-1 in 2", 3, []string{"0 names 1 in 3", "1 names 1 in 3 labelled", "2 silent"},
			`Changed: a-1 in 3, label for "a-1"`},
		"the first election of a pod that had the label before": {"", 3,
			[]string{"0 names 1 in 3", "1 names 1 in 3 labelled", "2 silent"},
			`Changed: a-1 in 3, label for "a-1"`},
		"the first election of another one": {"", 3, []string{"0 names 1 in 3 labelled", "1 names 1 in 3", "2 silent"},
			`Changed: a-1 in 3, label for ""`},
		"another primary in the same epoch, as after a planned change of a group": {"a-1 in 7:3", 3,
			[]string{"0 names 0 in 7:3", "1 names 0 in 7:3", "2 names 1 in 7:3"}, `Changed: a-0 in 7:3, label for ""`},
		"one of three": {"a-1 in 2", 3, []string{"0 names 0 in 3", "1 names 1 in 2 labelled", "2 silent"},
			`Unknown: a-1 in 2, label for "a-1"`},
		"two of four are no majority": {"a-1 in 2", 4, []string{"0 names 0 in 3", "1 names 0 in 3", "2 silent", "3 silent"},
			`Unknown: a-1 in 2, label for ""`},
		"each names another": {"a-1 in 2", 3, []string{"0 names 0 in 3", "1 names 1 in 3", "2 names 2 in 3"},
			`Unknown: a-1 in 2, label for ""`},
		"nobody is elected": {"a-1 in 2", 3, []string{"0 names nobody in 3", "1 names nobody in 3", "2 names nobody in 3"},
			`Unknown: a-1 in 2, label for ""`},
		"those on nodes away": {"a-1 in 2", 3,
			[]string{"0 names 0 in 3 away", "1 names 1 in 2 labelled", "2 names 0 in 3 away"},
			`Unknown: a-1 in 2, label for "a-1"`},
		"those on their way out": {"a-1 in 2", 3,
			[]string{"0 names 0 in 3 ending", "1 names 1 in 2 labelled", "2 names 0 in 3"},
			`Unknown: a-1 in 2, label for "a-1"`},
		"the primary is on a node away": {"a-1 in 2", 3,
			[]string{"0 names 1 in 2", "1 names 1 in 2 away labelled", "2 names 1 in 2"}, `Agreed: a-1 in 2, label for "a-1"`},
		"the primary has yet to report": {"a-1 in 2", 3, []string{"0 silent", "1 names 0 in 3 labelled", "2 names 0 in 3"},
			`Unknown: a-1 in 2, label for "a-1"`},
		"pods are yet to be made": {"", 3, []string{"0 names 0 in 2"}, `Unknown: nobody, label for ""`},
		"a majority before the record": {"a-1 in 5", 3, []string{"0 names 0 in 4", "1 silent labelled", "2 names 0 in 4"},
			`Unknown: a-1 in 5, label for "a-1"`},
		"all before the record": {"a-1 in 5", 3, []string{"0 names 0 in 1", "1 names 0 in 1", "2 names 0 in 1"},
			`Changed: a-0 in 1, label for ""`},
		"a pod beyond counts while it reports": {"a-1 in 2", 3,
			[]string{"0 names 0 in 3", "1 names 0 in 3", "2 silent", "3 names 1 in 2"},
			`Unknown: a-1 in 2, label for ""`},
		"a pod beyond that has left does not": {"a-1 in 2", 1, []string{"0 names 0 in 3", "1 silent", "2 silent"},
			`Changed: a-0 in 3, label for ""`},
		"parts of an epoch count in order": {"a-1 in 9:12", 3, []string{"0 names 0 in 10:2", "1 names 0 in 10:2", "2 silent"},
			`Changed: a-0 in 10:2, label for ""`},
		"dots are as good as colons": {"a-1 in 10.2", 3,
			[]string{"0 names 1 in 10:2", "1 names 1 in 10.2 labelled", "2 silent"}, `Agreed: a-1 in 10.2, label for "a-1"`},
		"what is no epoch is no report": {"a-1 in 2", 3, []string{"0 names 0 in 3", "1 names 0 in x", "2 names 0 in -3"},
			`Unknown: a-1 in 2, label for ""`},
		"two that claim to be one are none": {"a-1 in 2", 3,
			[]string{"0 names 0 in 3", "1 names 0 in 3 as m2", "2 names 0 in 3"}, `Unknown: a-1 in 2, label for ""`},
		"before the first record the label stays": {"", 3, []string{"0 silent", "1 silent labelled", "2 silent"},
			`Unknown: nobody, label for "a-1"`},
		"a label that the record does not have": {"a-1 in 2", 3, []string{"0 silent labelled", "1 silent", "2 silent"},
			`Unknown: a-1 in 2, label for ""`},
		"those that copy data vote": {"a-2 in 2", 5,
			[]string{"0 names 0 in 3", "1 names 0 in 3", "2 silent labelled", "3 names 0 in 3 copying", "4 silent"},
			`Changed: a-0 in 3, label for ""`},
		"two healthy ones of five and one that copies and is late": {"a-2 in 2", 5,
			[]string{"0 names 0 in 3", "1 names 0 in 3", "2 silent", "3 names 2 in 2 copying", "4 silent"},
			`Unknown: a-2 in 2, label for ""`},
		"no pod is wanted": {"a-1 in 2", 0, nil, `Unknown: a-1 in 2, label for ""`},
	} {
		got := said(rollout.Elect(electors(t, tc.replicas, tc.pods...), byAttributes, recordedAs(tc.recorded)))
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// The label goes from one pod to the other by way of the record, whatever the pods say of themselves.
func TestLabelsFollowTheRecordedElection(t *testing.T) {
	two := []string{"0 names 0 in 3", "1 names 1 in 2 labelled", "2 names 0 in 3"}
	for name, tc := range map[string]struct {
		recorded string
		pods     []string
		want     []string
	}{
		"before it is recorded the old one loses its label": {"a-1 in 2", two,
			[]string{`SetRole a-1 "": it is not the primary`}},
		"and nobody has one": {"a-1 in 2", []string{"0 names 0 in 3", "1 names 1 in 2", "2 names 0 in 3"},
			[]string{`SetRole a-1 "": it is not the primary`,
				`SetRole a-0 "": it is not the primary`}},
		"once it is recorded, the old one first": {"a-0 in 3", two,
			[]string{`SetRole a-1 "": it is not the primary`}},
		"then the new one": {"a-0 in 3", []string{"0 names 0 in 3", "1 silent", "2 names 0 in 3"},
			[]string{`SetRole a-0 "primary": it reports role "primary"`}},
		"one that copies gets none": {"a-0 in 3",
			[]string{"0 names 0 in 3 copying", "1 names 0 in 3", "2 names 0 in 3"}, nil},
		"without a majority no pod gets one": {"a-0 in 3", []string{"0 names 0 in 3", "1 silent", "2 silent"},
			[]string{`SetRole a-0 "": it is not the primary`}},
		"without a majority a pod keeps its own": {"a-0 in 3", []string{"0 names 0 in 3 labelled", "1 silent", "2 silent"},
			nil},
	} {
		f := electors(t, 3, tc.pods...)
		e := rollout.Elect(f, byAttributes, recordedAs(tc.recorded))
		f.Named = &e.Named
		var got []string
		for _, step := range rollout.Plan(f) {
			if step.Action == rollout.SetRole {
				got = append(got, step.String())
			}
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// A primary that no majority names has no label, and what the others need is done all the same: it may be what it takes
// for a majority to report.
func TestAPrimaryWithoutAMajorityDoesNotHoldTheRepairOfOthers(t *testing.T) {
	f := electors(t, 3, "0 names 0 in 3", "1 silent", "2 silent")
	f.Switchover, f.Named = rollout.BySwitchover, new("")
	f.Pods[0].Role = ""
	for i := range f.Pods[1:] {
		f.Pods[i+1].Ready, f.Pods[i+1].Revision = rollout.NotReady, "r0"
	}
	if steps := rollout.Plan(f); len(steps) != 1 || steps[0].Action != rollout.DeletePod || steps[0].Pod == "a-0" {
		t.Errorf("the steps are %v", steps)
	}
}

// The primary of the record is no reason to keep a pod that is not wanted any more: its end has the middleware elect
// another one.
func TestAnElectedPrimaryIsScaledIn(t *testing.T) {
	f := electors(t, 1, "0 names 1 in 3", "1 names 1 in 3 labelled")
	f.Named = new("a-1")
	if steps := rollout.Plan(f); len(steps) != 1 || steps[0].Action != rollout.DeletePod || steps[0].Pod != "a-1" {
		t.Errorf("the steps are %v", steps)
	}
}
