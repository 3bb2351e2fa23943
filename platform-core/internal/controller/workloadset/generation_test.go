// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A term of before is never one again, whichever way pods go, and what is known of volumes is known again on the way back.
func TestRecordsOfGenerations(t *testing.T) {
	one := platformv1.WriterMember{Name: "a-1", Identity: "one"}
	first := &platformv1.WriterRecord{Term: 5, Primary: &one, List: platformv1.WriterList{Version: 3, Members: []platformv1.WriterMember{one}},
		Changes: []platformv1.WriterChange{{Term: 5}}}
	there := recordFor("g2", first, nil)
	if there.Term <= 5 || there.Primary != nil || len(there.List.Members) != 0 || there.List.Version <= 3 || there.Data != "g2" || len(there.Changes) != 1 || there.Since != nil {
		t.Errorf("on other volumes it is %+v", there)
	}
	there.Term, there.Primary = 9, &platformv1.WriterMember{Name: "a-0", Identity: "two"}
	back := recordFor("", there, first)
	if back.Term <= 9 || back.Primary == nil || *back.Primary != one || len(back.List.Members) != 1 || back.Data != "" {
		t.Errorf("on the way back it is %+v", back)
	}
	if again := recordFor("g3", there, first); again.Term <= 9 || again.Primary != nil || again.Data != "g3" {
		t.Errorf("on volumes that nobody knows it is %+v", again)
	}
}
