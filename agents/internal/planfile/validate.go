// SPDX-License-Identifier: Apache-2.0

package planfile

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/zeroinfra/agents/internal/checksum"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// version is the plan format that this agent knows.
const version = 1

var (
	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	// element is one part of a path: a secret cannot lead out of its folder.
	element = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)
)

// Signal returns the signal with the name, for example SIGHUP.
func Signal(name string) (syscall.Signal, error) {
	number := unix.SignalNum(name)
	if number == 0 {
		return 0, fmt.Errorf("signal %q is unknown; give a name such as SIGHUP", name)
	}
	return number, nil
}

// validate refuses what could only fail later.
func (d Dirs) validate(p *plan.Plan) error {
	if p.Version != version {
		return fmt.Errorf("version is %d; this agent knows %d", p.Version, version)
	}
	if !checksum.IsDigest(p.Digest) {
		return fmt.Errorf("digest %q is not \"sha256:\" and 64 hexadecimal digits", p.Digest)
	}
	// An older engine does not send it; then every change needs a restart.
	if p.RestartDigest != "" && !checksum.IsDigest(p.RestartDigest) {
		return fmt.Errorf("restartDigest %q is not \"sha256:\" and 64 hexadecimal digits", p.RestartDigest)
	}
	if err := validateProcess(p.Process); err != nil {
		return fmt.Errorf("process: %w", err)
	}
	if err := validateProbe(p.Probe); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if p.TLS != nil && p.TLS.Reload != nil {
		if err := validateReload(*p.TLS.Reload); err != nil {
			return fmt.Errorf("tls: %w", err)
		}
		if len(p.TLS.Reload.Each) > 0 {
			return errors.New("tls: reload has a command for each entry: a certificate is taken over by a signal or a command")
		}
	}
	if err := validateActions(p.Actions); err != nil {
		return err
	}
	if err := d.validateEntities(p); err != nil {
		return err
	}
	for credential := range p.Credentials {
		if !element.MatchString(credential) {
			return fmt.Errorf("credentials: %q is no name of a credential", credential)
		}
	}
	if p.Logs != nil {
		if err := validateLogs(*p.Logs); err != nil {
			return fmt.Errorf("logs: %w", err)
		}
	}
	if p.Writing != nil {
		if err := d.validateWriting(p); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	seen := map[string]bool{}
	for _, file := range p.Files {
		if seen[file.Path] {
			return fmt.Errorf("file %q is there twice", file.Path)
		}
		seen[file.Path] = true
		if err := d.validateFile(file); err != nil {
			return fmt.Errorf("file %q: %w", file.Path, err)
		}
	}
	return nil
}

// validateEntities leaves what the driver knows to the ops agent.
func (d Dirs) validateEntities(p *plan.Plan) error {
	if driver := p.Driver; driver != nil {
		if err := validateTarget(driver); err != nil {
			return fmt.Errorf("driver: %w", err)
		}
		if path := driver.EntitiesFile; path != "" &&
			(filepath.Clean(path) != path || !strings.HasPrefix(path, strings.TrimSuffix(d.Config, "/")+"/")) {
			return fmt.Errorf("driver: file %q is not below %s", path, d.Config)
		}
		for _, ref := range []*plan.SecretRef{driver.Password, driver.Account, driver.CA} {
			if err := validateSecret(ref); err != nil {
				return fmt.Errorf("driver: %w", err)
			}
		}
	}
	for _, entity := range p.Entities {
		if (entity.Kind == "") == (entity.Actions == nil) {
			return fmt.Errorf("entity %q needs one of a kind of the driver and actions", entity.Type)
		}
	}
	return nil
}

// validateTarget: a driver leaves the pod by settings alone, and only where its protocol is of what is never there.
func validateTarget(driver *plan.Driver) error {
	if needs := plan.DriverFor(driver.Protocol).Settings; len(needs) > 0 {
		if has := slices.Sorted(maps.Keys(driver.Settings)); driver.Address != "" || !slices.Equal(has, needs) {
			return fmt.Errorf("protocol %q has the address %q and the settings %s: it needs %s and no address", driver.Protocol,
				driver.Address, has, needs)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(driver.Address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() || len(driver.Settings) > 0 {
		return fmt.Errorf("address %q is not one within the pod", driver.Address)
	}
	return nil
}

func validateLogs(l plan.Logs) error {
	if !filepath.IsAbs(l.Dir) {
		return fmt.Errorf("folder %q is not absolute", l.Dir)
	}
	if len(l.Files) == 0 {
		return errors.New("there are no files")
	}
	for _, name := range l.Files {
		if !element.MatchString(name) {
			return fmt.Errorf("file %q is not the name of a file in the folder", name)
		}
	}
	if l.MaxBytes <= 0 {
		return fmt.Errorf("maxBytes is %d; it must be greater than 0", l.MaxBytes)
	}
	return validateSignals([]string{l.Signal})
}

func validateProcess(p plan.Process) error {
	if err := errors.Join(validateCommand(p.Command), validateEnv(p.Env)); err != nil {
		return err
	}
	if p.Dir != "" && !filepath.IsAbs(p.Dir) {
		return fmt.Errorf("working directory %q is not absolute", p.Dir)
	}
	if err := validateSignals(append(slices.Clone(p.Signals), optional(p.Stop.Signal)...)); err != nil {
		return err
	}
	if err := notNegative(map[string]int{"stop.timeoutSeconds": p.Stop.TimeoutSeconds,
		"backoff.initialMilliseconds": p.Backoff.InitialMilliseconds,
		"backoff.maxSeconds":          p.Backoff.MaxSeconds, "backoff.resetSeconds": p.Backoff.ResetSeconds}); err != nil {
		return err
	}
	if err := validateHooks(p.Hooks); err != nil {
		return err
	}
	if p.Reload == nil {
		return nil
	}
	return validateReload(*p.Reload)
}

func validateHooks(hooks *plan.Hooks) error {
	var errs []error
	for point, hook := range hooks.At() {
		err := errors.Join(validateCommand(hook.Command), validateEnv(hook.Env),
			notNegative(map[string]int{"timeoutSeconds": hook.TimeoutSeconds}))
		if err != nil {
			errs = append(errs, fmt.Errorf("hook %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

func validateReload(r plan.Reload) error {
	given := len(optional(r.Signal))
	for _, command := range [][]string{r.Command, r.Each} {
		if len(command) == 0 {
			continue
		}
		given++
		if err := validateCommand(command); err != nil {
			return fmt.Errorf("reload: %w", err)
		}
	}
	if given != 1 {
		return errors.New("reload needs one of a signal, a command, and a command for each entry")
	}
	return errors.Join(validateSignals(optional(r.Signal)), validateEnv(r.Env),
		notNegative(map[string]int{"reload.timeoutSeconds": r.TimeoutSeconds}))
}

// validateProbe leaves the expressions alone: only the status agent evaluates them. A plan without a probe can still be
// run.
func validateProbe(p plan.Probe) error {
	if h := p.HTTP; h != nil {
		switch {
		case h.Port < 1 || h.Port > 65535:
			return fmt.Errorf("http.port is %d: it must be from 1 to 65535", h.Port)
		case !strings.HasPrefix(h.Path, "/"):
			return fmt.Errorf("http.path is %q: it must begin with /", h.Path)
		}
		if err := notNegative(map[string]int{"http.intervalSeconds": h.IntervalSeconds,
			"http.timeoutSeconds": h.TimeoutSeconds}); err != nil {
			return err
		}
	}
	if len(p.Command) > 0 {
		if err := validateCommand(p.Command); err != nil {
			return err
		}
	}
	return errors.Join(validateEnv(p.Env), notNegative(map[string]int{"intervalSeconds": p.IntervalSeconds,
		"timeoutSeconds": p.TimeoutSeconds, "failureThreshold": p.FailureThreshold}))
}

// validateActions leaves the expressions alone, as validateProbe does: only the ops agent evaluates them.
func validateActions(actions []plan.Action) error {
	seen := map[string]bool{}
	for _, action := range actions {
		if action.Name == "" || seen[action.Name] {
			return fmt.Errorf("action %q has no name of its own", action.Name)
		}
		seen[action.Name] = true
		if err := validateAction(action); err != nil {
			return fmt.Errorf("action %q: %w", action.Name, err)
		}
	}
	return nil
}

func validateAction(action plan.Action) error {
	words := slices.Clone(action.Command)
	for _, v := range action.Env {
		words = append(words, v.Value)
	}
	run := validateCommand(action.Command)
	if action.Query != nil {
		words = append(words, action.Query.Arguments...)
		run = validateQuery(action)
	}
	err := errors.Join(run, validateEnv(action.Env), notNegative(map[string]int{"timeoutSeconds": action.TimeoutSeconds}))
	for _, word := range words {
		name, ok := plan.ParameterOf(word)
		if _, declared := action.Parameters[name]; ok && !declared {
			err = errors.Join(err, fmt.Errorf("%s stands for a parameter that is not declared", word))
		}
	}
	return err
}

func validateQuery(action plan.Action) error {
	switch {
	case len(action.Command) > 0 || len(action.Env) > 0:
		return errors.New("it has a query and a command with its environment; give one")
	case action.Query.Statement == "":
		return errors.New("the statement of the query is empty")
	}
	return nil
}

func validateCommand(command []string) error {
	if len(command) == 0 || command[0] == "" {
		return errors.New("the command is empty")
	}
	for _, arg := range command {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("argument %q of the command has a NUL byte", arg)
		}
	}
	return nil
}

func validateEnv(vars []plan.EnvVar) error {
	for _, v := range vars {
		if !envName.MatchString(v.Name) {
			return fmt.Errorf("environment variable %q has no valid name", v.Name)
		}
		if strings.ContainsRune(v.Value, 0) {
			return fmt.Errorf("environment variable %q has a NUL byte", v.Name)
		}
		if v.Secret != nil && v.Value != "" {
			return fmt.Errorf("environment variable %q has a value and a secret; give one", v.Name)
		}
		if err := validateSecret(v.Secret); err != nil {
			return fmt.Errorf("environment variable %q: %w", v.Name, err)
		}
	}
	return nil
}

func validateSecret(ref *plan.SecretRef) error {
	if ref != nil && (!element.MatchString(ref.Credential) || !element.MatchString(ref.Key)) {
		return fmt.Errorf("secret %q/%q is not a credential and a key", ref.Credential, ref.Key)
	}
	return nil
}

func validateSignals(names []string) error {
	for _, name := range names {
		if _, err := Signal(name); err != nil {
			return err
		}
	}
	return nil
}

func (d Dirs) validateFile(file plan.File) error {
	below := strings.TrimSuffix(d.Config, "/") + "/"
	if filepath.Clean(file.Path) != file.Path || !strings.HasPrefix(file.Path, below) {
		return fmt.Errorf("the path must be absolute and below %s", below)
	}
	if !slices.Contains(configfile.Formats(), file.Format) {
		return fmt.Errorf("format %q is unknown; known are %v", file.Format, configfile.Formats())
	}
	if _, err := fileMode(file.Mode); err != nil {
		return err
	}
	for _, entry := range file.Entries {
		if err := validateSecret(entry.Secret); err != nil {
			return fmt.Errorf("setting %q: %w", entry.Key, err)
		}
	}
	return nil
}

// fileMode reads an octal mode; "" is 0600.
func fileMode(text string) (os.FileMode, error) {
	if text == "" {
		return 0o600, nil
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 || mode&0o400 == 0 {
		return 0, fmt.Errorf("mode %q is not octal between 0400 and 0777 and readable by its owner", text)
	}
	return os.FileMode(mode), nil
}

func optional(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

func notNegative(values map[string]int) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] < 0 {
			errs = append(errs, fmt.Errorf("%s is %d; it cannot be negative", name, values[name]))
		}
	}
	return errors.Join(errs...)
}
