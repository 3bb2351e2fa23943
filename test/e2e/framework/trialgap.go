// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"
	"time"
)

// toldGap is from which length on it is told what went on in the time without a write.
const toldGap = time.Second

// failure is what a client tried in vain, and when that ended.
type failure struct {
	at   time.Time
	what string
	err  error
}

func (t *Trial) failed(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, failure{time.Now(), what, err})
}

// story tells of the longest time without an acknowledged write which members took writes in it, and what the client
// met, in seconds after its beginning; it is empty for a short one.
func (t *Trial) story() string {
	begin, end := WidestGap(moments(t.writes))
	if end.Sub(begin) < toldGap {
		return ""
	}
	after := func(at time.Time) string { return fmt.Sprintf("%.2f", at.Sub(begin).Seconds()) }
	var story strings.Builder
	fmt.Fprintf(&story, "%s s without a write from %s on", after(end), begin.Format("15:04:05.000"))
	for n, probe := range t.probes {
		if probe.at.Before(end) && probe.at.After(begin) &&
			(n == 0 || probe.member != t.probes[n-1].member || t.probes[n-1].at.Before(begin)) {
			fmt.Fprintf(&story, "; %s takes writes at %s", probe.member, after(probe.at))
		}
	}
	for n := 0; n < len(t.failures); {
		first, last := t.failures[n], n
		for last+1 < len(t.failures) && t.failures[last+1].what == first.what &&
			t.failures[last+1].err.Error() == first.err.Error() {
			last++
		}
		if !t.failures[last].at.Before(begin) && !first.at.After(end) {
			fmt.Fprintf(&story, "; fails %s from %s to %s, %d times: %v", first.what, after(first.at),
				after(t.failures[last].at), last-n+1, first.err)
		}
		n = last + 1
	}
	return story.String()
}
