// SPDX-License-Identifier: Apache-2.0

package callrecord_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/callrecord"
)

func open(t *testing.T, dir string) *callrecord.Store {
	t.Helper()
	s, err := callrecord.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func begin(t *testing.T, s *callrecord.Store, key, method string, term uint64, intent callrecord.Intent) {
	t.Helper()
	if err := s.Begin(key, method, term, intent); err != nil {
		t.Fatal(err)
	}
}

func TestNewPodIsMeantToRun(t *testing.T) {
	s := open(t, t.TempDir())
	if got := s.State(); !reflect.DeepEqual(got, callrecord.State{Intent: callrecord.Run}) {
		t.Errorf("got %+v", got)
	}
	if _, called := s.Last(); called {
		t.Error("there is a call")
	}
}

func TestEverythingSurvives(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	begin(t, s, "a", "Restart", 3, callrecord.Run)
	if err := errors.Join(s.Started(), s.Started(), s.Exited("exit code 1"),
		s.Finish("a", callrecord.Outcome{Phase: callrecord.Failed, Reason: "RestartRequired", Message: "why"})); err != nil {
		t.Fatal(err)
	}
	begin(t, s, "b", "Stop", 4, callrecord.Stop)
	want := callrecord.State{Intent: callrecord.Stop, Term: 4, Starts: 2, LastExit: "exit code 1",
		Calls: []callrecord.Record{
			{Key: "a", Method: "Restart", Outcome: callrecord.Outcome{Phase: callrecord.Failed, Reason: "RestartRequired",
				Message: "why"}},
			{Key: "b", Method: "Stop", Outcome: callrecord.Outcome{Phase: callrecord.Running}},
		}}
	for _, store := range []*callrecord.Store{s, open(t, dir)} {
		if got := store.State(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestRepeatedKey(t *testing.T) {
	s := open(t, t.TempDir())
	begin(t, s, "a", "Restart", 0, "")
	record, known, err := s.Find("a", "Restart")
	if err != nil || !known || record.Phase != callrecord.Running {
		t.Errorf("got %+v, %v, %v", record, known, err)
	}
	if _, _, err := s.Find("a", "Stop"); !errors.Is(err, callrecord.ErrKeyReused) ||
		!strings.Contains(err.Error(), "Restart") {
		t.Errorf("got %v", err)
	}
	if _, known, err := s.Find("b", "Restart"); known || err != nil {
		t.Errorf("got %v, %v", known, err)
	}
}

func TestKeys(t *testing.T) {
	s := open(t, t.TempDir())
	for _, key := range []string{"a", "operation/uid-1 step 2", strings.Repeat("é", 256)} {
		if _, _, err := s.Find(key, "Stop"); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"", "a\n", "\x00", "\xff", strings.Repeat("a", 257)} {
		if _, _, err := s.Find(key, "Stop"); !errors.Is(err, callrecord.ErrBadKey) {
			t.Errorf("%q: got %v", key, err)
		}
	}
}

func TestTermsOnlyGrow(t *testing.T) {
	s := open(t, t.TempDir())
	begin(t, s, "a", "Restart", 5, "")
	before := s.State()
	if err := s.Begin("b", "Restart", 4, callrecord.Stop); !errors.Is(err, callrecord.ErrStaleTerm) {
		t.Errorf("term 4: got %v", err)
	}
	if got := s.State(); !reflect.DeepEqual(got, before) {
		t.Errorf("a refused call left %+v", got)
	}
	begin(t, s, "b", "Restart", 5, "")
	begin(t, s, "c", "Restart", 6, "")
	// Who says nothing of a term is heard, and changes none.
	begin(t, s, "d", "Restart", 0, "")
	if got := s.State().Term; got != 6 {
		t.Errorf("term is %d", got)
	}
}

func TestTheLatestCallsAreKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for i := range callrecord.Kept + 10 {
		begin(t, s, fmt.Sprint(i), "Signal", 0, "")
	}
	s = open(t, dir)
	if got := len(s.State().Calls); got != callrecord.Kept {
		t.Errorf("%d calls are kept", got)
	}
	for key, want := range map[string]bool{"9": false, "10": true, "73": true} {
		if _, known, err := s.Find(key, "Signal"); known != want || err != nil {
			t.Errorf("key %s: got %v, %v", key, known, err)
		}
	}
}

func TestOutcomeIsFinal(t *testing.T) {
	s := open(t, t.TempDir())
	begin(t, s, "a", "Restart", 0, "")
	if err := errors.Join(s.Finish("a", callrecord.Outcome{Phase: callrecord.Failed, Message: "first"}),
		s.Finish("a", callrecord.Outcome{Phase: callrecord.Succeeded}),
		s.Finish("unknown", callrecord.Outcome{Phase: callrecord.Failed})); err != nil {
		t.Fatal(err)
	}
	if last, _ := s.Last(); last.Phase != callrecord.Failed || last.Message != "first" {
		t.Errorf("got %+v", last)
	}
}

func TestCallThatCannotBeWrittenIsNotRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := open(t, dir)
	if err := s.Begin("a", "Stop", 1, callrecord.Stop); err == nil {
		t.Fatal("the folder is missing and nothing failed")
	}
	if got := s.State(); !reflect.DeepEqual(got, callrecord.State{Intent: callrecord.Run}) {
		t.Errorf("got %+v", got)
	}
	// What has happened counts, written or not.
	if err := s.Started(); err == nil || s.State().Starts != 1 {
		t.Errorf("got %v and %d starts", err, s.State().Starts)
	}
}

func TestBrokenFileIsNotOverlooked(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "process-state.json"), []byte(`{"intent":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := callrecord.Open(dir); err == nil || !strings.Contains(err.Error(), "process-state.json") {
		t.Errorf("got %v", err)
	}
}

func TestActionThatRanIsInterruptedAndNeverForgotten(t *testing.T) {
	dir := t.TempDir()
	actions := func() *callrecord.Store {
		s, err := callrecord.OpenActions(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := actions()
	begin(t, s, "long", "Run backup", 0, "")
	for n := range 2 * callrecord.Kept {
		key := fmt.Sprint(n)
		begin(t, s, key, "Run x", 0, "")
		err := s.Finish(key, callrecord.Outcome{Phase: callrecord.Succeeded, Outputs: map[string]string{"n": key}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, known, _ := s.Find("long", "Run backup"); !known {
		t.Error("what runs was forgotten")
	}
	for range 2 {
		s = actions()
		if record, known, err := s.Find("long", "Run backup"); !known || record.Phase != callrecord.Interrupted {
			t.Errorf("got %+v, %v, %v", record, known, err)
		}
		if record, _, _ := s.Find("127", "Run x"); record.Outputs["n"] != "127" {
			t.Errorf("got %+v", record)
		}
	}
	if _, known, _ := open(t, dir).Find("long", "Run backup"); known {
		t.Error("the process manager has the calls of the ops agent")
	}
}
