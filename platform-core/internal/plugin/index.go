// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// State is what the Index knows of one version of a plugin.
type State struct {
	// Name and Version of the plugin.
	Name    string
	Version string
	// Bundle that is usable; nil when none was ever accepted. It stays while a later
	// change of the same version is refused.
	Bundle *Bundle
	// Errors that had the latest change refused; empty when it was accepted.
	Errors []LoadError
	// Missing parts, in fixed order.
	Missing []Part
}

// Unusable says why there is nothing to go by for what was made from a version of a plugin, and what mends that.
func Unusable(name, version string, state State) string {
	if len(state.Errors) > 0 && len(state.Missing) == 0 {
		return fmt.Sprintf("plugin %s version %s is refused by this operator: %s; install a later version that takes over "+
			"from it; the pods are left alone",
			name, version, state.Errors[0])
	}
	return fmt.Sprintf("plugin %s version %s is gone or broken: install it again; the pods are left alone", name, version)
}

// Index holds the loaded bundles. It is safe for concurrent use; the zero value is empty and ready.
type Index struct {
	mu     sync.RWMutex
	states map[indexKey]State
}

type indexKey struct{ name, version string }

func keyOf(name, version string) indexKey {
	return indexKey{name, platformv1.CanonicalPluginVersion(version)}
}

// NewIndex returns an empty Index.
func NewIndex() *Index { return &Index{} }

// Set records the outcome of Load for one version of a plugin. A bundle that was accepted earlier
// stays: a change that is broken, or that has another digest, is recorded as Errors and not used.
func (i *Index) Set(name, version string, bundle *Bundle, errs []LoadError) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := keyOf(name, version)
	state := State{Name: name, Version: key.version, Bundle: i.states[key].Bundle, Errors: slices.Clone(errs)}
	for _, err := range errs {
		if err.Missing != "" {
			state.Missing = append(state.Missing, err.Missing)
		}
	}
	switch {
	case bundle == nil:
	case state.Bundle == nil:
		state.Bundle = bundle
	case state.Bundle.Digest != bundle.Digest:
		state.Errors = append(state.Errors, LoadError{
			File: SourceName(name, PartManifest, version),
			Message: fmt.Sprintf("version %q is already loaded with digest %s and cannot change to %s: give the changed "+
				"plugin a new version",
				version, state.Bundle.Digest, bundle.Digest),
		})
	}
	if i.states == nil {
		i.states = map[indexKey]State{}
	}
	i.states[key] = state
}

// Delete forgets one version of a plugin, when its ConfigMaps are gone.
func (i *Index) Delete(name, version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.states, keyOf(name, version))
}

// Get returns what is known of one version of a plugin, which may have a leading v.
func (i *Index) Get(name, version string) (State, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	state, ok := i.states[keyOf(name, version)]
	return state, ok
}

// List returns all states in order of name and version.
func (i *Index) List() []State {
	i.mu.RLock()
	defer i.mu.RUnlock()
	states := make([]State, 0, len(i.states))
	for _, state := range i.states {
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return states
}
