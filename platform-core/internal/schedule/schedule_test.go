// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/internal/schedule"
)

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
		"unknown zone":      {"0 2 * * *", "Europe/Utopia", `time zone "Europe/Utopia" does not exist`},
		"too few fields":    {"0 2 * *", "UTC", "is not valid"},
		"seconds":           {"0 0 2 * * *", "UTC", "is not valid"},
		"out of range":      {"0 24 * * *", "UTC", "is not valid"},
		"a name":            {"@daily", "UTC", "is not valid"},
		"a spread time":     {"0 2 * H *", "UTC", "is not valid"},
		"an interval":       {"@every 1h", "UTC", "is not valid"},
		"a zone within":     {"CRON_TZ=Asia/Tokyo 0 2 * * *", "UTC", "is not valid"},
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
