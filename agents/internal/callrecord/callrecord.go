// SPDX-License-Identifier: Apache-2.0

// Package callrecord keeps what a process manager must remember when its
// container is restarted: the calls by idempotency key, the highest term, whether
// the process is meant to run, and how often it was started. It is one small file
// in the run folder, replaced atomically before anything is done.
//
// A Store has one owner; it is not safe for concurrent use.
package callrecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/zeroinfra/agents/internal/atomicfile"
)

const (
	// fileName is the file below the run folder.
	fileName = "process-state.json"
	// actionsFile is that of the ops agent.
	actionsFile = "actions-state.json"
	// Kept is how many calls are remembered.
	Kept = 64
	// maxKey is the longest idempotency key, in characters.
	maxKey = 256
)

// Errors that a caller of the process manager gets to see.
var (
	// ErrBadKey says that an idempotency key is no key.
	ErrBadKey = errors.New("the idempotency key must have 1 to 256 printable characters")
	// ErrKeyReused says that a key names two different intents.
	ErrKeyReused = errors.New("the idempotency key was used for another method")
	// ErrStaleTerm says that somebody with a higher term has called before.
	ErrStaleTerm = errors.New("the term is lower than one seen before")
)

// Intent says whether the process is meant to run.
type Intent string

// Values of Intent.
const (
	// Run is the intent of a new pod.
	Run Intent = "Run"
	// Stop is the intent after a Stop call, until Start or Restart.
	Stop Intent = "Stop"
)

// Phase of a call.
type Phase string

// Values of Phase.
const (
	Running   Phase = "Running"
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
	// Interrupted: the agent ended while the call ran, and does not know how far that came.
	Interrupted Phase = "Interrupted"
)

// Outcome of a call.
type Outcome struct {
	Phase Phase `json:"phase"`
	// Reason of a failure, for machines.
	Reason string `json:"reason,omitempty"`
	// Message says why it failed.
	Message string `json:"message,omitempty"`
	// Outputs of an action by name.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// Record is one call and its outcome.
type Record struct {
	Key    string `json:"key"`
	Method string `json:"method"`
	Outcome
}

// State is the content of the file.
type State struct {
	Intent   Intent `json:"intent"`
	Term     uint64 `json:"term,omitempty"`
	Starts   int64  `json:"starts,omitempty"`
	LastExit string `json:"lastExit,omitempty"`
	// Calls from the oldest to the latest.
	Calls []Record `json:"calls,omitempty"`
}

// Store is the state with its file.
type Store struct {
	path  string
	state State
}

// Open reads the process manager's state, or begins one when there is none. A file that cannot be
// read is an error: without it a process that was stopped on purpose would run again.
func Open(runDir string) (*Store, error) { return open(runDir, fileName) }

// OpenActions reads the calls of the ops agent, or begins anew when there are none. Calls that ran when the agent
// ended become interrupted ones.
func OpenActions(runDir string) (*Store, error) {
	s, err := open(runDir, actionsFile)
	if err != nil {
		return nil, err
	}
	interrupted := false
	for i := range s.state.Calls {
		if call := &s.state.Calls[i]; call.Phase == Running {
			call.Outcome = Outcome{Phase: Interrupted,
				Message: "the ops agent was restarted while it ran: how far it came is not known"}
			interrupted = true
		}
	}
	if !interrupted {
		return s, nil
	}
	return s, s.write(s.state)
}

func open(runDir, name string) (*Store, error) {
	s := &Store{path: filepath.Join(runDir, name), state: State{Intent: Run}}
	data, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the process state: %w", err)
	}
	if err := json.Unmarshal(data, &s.state); err != nil {
		return nil, fmt.Errorf("cannot read the process state %q: %w; replace the pod to begin anew", s.path, err)
	}
	return s, nil
}

// State returns a copy.
func (s *Store) State() State {
	state := s.state
	state.Calls = slices.Clone(s.state.Calls)
	return state
}

// Last is the latest call; false when there was none.
func (s *Store) Last() (Record, bool) {
	if len(s.state.Calls) == 0 {
		return Record{}, false
	}
	return s.state.Calls[len(s.state.Calls)-1], true
}

// Find returns the record of a key: true when the call was made before.
func (s *Store) Find(key, method string) (Record, bool, error) {
	if err := checkKey(key); err != nil {
		return Record{}, false, err
	}
	at := s.index(key)
	if at < 0 {
		return Record{}, false, nil
	}
	record := s.state.Calls[at]
	if record.Method != method {
		return Record{}, false, fmt.Errorf("%w: %q was a %s", ErrKeyReused, key, record.Method)
	}
	return record, true, nil
}

// CheckTerm refuses a term that is lower than the highest one seen. Term 0 is that of callers among whom nobody
// competes.
func (s *Store) CheckTerm(term uint64) error {
	if term != 0 && term < s.state.Term {
		return fmt.Errorf("%w: %d is lower than %d", ErrStaleTerm, term, s.state.Term)
	}
	return nil
}

// Begin records a new call that Find does not know, together with the intent
// that it sets ("" leaves it). On an error nothing is recorded.
func (s *Store) Begin(key, method string, term uint64, intent Intent) error {
	if err := s.CheckTerm(term); err != nil {
		return err
	}
	next := s.State()
	next.Term = max(next.Term, term)
	if intent != "" {
		next.Intent = intent
	}
	next.Calls = append(next.Calls, Record{Key: key, Method: method, Outcome: Outcome{Phase: Running}})
	for extra := len(next.Calls) - Kept; extra > 0; extra-- {
		// One that runs is not forgotten, or it could be done twice.
		at := slices.IndexFunc(next.Calls, func(r Record) bool { return r.Phase != Running })
		next.Calls = slices.Delete(next.Calls, max(at, 0), max(at, 0)+1)
	}
	if err := s.write(next); err != nil {
		return err
	}
	s.state = next
	return nil
}

// Finish records the outcome of a call that still runs. The outcome stands also
// when it could not be written, which the error says.
func (s *Store) Finish(key string, outcome Outcome) error {
	at := s.index(key)
	if at < 0 || s.state.Calls[at].Phase != Running {
		return nil
	}
	s.state.Calls[at].Outcome = outcome
	return s.write(s.state)
}

// Started counts a start. The count stands also when it could not be written.
func (s *Store) Started() error {
	s.state.Starts++
	return s.write(s.state)
}

// Exited remembers how the process ended, also when it could not be written.
func (s *Store) Exited(how string) error {
	s.state.LastExit = how
	return s.write(s.state)
}

func (s *Store) index(key string) int {
	return slices.IndexFunc(s.state.Calls, func(r Record) bool { return r.Key == key })
}

func (s *Store) write(state State) error {
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("cannot write the process state: %w", err)
	}
	return atomicfile.Write(s.path, data, 0o640)
}

func checkKey(key string) error {
	if !utf8.ValidString(key) || key == "" || utf8.RuneCountInString(key) > maxKey {
		return ErrBadKey
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return ErrBadKey
		}
	}
	return nil
}
