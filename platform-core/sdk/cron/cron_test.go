// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/sdk/cron"
	"github.com/zeroinfra/platform-core/sdk/cron/oracle"
)

// zones have changes of an hour in both hemispheres, of half an hour, at midnight, one in winter, and none.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago",
	"Asia/Kathmandu", "Africa/Casablanca", "Pacific/Chatham"}

var lines = []string{
	"30 2 * * *", "*/10 * * * *", "0 * * * *", "15 0 * * *", "45 1-3 * * 0", "0 12 31 * *", "0 3 29 2 *", "5 4 1,15 * 1",
	"59 23 * * MON-FRI", "@weekly",
	// With seconds.
	"15,45 30 2 * * *", "*/20 59 0-3 * * 0", "30 */30 * 1,3,10 * *", "59 59 23 31 12 *",
}

var policies = []cron.Policy{
	{Gap: cron.GapSkip, Overlap: cron.OverlapFirst}, {Gap: cron.GapSkip, Overlap: cron.OverlapLast},
	{Gap: cron.GapSkip, Overlap: cron.OverlapBoth},
	{Gap: cron.GapShift, Overlap: cron.OverlapFirst}, {Gap: cron.GapShift, Overlap: cron.OverlapLast},
	{Gap: cron.GapShift, Overlap: cron.OverlapBoth},
}

var (
	begin = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	end   = time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)
)

func parse(t *testing.T, zone string, policy cron.Policy, lines ...string) cron.Schedule {
	t.Helper()
	s, err := cron.Parse(lines, zone, policy, "shop/report")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func times(s cron.Schedule, after, to time.Time) []time.Time {
	var all []time.Time
	for at := s.Next(after); !at.IsZero() && at.Before(to); at = s.Next(at) {
		all = append(all, at.UTC())
	}
	return all
}

func TestTimesEqualTheOracleForTwoYears(t *testing.T) {
	for _, zone := range zones {
		t.Run(strings.ReplaceAll(zone, "/", "-"), func(t *testing.T) {
			t.Parallel()
			clock := oracle.NewClock(t, zone, begin, end)
			for _, line := range lines {
				named := clock.Line(line)
				for _, policy := range policies {
					got := times(parse(t, zone, policy, line), begin.Add(-time.Second), end)
					want := named.Times(string(policy.Gap), string(policy.Overlap))
					if !slices.EqualFunc(got, want, time.Time.Equal) {
						t.Errorf("%s under %v: %s", line, policy, difference(got, want))
					}
				}
			}
		})
	}
}

// difference tells of the first time that one list has and the other has not.
func difference(got, want []time.Time) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%s is missing, and %d more", want[i], len(want)-i-1)
		case i >= len(want):
			return fmt.Sprintf("%s is not wanted, and %d more", got[i], len(got)-i-1)
		case !got[i].Equal(want[i]):
			return fmt.Sprintf("%s, want %s", got[i], want[i])
		}
	}
	return ""
}

func TestLinesAreMerged(t *testing.T) {
	s := parse(t, "UTC", policies[0], "0 * * * *", "30 * * * *", "0 12 * * *")
	if got := len(times(s, begin.Add(-time.Second), begin.AddDate(0, 0, 1))); got != 48 {
		t.Errorf("there are %d times a day, want 48: one that two lines name counts once", got)
	}
}

func TestSecondsAreOptional(t *testing.T) {
	s := parse(t, "UTC", policies[0], "*/20 * * * * *")
	if got := s.Next(begin); !got.Equal(begin.Add(20 * time.Second)) {
		t.Errorf("the next time is %s", got)
	}
}

func TestLeapDayIsFoundAcrossACentury(t *testing.T) {
	s := parse(t, "Europe/Berlin", policies[0], "0 0 29 2 *")
	if got := s.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)); got.Year() != 2104 {
		t.Errorf("the next time is %s", got)
	}
}

func TestSpreadFollowsFromTheSeed(t *testing.T) {
	minutes := map[int]int{}
	for i := range 600 {
		seed := fmt.Sprintf("shop/job-%d", i)
		s, err := cron.Parse([]string{"H H(2-4) * * *"}, "UTC", policies[0], seed)
		if err != nil {
			t.Fatal(err)
		}
		at := s.Next(begin)
		if again, _ := cron.Parse([]string{"H H(2-4) * * *"}, "UTC", policies[0], seed); !again.Next(begin).Equal(at) {
			t.Fatalf("%s has two times", seed)
		}
		if at.Hour() < 2 || at.Hour() > 4 || at.Second() != 0 {
			t.Errorf("the time is %s", at)
		}
		minutes[at.Minute()]++
	}
	for minute := range 60 {
		if n := minutes[minute]; n == 0 || n > 30 {
			t.Errorf("%d of 600 are in minute %d", n, minute)
		}
	}
	s := parse(t, "UTC", policies[0], "H/15 * * * *")
	if got := len(times(s, begin.Add(-time.Second), begin.AddDate(0, 0, 1))); got != 96 {
		t.Errorf("H/15 comes %d times a day", got)
	}
}

func TestLastTimes(t *testing.T) {
	s := parse(t, "Europe/Berlin", policies[3], "*/10 * * * *")
	last, more := s.Last(begin, begin.AddDate(1, 0, 0), 3)
	if len(last) != 3 || !more || !last[2].Equal(begin.AddDate(1, 0, 0)) || !last[0].Equal(last[2].Add(-20*time.Minute)) {
		t.Errorf("the last times are %v, and more: %t", last, more)
	}
	if last, more = s.Last(begin, begin.Add(15*time.Minute), 3); len(last) != 1 || more {
		t.Errorf("the last times are %v, and more: %t", last, more)
	}
}

func TestParseRefuses(t *testing.T) {
	if _, err := cron.Parse(nil, "UTC", policies[0], "a"); err == nil || err.Error() != "there is no schedule" {
		t.Errorf("without a line the error is %v", err)
	}
	for title, c := range map[string]struct{ line, zone, want string }{
		"zone":             {"0 0 * * *", "Mars/Olympus", `time zone "Mars/Olympus" does not exist`},
		"no zone":          {"0 0 * * *", "", `time zone "" is not valid`},
		"local zone":       {"0 0 * * *", "Local", "is not valid"},
		"few fields":       {"0 0 *", "UTC", `schedule "0 0 *" is not valid`},
		"minute":           {"61 0 * * *", "UTC", `schedule "61 0 * * *" is not valid`},
		"impossible date":  {"0 0 30 2 *", "UTC", "it names a day that never comes"},
		"every":            {"@every 5m", "UTC", "use one of @yearly"},
		"other than these": {"@noon", "UTC", "@hourly, or a line of five or six fields"},
		"zone in line":     {"TZ=UTC 0 0 * * *", "UTC", "a time zone belongs into the field timeZone"},
		"spread in list":   {"H,5 * * * *", "UTC", `minute "H,5" is not valid: H stands alone, as H/STEP, H(FROM-TO)`},
		"spread range":     {"H(50-70) * * * *", "UTC", `minute "H(50-70)" is not within 0-59`},
		"spread step":      {"H/0 * * * *", "UTC", "has a step that is not within"},
	} {
		t.Run(title, func(t *testing.T) {
			if _, err := cron.Parse([]string{c.line}, c.zone, policies[0], "a"); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}
