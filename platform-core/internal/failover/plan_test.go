// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// trio is a set of three members in term 5, of which the first writes.
func trio() failover.Facts {
	f := failover.Facts{Now: time.Hour, Mode: failover.Auto, After: 2 * time.Second, Measures: failover.FromReports}
	for _, name := range []string{"a-0", "a-1", "a-2"} {
		f.Wanted = append(f.Wanted, name)
		f.Record.List.Members = append(f.Record.List.Members, permission.Member{Name: name, Identity: "of " + name})
		f.Pods = append(f.Pods, failover.Pod{Name: name, Presence: failover.Alive, Health: report.Healthy, Sync: failover.InSync,
			Member: failover.Known{Identity: "of " + name, Promised: 5, Primary: "a-0"}})
	}
	f.Record.Term, f.Record.List.Version, f.Record.Primary = 5, 1, &f.Record.List.Members[0]
	f.Former = f.Record.Primary
	writer := &f.Pods[0]
	writer.Member.Term, writer.Member.ListVersion, writer.Member.Writing, writer.Established = 5, 1, true, true
	return f
}

// TestALaterTermWithoutItsWriterHasNoFormer, since another one than the record names may have written in between.
func TestALaterTermWithoutItsWriterHasNoFormer(t *testing.T) {
	f := trio()
	f.Pods[1].Member.Promised = 7
	d := failover.Plan(f, &failover.Memory{})
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Write {
		t.Fatalf("the steps are %v", d.Steps)
	}
	if s := d.Steps[0]; s.Record.Term != 8 || s.Record.Primary != nil || s.Former != nil {
		t.Errorf("it writes %v with the former writer %v", s, s.Former)
	}
	f.Pods[1].Member.Term = 7
	d = failover.Plan(f, &failover.Memory{})
	if s := d.Steps[0]; s.Record.Primary == nil || s.Record.Primary.Name != "a-1" || s.Former == nil || *s.Former != *s.Record.Primary {
		t.Errorf("it writes %v with the former writer %v", s, s.Former)
	}
}
