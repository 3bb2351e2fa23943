// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/internal/schedule"
	"github.com/zeroinfra/platform-core/internal/schedule/oracle"
)

func TestNextAgainstEveryMinuteOfTwoYears(t *testing.T) {
	lines := []string{"0 2 * * *", "30 2 * * 0", "15,45 0-3 * * *", "*/20 * * 3,4,9,10,11 *", "10 1 1-7 * 6",
		"59 23 28-31 2 *", "0 0 * * *", "5/25 2 */7 * *"}
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		to := from.AddDate(2, 0, 0)
		for i, want := range oracle.Walk(zone, from, to, lines) {
			line := lines[i]
			s, err := schedule.Parse(line, name)
			if err != nil {
				t.Fatal(err)
			}
			var got []time.Time
			for at := s.Next(from); at.Before(to); at = s.Next(at) {
				got = append(got, at)
			}
			if len(want) == 0 || !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Errorf("%s in %s comes %d times, %d are right; the first that differ are %s", line, name, len(got), len(want),
					differ(got, want))
			}
			for _, n := range []int{1, 7, 100, len(want)} {
				last, more := s.Last(from, to.Add(-time.Nanosecond), n)
				if !slices.EqualFunc(last, want[max(0, len(want)-n):], time.Time.Equal) || more != (len(want) > n) {
					t.Errorf("%s in %s: the last %d times are %v, more: %t", line, name, n, last, more)
				}
			}
		}
	}
}

func differ(got, want []time.Time) string {
	for i := range min(len(got), len(want)) {
		if !got[i].Equal(want[i]) {
			return got[i].String() + " and " + want[i].String()
		}
	}
	return "at the end"
}

func TestNextFromWithinAChangeOfTheClocks(t *testing.T) {
	for name, tc := range map[string]struct{ line, zone, after, want string }{
		"in the gap": {"30 2 * * *", "Europe/Berlin", "2026-03-29T01:59:59+01:00",
			"2026-03-29T03:00:00+02:00"},
		"after the gap": {"30 2 * * *", "Europe/Berlin", "2026-03-29T03:00:00+02:00",
			"2026-03-30T02:30:00+02:00"},
		"several in the gap": {"*/10 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00",
			"2026-03-29T03:00:00+02:00"},
		"a gap at midnight": {"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00-04:00",
			"2026-09-06T01:00:00-03:00"},
		"shown twice, first": {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:00:00+02:00",
			"2026-10-25T02:30:00+02:00"},
		"shown twice, between": {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:45:00+02:00",
			"2026-10-26T02:30:00+01:00"},
		"shown twice, second": {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:15:00+01:00",
			"2026-10-26T02:30:00+01:00"},
		"half an hour": {"45 1 * * *", "Australia/Lord_Howe", "2026-04-05T01:44:59+11:00",
			"2026-04-05T01:45:00+11:00"},
		"half an hour, second time": {"45 1 * * *", "Australia/Lord_Howe", "2026-04-05T01:30:00+10:30",
			"2026-04-06T01:45:00+10:30"},
		"leap day":   {"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		"a fraction": {"0 2 * * *", "UTC", "2026-01-01T01:59:59.5Z", "2026-01-01T02:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schedule.Parse(tc.line, tc.zone)
			if err != nil {
				t.Fatal(err)
			}
			after, err := time.Parse(time.RFC3339, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Next(after).Format(time.RFC3339); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ line, zone, text string }{
		"no zone":           {"0 2 * * *", "", "such as Europe/Berlin"},
		"the machine's":     {"0 2 * * *", "Local", "such as Europe/Berlin"},
		"unknown zone":      {"0 2 * * *", "Europe/Utopia", `no time zone "Europe/Utopia"`},
		"too few fields":    {"0 2 * *", "UTC", "no cron line"},
		"seconds":           {"0 0 2 * * *", "UTC", "no cron line"},
		"out of range":      {"0 24 * * *", "UTC", "no cron line"},
		"a name":            {"@daily", "UTC", "no cron line"},
		"an interval":       {"@every 1h", "UTC", "no cron line"},
		"a zone within":     {"CRON_TZ=Asia/Tokyo 0 2 * * *", "UTC", "no cron line"},
		"a day that is not": {"0 0 30 2 *", "UTC", "never comes"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := schedule.Parse(tc.line, tc.zone); err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want %s", err, tc.text)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"0 2 * * *", "*/5 1-3,7 ? jan mon-fri", "0 0 31 2 *", "-1/0 * * * *"} {
		f.Add(line, int64(1_774_745_999))
	}
	zone := "Europe/Berlin"
	f.Fuzz(func(t *testing.T, line string, seconds int64) {
		s, err := schedule.Parse(line, zone)
		if err != nil || seconds < 0 || seconds > 1<<33 {
			return
		}
		after := time.Unix(seconds, 0)
		if next := s.Next(after); !next.After(after) {
			t.Errorf("%q: %s is not after %s", line, next, after)
		}
	})
}
