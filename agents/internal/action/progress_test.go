// SPDX-License-Identifier: Apache-2.0

package action

import (
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/driver"
)

// A query that says how far it is has that on record while it runs, and not afterwards.
func TestAQueryThatRunsSaysHowFarItIs(t *testing.T) {
	run := &Run{done: make(chan struct{}), record: callrecord.Record{
		Outcome: callrecord.Outcome{Phase: callrecord.Running}}}
	j := &job{progress: run.progress}
	report := func(column, text string) {
		j.report(driver.Table{Columns: []string{column}, Rows: [][]*string{{&text}}})
	}
	report("phase", "Moving")
	if got := run.Record().Message; got != "" {
		t.Errorf("a table that is not for people gives %q", got)
	}
	report(driver.Progress, strings.Repeat("9 of 20 to go ", 100))
	if got := run.Record().Message; len(got) != maxProgress || !strings.HasPrefix(got, "9 of 20 to go") {
		t.Errorf("while it runs it says %q", got)
	}
	run.finish(callrecord.Outcome{Phase: callrecord.Succeeded})
	report(driver.Progress, "9 of 20 to go")
	if got := run.Record().Message; got != "" {
		t.Errorf("when it has ended it says %q", got)
	}
}
