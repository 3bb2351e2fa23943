// SPDX-License-Identifier: Apache-2.0

package maintenance_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/maintenance"
)

func windows(t *testing.T, all ...platformv1.MaintenanceWindow) maintenance.Windows {
	t.Helper()
	w, err := maintenance.Parse(&platformv1.Maintenance{Windows: all})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func window(line, duration, zone string) platformv1.MaintenanceWindow {
	d, err := time.ParseDuration(duration)
	if err != nil {
		panic(err)
	}
	return platformv1.MaintenanceWindow{Schedule: platformv1.CronLine(line), Duration: metav1.Duration{Duration: d},
		TimeZone: platformv1.TimeZone(zone)}
}

func TestClosed(t *testing.T) {
	night, tokyo := window("0 2 * * *", "90m", "Europe/Berlin"), window("0 12 * * 6", "1h", "Asia/Tokyo")
	for name, tc := range map[string]struct {
		windows []platformv1.MaintenanceWindow
		now     string
		next    string // empty when open
	}{
		"none": {nil, "2026-11-21T12:00:00Z", ""},
		"before": {[]platformv1.MaintenanceWindow{night}, "2026-11-21T12:00:00Z",
			"2026-11-22T02:00+01:00 (Europe/Berlin)"},
		"a moment before": {[]platformv1.MaintenanceWindow{night}, "2026-11-22T00:59:59.999Z",
			"2026-11-22T02:00+01:00 (Europe/Berlin)"},
		"as it opens":             {[]platformv1.MaintenanceWindow{night}, "2026-11-22T01:00:00Z", ""},
		"a moment before its end": {[]platformv1.MaintenanceWindow{night}, "2026-11-22T02:29:59.999Z", ""},
		"at its end": {[]platformv1.MaintenanceWindow{night}, "2026-11-22T02:30:00Z",
			"2026-11-23T02:00+01:00 (Europe/Berlin)"},
		"the first of two": {[]platformv1.MaintenanceWindow{night, tokyo}, "2026-11-28T02:30:00Z",
			"2026-11-28T12:00+09:00 (Asia/Tokyo)"},
		"the other is open": {[]platformv1.MaintenanceWindow{night, tokyo}, "2026-11-28T03:59:00Z", ""},
		"longer than its period": {[]platformv1.MaintenanceWindow{window("0 * * * *", "2h", "UTC")}, "2026-11-28T03:59:00Z",
			""},
		"clocks put forward": {[]platformv1.MaintenanceWindow{night}, "2026-03-29T00:30:00Z",
			"2026-03-29T03:00+02:00 (Europe/Berlin)"},
		"its real duration then": {[]platformv1.MaintenanceWindow{night}, "2026-03-29T02:29:00Z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			opening, closed := windows(t, tc.windows...).Closed(now)
			if closed != (tc.next != "") || closed && opening.String() != tc.next {
				t.Errorf("got %v, %t, want %q", opening, closed, tc.next)
			}
		})
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	good := window("0 2 * * *", "1h", "UTC")
	for text, bad := range map[string]platformv1.MaintenanceWindow{
		`maintenance.windows[1]: time zone "Utopia" does not exist`:               window("0 2 * * *", "1h", "Utopia"),
		`maintenance.windows[1]: schedule "0 2 5-3 * *" is not valid`:             window("0 2 5-3 * *", "1h", "UTC"),
		`maintenance.windows[1]: duration 10s is not between 1m and 168h`:         window("0 2 * * *", "10s", "UTC"),
		`maintenance.windows[1]: duration 169h0m0s is not between 1m and 168h`:    window("0 2 * * *", "169h", "UTC"),
		`maintenance.windows[1]: schedule "0 2 31 6 *" is not valid: it names a `: window("0 2 31 6 *", "1h", "UTC"),
	} {
		_, err := maintenance.Parse(&platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{good, bad}})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
	if w, err := maintenance.Parse(nil); err != nil || w != nil {
		t.Errorf("no maintenance gives %v, %v", w, err)
	}
}
