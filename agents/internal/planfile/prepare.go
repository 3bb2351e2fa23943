// SPDX-License-Identifier: Apache-2.0

package planfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Secret reads the value of a mounted credential as it is now.
func (d Dirs) Secret(ref plan.SecretRef) (string, error) {
	data, err := os.ReadFile(filepath.Join(d.Secrets, ref.Credential, ref.Key))
	if err != nil {
		return "", fmt.Errorf("cannot read secret %s/%s: %w; does the pod mount the credential, and has it the key?", ref.Credential, ref.Key, err)
	}
	return string(data), nil
}

// Environ returns the base environment with the variables of a plan added; secrets are read now.
func (d Dirs) Environ(base []string, vars []plan.EnvVar) ([]string, error) {
	added := make(map[string]bool, len(vars))
	for _, v := range vars {
		added[v.Name] = true
	}
	var environ []string
	for _, assignment := range base {
		name, _, _ := strings.Cut(assignment, "=")
		if !added[name] {
			environ = append(environ, assignment)
		}
	}
	for _, v := range vars {
		value := v.Value
		if v.Secret != nil {
			var err error
			if value, err = d.Secret(*v.Secret); err != nil {
				return nil, fmt.Errorf("environment variable %q: %w", v.Name, err)
			}
			if strings.ContainsRune(value, 0) {
				return nil, fmt.Errorf("environment variable %q: the secret has a NUL byte", v.Name)
			}
		}
		environ = append(environ, v.Name+"="+value)
	}
	return environ, nil
}

// Prepared is a plan with everything read that carrying it out needs, so that
// what can fail has failed before anything running is touched.
type Prepared struct {
	// Plan that was prepared.
	Plan *plan.Plan
	// Environ of the process.
	Environ []string
	// ReloadEnviron is the environment of the reload command.
	ReloadEnviron []string

	files []content
}

// content is one file ready to be written.
type content struct {
	path string
	data []byte
	mode os.FileMode
}

// Prepare encodes the files and reads all secrets of a plan.
func (d Dirs) Prepare(p *plan.Plan) (*Prepared, error) {
	prepared := &Prepared{Plan: p}
	var err error
	if prepared.Environ, err = d.Environ(os.Environ(), p.Process.Env); err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	if p.Process.Reload != nil {
		if prepared.ReloadEnviron, err = d.Environ(os.Environ(), p.Process.Reload.Env); err != nil {
			return nil, fmt.Errorf("reload: %w", err)
		}
	}
	for _, file := range p.Files {
		data, err := configfile.Encode(file.Format, file.Entries, d.Secret)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", file.Path, err)
		}
		mode, err := fileMode(file.Mode)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", file.Path, err)
		}
		prepared.files = append(prepared.files, content{path: file.Path, data: data, mode: mode})
	}
	return prepared, nil
}

// Write writes the files and removes those of the plan before that this one has no more.
func (p *Prepared) Write(before *Prepared) error {
	kept := map[string]bool{}
	for _, file := range p.files {
		kept[file.path] = true
		if err := os.MkdirAll(filepath.Dir(file.path), 0o750); err != nil {
			return fmt.Errorf("cannot write file %q: %w", file.path, err)
		}
		if err := atomicfile.Write(file.path, file.data, file.mode); err != nil {
			return err
		}
	}
	if before == nil {
		return nil
	}
	for _, file := range before.files {
		if kept[file.path] {
			continue
		}
		if err := os.Remove(file.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot remove file %q of the plan before: %w", file.path, err)
		}
	}
	return nil
}

// Seconds returns the duration, or the default when it is 0.
func Seconds(seconds, byDefault int) time.Duration {
	if seconds == 0 {
		seconds = byDefault
	}
	return time.Duration(seconds) * time.Second
}
