// SPDX-License-Identifier: Apache-2.0

package kafka

import "testing"

func quorumAnswer() encoder {
	member := func(e encoder, node int32) encoder {
		return append(e.int32(node).uuid([16]byte{1, 2, byte(node)}), 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0,
			0, 0, 0, 0, 0, 7).tags()
	}
	e := encoder{}.int16(0).null().length(1).text(metadataTopic).length(1).int32(0).int16(0).null().int32(2).int32(5)
	e = append(e, 0, 0, 0, 0, 0, 0, 0, 43)
	e = member(member(e.length(2), 1), 2)
	e = member(e.length(1), 3)
	return e.tags().tags().length(0).tags()
}

func TestQuorumIsRead(t *testing.T) {
	q, err := readQuorum(&decoder{data: quorumAnswer()})
	if err != nil || q.leader != 2 || q.epoch != 5 || q.end() != 43 || len(q.voters) != 2 || len(q.observers) != 1 ||
		q.observers[0].endOffset != 42 {
		t.Fatalf("got %+v, %v", q, err)
	}
	id, err := parseID(textOf(q.voters[1].directory))
	if err != nil || id != q.voters[1].directory {
		t.Errorf("the directory %v reads as %v, %v", q.voters[1].directory, id, err)
	}
}

// TestAnswersThatEndTooSoonAreErrors: no prefix of an answer passes for one, and none panics.
func TestAnswersThatEndTooSoonAreErrors(t *testing.T) {
	whole := quorumAnswer()
	for n := range len(whole) - 2 {
		if q, err := readQuorum(&decoder{data: whole[:n]}); err == nil && n < len(whole)-3 {
			t.Errorf("the first %d of %d bytes are taken for %+v", n, len(whole), q)
		}
	}
}

// A controller whose volume was lost has two directories for a while: its own is the one that it asks from.
func TestDirectoriesAreThoseThatAskLast(t *testing.T) {
	of := func(node int32, directory byte, fetched int64) quorumMember {
		return quorumMember{node: node, directory: [16]byte{directory}, fetched: fetched}
	}
	q := &quorum{
		voters:    []quorumMember{of(1001, 2, 900), of(1000, 1, 910), of(1003, 0, 900)},
		observers: []quorumMember{of(0, 4, 905), of(1000, 9, 800), of(1001, 8, 950)},
	}
	want := "0:" + textOf([16]byte{4}) + " 1000:" + textOf([16]byte{1}) + " 1001:" + textOf([16]byte{8})
	if got := q.directories(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
