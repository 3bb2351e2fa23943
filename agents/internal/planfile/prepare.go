// SPDX-License-Identifier: Apache-2.0

package planfile

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
		return "", fmt.Errorf("cannot read secret %s/%s: %w; does the pod mount the credential, and has it the key?",
			ref.Credential, ref.Key, err)
	}
	return string(data), nil
}

// outdated names a credential of the plan that the pod mounts another password of. The kubelet swaps password and
// revision at once, so that the revision that is read before the password is never newer.
func (d Dirs) outdated(p *plan.Plan) string {
	for _, credential := range slices.Sorted(maps.Keys(p.Credentials)) {
		revision, err := d.Secret(plan.SecretRef{Credential: credential, Key: plan.RevisionFile})
		if err != nil || revision != p.Credentials[credential] {
			return credential
		}
	}
	return ""
}

// Environ returns the base environment with the variables of an expanded plan added; secrets are looked up now.
func Environ(base []string, vars []plan.EnvVar, secret configfile.Lookup) ([]string, error) {
	added := make(map[string]bool, len(vars))
	for _, v := range vars {
		added[v.Name] = true
	}
	var all []string
	for _, assignment := range base {
		name, _, _ := strings.Cut(assignment, "=")
		if !added[name] {
			all = append(all, assignment)
		}
	}
	for _, v := range vars {
		value := v.Value
		if v.Secret != nil {
			var err error
			if value, err = secret(*v.Secret); err != nil {
				return nil, fmt.Errorf("environment variable %q: %w", v.Name, err)
			}
			if strings.ContainsRune(value, 0) {
				return nil, fmt.Errorf("environment variable %q: the secret has a NUL byte", v.Name)
			}
		}
		all = append(all, v.Name+"="+value)
	}
	return all, nil
}

// Prepared is a plan with everything read that carrying it out needs, so that
// what can fail has failed before anything running is touched.
type Prepared struct {
	// Source is the plan as it came, to prepare it again from.
	Source *plan.Plan
	// Plan is the same with what is true of this pod filled in.
	Plan *plan.Plan
	// Environ of the process.
	Environ []string
	// Args are appended to the command of the process, by what it is to be.
	Args []string
	// ReloadEnviron is the environment of the reload command.
	ReloadEnviron []string
	// RenewEnviron is the environment of the command that has the process take over its certificate.
	RenewEnviron []string
	// HookEnvirons are the environments of the hooks that there are.
	HookEnvirons map[plan.HookPoint][]string
	// Dynamic are the dynamic entries of the files, in order, with their secrets.
	Dynamic []Setting

	// Outdated names a credential whose password is not the one that the plan asks for; "" when all are.
	Outdated string

	files []content
	// secrets are all that were read, and known the same by reference.
	secrets []string
	known   map[plan.SecretRef]string
}

// Secret is the value that the process was started with, or what is mounted where it was started without.
func (p *Prepared) Secret(d Dirs) configfile.Lookup {
	return func(ref plan.SecretRef) (string, error) {
		if value, known := p.known[ref]; known {
			return value, nil
		}
		return d.Secret(ref)
	}
}

// Setting is a dynamic entry as a reload command gets it.
type Setting struct {
	// File is the path of the entry's file.
	File string
	// Key of the entry.
	Key string
	// Value is the arguments, joined by blanks.
	Value string
}

// content is one file ready to be written.
type content struct {
	path string
	data []byte
	mode os.FileMode
}

// Prepare encodes the files and reads all secrets of a plan. A secret that is there more than once is read once.
func (d Dirs) Prepare(p *plan.Plan) (*Prepared, error) {
	here, err := d.Expand(p)
	if err != nil {
		return nil, err
	}
	prepared := &Prepared{Source: p, Plan: here, Outdated: d.outdated(here)}
	secret := prepared.remember(d.Secret)
	if prepared.Environ, err = Environ(os.Environ(), here.Process.Env, secret); err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	if reload := here.Process.Reload; reload != nil {
		if prepared.ReloadEnviron, err = Environ(os.Environ(), reload.Env, secret); err != nil {
			return nil, fmt.Errorf("reload: %w", err)
		}
	}
	if here.TLS != nil && here.TLS.Reload != nil {
		if prepared.RenewEnviron, err = Environ(os.Environ(), here.TLS.Reload.Env, secret); err != nil {
			return nil, fmt.Errorf("tls: reload: %w", err)
		}
	}
	prepared.HookEnvirons = map[plan.HookPoint][]string{}
	for point, hook := range here.Process.Hooks.At() {
		if prepared.HookEnvirons[point], err = Environ(os.Environ(), hook.Env, secret); err != nil {
			return nil, fmt.Errorf("hook %s: %w", point, err)
		}
	}
	for _, file := range here.Files {
		if err := prepared.addFile(file, secret); err != nil {
			return nil, fmt.Errorf("file %q: %w", file.Path, err)
		}
	}
	return prepared, nil
}

// PrepareAction reads what running an action needs: its environment, with a function that takes its secrets out of a
// text.
func PrepareAction(env []plan.EnvVar, secret configfile.Lookup) (environment []string, redacted func(string) string,
	err error) {
	var prepared Prepared
	environment, err = Environ(os.Environ(), env, prepared.remember(secret))
	return environment, prepared.Redact, err
}

// remember keeps what the lookup finds.
func (p *Prepared) remember(lookup configfile.Lookup) configfile.Lookup {
	p.known = map[plan.SecretRef]string{}
	return func(ref plan.SecretRef) (string, error) {
		if value, found := p.known[ref]; found {
			return value, nil
		}
		value, err := lookup(ref)
		if err != nil {
			return "", err
		}
		p.known[ref] = value
		p.secrets = append(p.secrets, value)
		return value, nil
	}
}

func (p *Prepared) addFile(file plan.File, secret configfile.Lookup) error {
	data, err := configfile.Encode(file.Format, file.Entries, secret)
	if err != nil {
		return err
	}
	mode, err := fileMode(file.Mode)
	if err != nil {
		return err
	}
	p.files = append(p.files, content{path: file.Path, data: data, mode: mode})
	for _, entry := range file.Entries {
		if !entry.Dynamic {
			continue
		}
		args := entry.Args
		if entry.Secret != nil {
			value, err := secret(*entry.Secret)
			if err != nil {
				return err
			}
			args = append(slices.Clone(args), value)
		}
		p.Dynamic = append(p.Dynamic, Setting{File: file.Path, Key: entry.Key, Value: strings.Join(args, " ")})
	}
	return nil
}

// Redact puts *** in the place of every secret of the plan, as it is and as a quoted text would have it.
func (p *Prepared) Redact(text string) string {
	var forms []string
	for _, secret := range p.secrets {
		quoted := strconv.Quote(secret)
		forms = append(forms, secret, strings.TrimSpace(secret), quoted[1:len(quoted)-1])
	}
	// The longest first: a secret may be a part of another.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		if form != "" {
			text = strings.ReplaceAll(text, form, "***")
		}
	}
	return text
}

// Redact puts *** in the place of every password that the pod mounts. A process may know more of them than the plan has
// it be given.
func (d Dirs) Redact(text string) string {
	var mounted Prepared
	// The pattern is a good one.
	paths, _ := filepath.Glob(filepath.Join(d.Secrets, "*", "password"))
	for _, path := range paths {
		// One that cannot be read now is known to nobody.
		if data, err := os.ReadFile(path); err == nil {
			mounted.secrets = append(mounted.secrets, string(data))
		}
	}
	return mounted.Redact(text)
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
		if err := atomicfile.Remove(file.path); err != nil {
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
