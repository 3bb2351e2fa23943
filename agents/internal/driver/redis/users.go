// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver"
)

// Parameters of a user.
const (
	// parameterEnabled: "yes" or "no".
	parameterEnabled = "enabled"
	// parameterKeys: patterns such as ~app:* and %R~shared:*, with blanks between them.
	parameterKeys = "keys"
	// parameterChannels: patterns such as &news.*, with blanks between them.
	parameterChannels = "channels"
	// parameterCommands: rules such as +@read -keys, with blanks between them.
	parameterCommands = "commands"
)

// nothing is how Redis says that a user may run no command; what is allowed is added after it.
const nothing = "-@all"

// denied is what no user may run, whatever its commands say: with these it would be past the engine, which sets the
// users, the configuration, who copies from whom, who is in a cluster and owns which slots, and when there is a
// snapshot. Who passes for a replica reads every key, whatever its patterns say, and what it acknowledges counts for
// WAIT. What clients of a cluster ask it, such as CLUSTER SLOTS, is not here.
var denied = []string{
	"-acl", "-config", "-replicaof", "-slaveof", "-failover", "-module", "-debug", "-shutdown", "-bgrewriteaof", "-save",
	"-bgsave",
	"-sync", "-psync", "-replconf",
	"-cluster|reset", "-cluster|replicate", "-cluster|failover", "-cluster|forget", "-cluster|meet", "-cluster|setslot",
	"-cluster|addslots",
	"-cluster|addslotsrange", "-cluster|delslots", "-cluster|delslotsrange", "-cluster|flushslots", "-cluster|bumpepoch",
	"-cluster|set-config-epoch", "-cluster|saveconfig",
}

// notKept stands among the commands of a user whom a restarted Redis would not have as it is.
const notKept = "(not kept for a restart)"

// defaultUser is the one that the plugin's own password is of.
const defaultUser = "default"

// digestOf is how Redis keeps a password.
func digestOf(password string) string {
	sum := sha256.Sum256([]byte(password))
	return "#" + hex.EncodeToString(sum[:])
}

var digest = regexp.MustCompile(`#[0-9a-f]{64}`)

// withoutDigests takes digests of passwords out of what Redis says.
func withoutDigests(text string) string { return digest.ReplaceAllString(text, "#***") }

// statesOf reads those lines of ACL LIST that are asked for.
func statesOf(lines []string, queries []driver.Query) ([]driver.State, error) {
	asked := make(map[string]driver.Query, len(queries))
	for _, query := range queries {
		asked[query.Name] = query
	}
	var states []driver.State
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "user" {
			return nil, errors.New("cannot read the list of users: Redis lists them in another form than this agent knows")
		}
		if query, ok := asked[words[1]]; ok {
			states = append(states, stateOf(query, words[2:]))
		}
	}
	return states, nil
}

// stateOf reads the rules of one user. What the parameters have no word for, such as a selector, is told among the
// commands, so that it is seen to be there.
func stateOf(query driver.Query, rules []string) driver.State {
	enabled := "no"
	var passwords, keys, channels, commands []string
	for _, rule := range rules {
		switch {
		case rule == "on":
			enabled = "yes"
		case rule == "off", rule == "resetchannels", rule == "sanitize-payload":
		case rule == "nopass", strings.HasPrefix(rule, "#"):
			passwords = append(passwords, rule)
		case strings.HasPrefix(rule, "~"), strings.HasPrefix(rule, "%"):
			keys = append(keys, rule)
		case strings.HasPrefix(rule, "&"):
			channels = append(channels, rule)
		case rule == nothing && len(commands) == 0:
		default:
			commands = append(commands, rule)
		}
	}
	state := driver.State{Name: query.Name, Password: driver.SamePassword, Parameters: map[string]string{
		parameterEnabled: enabled, parameterKeys: strings.Join(keys, " "),
		parameterChannels: strings.Join(channels, " "), parameterCommands: strings.Join(commands, " "),
	}}
	if !slices.Equal(passwords, []string{digestOf(query.Password)}) {
		state.Password = driver.OtherPassword
	}
	return state
}

// commandOf returns the command that makes a change, and the directive that a restarted Redis makes the user by; empty
// for one that is gone.
func commandOf(change driver.Change) (command []any, directive string, err error) {
	if err := checkName(change.Name); err != nil {
		return nil, "", err
	}
	if change.Intent == driver.Delete {
		return []any{"ACL", "DELUSER", change.Name}, "", nil
	}
	rules, err := rulesOf(change)
	if err != nil {
		return nil, "", err
	}
	// What the user had before goes, in the same command.
	command = []any{"ACL", "SETUSER", change.Name, "reset"}
	for _, rule := range rules {
		command = append(command, rule)
	}
	return command, "user " + change.Name + " " + strings.Join(rules, " "), nil
}

func checkName(name string) error {
	switch {
	case name == defaultUser:
		return errors.New("the user \"default\" is the instance's own: take another name")
	case name == "" || strings.ContainsFunc(name,
		func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\'' || r == '\\' }):
		return fmt.Errorf("%q is no name of a user: it must be letters, digits and signs, without blanks and quotes", name)
	}
	return nil
}

func rulesOf(change driver.Change) ([]string, error) {
	var rules []string
	for _, name := range slices.Sorted(maps.Keys(change.Parameters)) {
		value := change.Parameters[name]
		if strings.ContainsAny(value, "\n\r\x00\"'\\") {
			return nil, fmt.Errorf("parameter %q has a quote, a backslash or a line break: leave it out", name)
		}
		var begins string
		switch name {
		case parameterEnabled:
			if value != "yes" && value != "no" {
				return nil, fmt.Errorf("parameter %q is %q: it must be yes or no", name, value)
			}
			continue
		case parameterKeys:
			begins = "~%"
		case parameterChannels:
			begins = "&"
		case parameterCommands:
			begins = "+-"
		default:
			return nil, fmt.Errorf("parameter %q is not known: known are %s, %s, %s and %s", name, parameterEnabled,
				parameterKeys, parameterChannels, parameterCommands)
		}
		for _, word := range strings.Fields(value) {
			if !strings.Contains(begins, word[:1]) {
				return nil, fmt.Errorf("parameter %q has the word %q: each must begin with one of %s", name, word, begins)
			}
			rules = append(rules, word)
		}
	}
	// The commands last: as Redis applies them in order, nothing else comes between them.
	slices.SortStableFunc(rules, func(a, b string) int { return rank(a) - rank(b) })
	first := []string{"off", "resetchannels"}
	if change.Parameters[parameterEnabled] == "yes" {
		first[0] = "on"
	}
	if change.Password != "" {
		first = append(first, digestOf(change.Password))
	}
	return slices.Concat(first, rules, denied), nil
}

func rank(rule string) int { return strings.IndexByte("~%&+-", rule[0]) / 3 }

// kept returns the directives of the users that are kept, by name.
func (d *Driver) kept() (map[string]string, error) {
	kept := map[string]string{}
	if d.options.UsersFile == "" {
		return kept, nil
	}
	data, err := os.ReadFile(d.options.UsersFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the users that are kept: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 1 {
			kept[words[1]] = strings.TrimSuffix(line, "\n")
		}
	}
	return kept, nil
}

// noteNotKept tells of users whom a restarted Redis would not have, or with another password or more than they may
// have.
func (d *Driver) noteNotKept(states []driver.State, queries []driver.Query) error {
	if d.options.UsersFile == "" {
		return nil
	}
	kept, err := d.kept()
	if err != nil {
		return err
	}
	passwords := make(map[string]string, len(queries))
	for _, query := range queries {
		passwords[query.Name] = query.Password
	}
	for _, state := range states {
		directive, password := kept[state.Name], passwords[state.Name]
		// Where the user has another password, so may the file: that is one thing to tell, not two.
		stale := password != "" && state.Password == driver.SamePassword &&
			!strings.Contains(directive, " "+digestOf(password)+" ")
		if stale || !strings.HasSuffix(directive, " "+strings.Join(denied, " ")) {
			state.Parameters[parameterCommands] = strings.TrimSpace(state.Parameters[parameterCommands] + " " + notKept)
		}
	}
	return nil
}

// keep writes down what the users are made of at the next start. The directives are by name; empty for one that is
// gone.
func (d *Driver) keep(directives map[string]string) error {
	if d.options.UsersFile == "" || len(directives) == 0 {
		return nil
	}
	kept, err := d.kept()
	if err != nil {
		return err
	}
	maps.Copy(kept, directives)
	var file bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if kept[name] != "" {
			file.WriteString(kept[name] + "\n")
		}
	}
	if err := os.MkdirAll(filepath.Dir(d.options.UsersFile), 0o750); err != nil {
		return fmt.Errorf("cannot keep the users: %w", err)
	}
	return atomicfile.Write(d.options.UsersFile, file.Bytes(), 0o600)
}
