// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/planfile"
)

// effects are the dynamic settings as the running process has them. After a reload that failed half-way that is neither what
// the plan before says nor what the new one says, and the next reload goes on from there.
type effects map[name]effect

// name of a setting: its file and key.
type name struct{ file, key string }

type effect struct {
	// values are more than one where the key is there more than once.
	values []string
	// doubtful says that a command failed: the setting is to be given again, whatever its value.
	doubtful bool
}

func effectsOf(settings []planfile.Setting) effects {
	e := effects{}
	for _, setting := range settings {
		id := name{setting.File, setting.Key}
		e[id] = effect{values: append(e[id].values, setting.Value)}
	}
	return e
}

// changes are the settings to give to the process so that it has all of the wanted ones, in their order.
func (e effects) changes(wanted []planfile.Setting) ([]planfile.Setting, error) {
	next := effectsOf(wanted)
	for _, id := range slices.SortedFunc(maps.Keys(e), name.compare) {
		if _, stays := next[id]; !stays {
			return nil, fmt.Errorf("setting %q is gone from file %q, and what it was before is not known; %w", id.key, id.file, ErrRestartRequired)
		}
	}
	var changed []planfile.Setting
	for _, setting := range wanted {
		id := name{setting.File, setting.Key}
		has, known := e[id]
		values := next[id].values
		if known && !has.doubtful && slices.Equal(has.values, values) {
			continue
		}
		if len(values) > 1 || len(has.values) > 1 {
			return nil, fmt.Errorf("setting %q is more than once in file %q, and a command for each would keep the last only; %w", id.key, id.file, ErrRestartRequired)
		}
		changed = append(changed, setting)
	}
	return changed, nil
}

// record takes in how far a reload came with its changes.
func (e effects) record(changed []planfile.Setting, how reloaded) {
	for _, setting := range changed[:how.taken] {
		e[name{setting.File, setting.Key}] = effect{values: []string{setting.Value}}
	}
	if how.taken == len(changed) {
		return
	}
	failed := name{changed[how.taken].File, changed[how.taken].Key}
	before, known := e[failed]
	// A new setting that the command refused is not there; one that was there may have any of the two values.
	if known || inDoubt(how.err) {
		before.doubtful = true
		e[failed] = before
	}
}

func (e effects) equal(other effects) bool {
	return maps.EqualFunc(e, other, func(a, b effect) bool { return a.doubtful == b.doubtful && slices.Equal(a.values, b.values) })
}

func (n name) compare(other name) int {
	if c := strings.Compare(n.file, other.file); c != 0 {
		return c
	}
	return strings.Compare(n.key, other.key)
}
