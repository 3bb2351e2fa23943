// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
)

// TargetMethod says what a RestoreMethod takes to go on to a point in time. Its command finds the target, with the
// parameters, in the variable RESTORE_TARGET (mover.Target), and each credential as /zeroinfra/secrets/<name>/password.
// It ends with mover.ExitOutOfRange, after a sentence that says what can be reached, where the target cannot be.
type TargetMethod struct {
	// Parameters that say where the logs are, by name.
	Parameters map[string]TargetParameter `json:"parameters,omitempty"`
	// Credentials that open that place.
	Credentials []TargetCredential `json:"credentials,omitempty"`
}

// TargetParameter is one parameter of a target.
type TargetParameter struct {
	// Schema is the CUE constraint of its text.
	Schema string `json:"schema"`
	// Description in one line.
	Description string `json:"description,omitempty"`
	// Optional says that it can be left out.
	Optional bool `json:"optional,omitempty"`
}

// TargetCredential is one credential of a target.
type TargetCredential struct {
	// Name of it.
	Name string `json:"name"`
	// Description in one line.
	Description string `json:"description,omitempty"`
	// Optional says that it can be left out.
	Optional bool `json:"optional,omitempty"`
}

// Check says whether a target has what the method takes, and nothing else; the error is a sentence. Where the target
// names a BackupRepository, the engine says by the archive of the component where the logs are, and the target says
// nothing more of that.
func (m *TargetMethod) Check(target *platformv1.RestoreTarget, archive *Archive) error {
	if target.RepositoryRef != nil {
		return aloneIn(target, archive)
	}
	for _, name := range slices.Sorted(maps.Keys(target.Parameters)) {
		p, known := m.Parameters[name]
		if !known {
			return fmt.Errorf("there is no parameter %q: there are %s", name,
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(m.Parameters)), ", "), "none"))
		}
		if err := constraint.CheckText(p.Schema, string(target.Parameters[name])); err != nil {
			return fmt.Errorf("parameter %q %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Parameters)) {
		if _, given := target.Parameters[name]; !given && !m.Parameters[name].Optional {
			return fmt.Errorf("parameter %q is missing: %s", name, m.Parameters[name].Description)
		}
	}
	var known, given []string
	for _, c := range m.Credentials {
		known = append(known, c.Name)
	}
	for _, c := range target.Credentials {
		given = append(given, c.Name)
	}
	for _, name := range given {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no credential %q: there are %s", name, cmp.Or(strings.Join(known, ", "), "none"))
		}
	}
	for _, c := range m.Credentials {
		if !c.Optional && !slices.Contains(given, c.Name) {
			return fmt.Errorf("credential %q is missing: %s", c.Name, c.Description)
		}
	}
	return nil
}

// aloneIn says what a target has beside its BackupRepository: all that a method takes is for the place of the logs,
// which that has.
func aloneIn(target *platformv1.RestoreTarget, archive *Archive) error {
	if archive == nil {
		return fmt.Errorf("this version of the plugin finds no logs in a BackupRepository: take repositoryRef out, and say " +
			"by parameters where they are")
	}
	if names := slices.Sorted(maps.Keys(target.Parameters)); len(names) > 0 {
		return fmt.Errorf("parameter %q says where the logs are, and repositoryRef does so, too: take one of them out",
			names[0])
	}
	if len(target.Credentials) > 0 {
		return fmt.Errorf("credential %q is for logs that parameters lead to, and repositoryRef says where they are: take "+
			"one of them out", target.Credentials[0].Name)
	}
	return nil
}
