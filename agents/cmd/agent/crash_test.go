// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// takesOver has the pods declare that a process that died may come back with less than it had.
func (s *set) takesOver() {
	s.Helper()
	for _, m := range s.members {
		p := m.plan()
		p.Writing.AfterCrash = plan.TakeOver
		m.mount(p)
	}
}

// reportsForfeit waits until the report says in which term the process died as the writer; 0 for none.
func (m *memberPod) reportsForfeit(term int64) {
	m.Helper()
	eventually(m.T, func() error {
		text := m.api.report.Load()
		if text == nil {
			return fmt.Errorf("there is no report")
		}
		if r, err := report.Parse(*text); err != nil || r.Member == nil || r.Member.Forfeited != term {
			return fmt.Errorf("the report is %s, %v; log:\n%s", *text, err, m.stderr)
		}
		return nil
	})
}

// TestAWriterThatDiedWritesInALaterTermOnly, whatever of its pod died, although all others acknowledge its term; and one that ended as it was told to writes on.
func TestAWriterThatDiedWritesInALaterTermOnly(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	s.takesOver()
	s.bootstrap()
	first, second := s.members[0], s.members[1]
	first.awaitsWriting()
	restart := &agentv1.RestartRequest{Header: &agentv1.CallHeader{IdempotencyKey: "planned", Term: 1}}
	if _, err := first.control.Restart(first.ctx(), restart); err != nil {
		t.Fatal(err)
	}
	first.starts(2)
	first.awaitsWriting()
	if err := syscall.Kill(first.server(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waits := func(s *agentv1.MemberStatus) bool {
		return strings.Contains(s.GetMessage(), "died while it was the writer in term 1") && !s.GetWriting() && s.GetNamed() && s.GetPermissionLeftMs() > 0
	}
	first.awaits("that it waits", waits)
	first.reportsForfeit(1)
	first.process.stop(syscall.SIGKILL)
	first.begin()
	first.awaits("that it waits in the next container, too", waits)
	first.reportsForfeit(1)
	if first.server() != 0 {
		t.Error("a process runs")
	}
	// The engine found that nobody has more.
	s.put(s.get().Depose(), nil)
	s.promise(first)
	s.promise(second)
	s.put(s.get().Name(first.member()))
	s.tell(first, second)
	first.starts(3)
	first.awaitsWriting()
	first.reportsForfeit(0)
	// The whole pod dies, and another one is named.
	first.process.stop(syscall.SIGKILL)
	first.begin()
	first.reportsForfeit(2)
	s.put(s.get().Depose(), nil)
	s.promise(first)
	s.promise(second)
	s.put(s.get().Name(second.member()))
	s.tell(second, first)
	second.awaitsWriting()
	first.says("rejoined " + second.fqdn())
	first.reportsForfeit(0)
}

// TestAWriterWithoutOthersRestartsInPlace: there is nobody who could have more.
func TestAWriterWithoutOthersRestartsInPlace(t *testing.T) {
	t.Parallel()
	s := newSet(t, 1)
	s.takesOver()
	s.bootstrap()
	only := s.members[0]
	only.awaitsWriting()
	if err := syscall.Kill(only.server(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	only.starts(2)
	only.process.stop(syscall.SIGKILL)
	only.begin()
	only.starts(3)
	only.awaitsWriting()
}
