// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// A server that nobody told whether it writes runs on until it is restarted with a plan that says who does: from then
// on it writes only when it is named, on the data that it had.
func TestAServerThatWasAloneIsToldWhoWrites(t *testing.T) {
	t.Parallel()
	s := newSet(t, 1)
	m := s.members[0]
	alone := m.plan()
	alone.Writing, alone.Process.Command = nil, append(alone.Process.Command, "writer")
	m.mount(alone)
	m.begin()
	m.says("writer")
	if status := m.status(); status != nil {
		t.Errorf("alone, it is a member: %v", status)
	}
	before := m.server()
	told := m.plan()
	told.Digest, told.RestartDigest = digest(2), digest(1002)
	m.mount(told)
	header := &agentv1.CallHeader{IdempotencyKey: "told", Term: 1}
	if _, err := m.control.Restart(m.ctx(),
		&agentv1.RestartRequest{Header: header, Plan: encode(t, told)}); err != nil {
		t.Fatal(err)
	}
	status := m.awaits("its identity", func(status *agentv1.MemberStatus) bool {
		return status.GetIdentity() != "" && status.GetMessage() != ""
	})
	if status.GetWriting() || !strings.Contains(status.GetMessage(), "no primary is known") || m.server() != 0 {
		t.Errorf("the status is %v, and %d runs; before, %d did", status, m.server(), before)
	}
	s.put(permission.Record{}.Bootstrap([]permission.Member{m.member()}))
	s.put(s.get().Name(m.member()))
	m.awaitsWriting()
	m.starts(2)
}
