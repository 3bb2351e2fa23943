// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/planfile"
)

// effects are the dynamic settings as the running process has them. After a reload that failed half-way that is neither
// what the plan before says nor what the new one says, and the next reload goes on from there.
type effects map[name]effect

// name of a setting: its file and key.
type name struct{ file, key string }

type effect struct {
	// values are more than one where the key is there more than once.
	values []string
	// doubtful says that a command failed: the setting is to be given again, whatever its value.
	doubtful bool
}

// change is a setting to be given to the process.
type change struct {
	planfile.Setting
	// gone says that the plan has it no more: the value is the one that the process has without it.
	gone bool
}

func effectsOf(settings []planfile.Setting) effects {
	e := effects{}
	for _, setting := range settings {
		id := name{setting.File, setting.Key}
		e[id] = effect{values: append(e[id].values, setting.Value)}
	}
	return e
}

// changes are the settings to give to the process so that it has all of the wanted ones and no other: those that are
// gone, which get their initial value, and then the others in their order.
func (e effects) changes(wanted []planfile.Setting, initial map[string]string) ([]change, error) {
	next := effectsOf(wanted)
	var changed []change
	for _, id := range slices.SortedFunc(maps.Keys(e), name.compare) {
		if _, stays := next[id]; stays {
			continue
		}
		value, known := initial[id.key]
		if !known {
			return nil, fmt.Errorf("setting %q is gone from file %q, and what it was before is not known; %w", id.key, id.file,
				ErrRestartRequired)
		}
		changed = append(changed, change{Setting: planfile.Setting{File: id.file, Key: id.key, Value: value}, gone: true})
	}
	for _, setting := range wanted {
		id := name{setting.File, setting.Key}
		has, known := e[id]
		values := next[id].values
		if known && !has.doubtful && slices.Equal(has.values, values) {
			continue
		}
		if len(values) > 1 || len(has.values) > 1 {
			return nil, fmt.Errorf(
				"setting %q is more than once in file %q, and a command for each would keep the last only; %w", id.key, id.file,
				ErrRestartRequired)
		}
		changed = append(changed, change{Setting: setting})
	}
	return changed, nil
}

// record takes in how far a reload came with its changes.
func (e effects) record(changed []change, how reloaded) {
	for _, setting := range changed[:how.taken] {
		id := name{setting.File, setting.Key}
		if setting.gone {
			delete(e, id)
			continue
		}
		e[id] = effect{values: []string{setting.Value}}
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
	return maps.EqualFunc(e, other, func(a, b effect) bool {
		return a.doubtful == b.doubtful && slices.Equal(a.values, b.values)
	})
}

func (n name) compare(other name) int {
	if c := strings.Compare(n.file, other.file); c != 0 {
		return c
	}
	return strings.Compare(n.key, other.key)
}
