// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trials.jsonl")
	var tables []string
	for run := range 3 {
		table, comparison := New(nil), NewComparison()
		r, err := Resume(path, "1.0", table, comparison)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table.String()+comparison.String())
		r.Add("", "killed", Trial{Gap: time.Duration(run) * time.Second, Vacancy: 1500 * time.Millisecond, Acknowledged: 10})
		r.Add(Ours, "killed", Trial{Gap: time.Second, Acknowledged: 7})
		r.Add(Bare, "killed", Trial{Gap: 2 * time.Second, Acknowledged: 8, Lost: 1})
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	table, comparison := New(nil), NewComparison()
	for run := range 2 {
		table.Add("killed", Trial{Gap: time.Duration(run) * time.Second, Vacancy: 1500 * time.Millisecond, Acknowledged: 10})
		comparison.Add(Ours, "killed", Trial{Gap: time.Second, Acknowledged: 7})
		comparison.Add(Bare, "killed", Trial{Gap: 2 * time.Second, Acknowledged: 8, Lost: 1})
	}
	if want := table.String() + comparison.String(); tables[0] != "" || tables[2] != want {
		t.Errorf("the third run begins with\n%s, want\n%s", tables[2], want)
	}
}

func TestRecordsThatAreNone(t *testing.T) {
	for name, tc := range map[string]struct{ text, says string }{
		"half a line":    {`{"fault":"killed","gap":1`, "trials.jsonl:2 is no trial"},
		"another thing":  {`{"fault":"killed","pause":1}`, `unknown field "pause"`},
		"nothing tried":  {`{}`, "trials.jsonl:2 is no trial"},
		"a third side":   {`{"fault":"killed","side":"theirs"}`, `trials.jsonl:2 is of the side "theirs"`},
		"a longer word":  {`{"fault":"killed","gap":"long"}`, "trials.jsonl:2 is no trial"},
		"a line of text": {"killed", "trials.jsonl:2 is no trial"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trials.jsonl")
			if err := os.WriteFile(path, []byte("{\"fault\":\"killed\"}\n"+tc.text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Resume(path, "", New(nil), NewComparison()); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it says %v, want %s", err, tc.says)
			}
		})
	}
	if _, err := Resume(filepath.Join(t.TempDir(), "nowhere", "trials.jsonl"), "", New(nil), NewComparison()); err == nil {
		t.Error("a record in a folder that is not there is opened")
	}
}
