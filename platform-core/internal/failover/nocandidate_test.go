// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// TestMembersThatAreNotWantedAreNotGone: who scaled them in scales back, and restores no backup over what they have.
func TestMembersThatAreNotWantedAreNotGone(t *testing.T) {
	const one, both, gone = "; the only member that is left is not wanted any more: scale back so that pod a-1 is wanted",
		"; the members that are left are not wanted any more: scale back so that pods a-1, a-2 are wanted", "restore a backup"
	// Pod 0 is wanted, and was made anew since.
	anew := func(f *failover.Facts) {
		f.Wanted, f.Pods[0].Member, f.Pods[0].Sync = f.Wanted[:1],
			failover.MemberState{Identity: "another"}, failover.OutOfSync
		f.Record.Primary, f.Former = &f.Record.List.Members[1], &f.Record.List.Members[1]
	}
	for name, tc := range map[string]struct {
		change func(f *failover.Facts)
		says   string
	}{
		"the last one": {func(f *failover.Facts) { f.Record.List.Members, f.Pods = f.Record.List.Members[:2], f.Pods[:1] },
			one},
		"the last one, which ends": {func(f *failover.Facts) {
			f.Record.List.Members, f.Pods = f.Record.List.Members[:2], f.Pods[:2]
			f.Pods[1].Presence = failover.Leaving
		}, one},
		"the last one, whose process is down": {func(f *failover.Facts) {
			f.Record.List.Members, f.Pods = f.Record.List.Members[:2], f.Pods[:2]
			f.Pods[1].Health = report.Unhealthy
		}, one},
		"two": {func(f *failover.Facts) { f.Pods = f.Pods[:1] }, both},
		"one of two that has another volume": {func(f *failover.Facts) {
			f.Pods[2].Member.Identity = "another, too"
			f.Pods = []failover.Pod{f.Pods[0], f.Pods[2]}
		}, one},
		"two that have other volumes": {func(f *failover.Facts) {
			f.Pods[1].Member, f.Pods[2].Member = failover.MemberState{Identity: "a third"},
				failover.MemberState{Identity: "a fourth"}
		}, gone},
		"one that is wanted as well": {func(f *failover.Facts) {
			f.Record.List.Members[0].Identity, f.Pods[0].Health, f.Pods = "another", report.Unhealthy, f.Pods[:1]
		}, ""},
	} {
		for _, named := range []string{"with a primary that is gone", "in a term without a primary"} {
			f := trio()
			anew(&f)
			tc.change(&f)
			if named == "in a term without a primary" {
				f.Record = f.Record.Depose()
			}
			var d failover.Decision
			for m := new(failover.Memory); f.Now < time.Hour+time.Minute; f.Now += time.Second {
				d = failover.Plan(f, m)
			}
			for _, text := range []string{one, both, gone} {
				if strings.Contains(d.Message, text) != (text == tc.says) {
					t.Errorf("%s, %s: it says %q, want %q", name, named, d.Message, tc.says)
				}
			}
		}
	}
}
