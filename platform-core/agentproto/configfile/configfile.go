// SPDX-License-Identifier: Apache-2.0

// Package configfile writes settings in the syntax of a middleware's
// configuration file. Its one promise: a value is always just a value. Whatever
// bytes it has, the reader of the format gets the same bytes back and never
// another key, line or section; what a format cannot hold is refused.
//
// Every value is a string, also in json and yaml, where several values of one
// key become a list of strings.
//
//	format      one line                 values per key   key repeated   section.key
//	redis       key "value" "value"      1 or more        yes            no
//	properties  key=value                1                no             no
//	env         KEY='value'              1                no             no
//	json        "key": "value"           1, or a list     no             no
//	yaml        key: "value"             1, or a list     no             at every dot
//	ini         key = "value"            0 or 1           yes            at the first dot
//	mysql       key = "value"            0 or 1           yes            no
//	postgresql  key = 'value'            1                no             no
//	nginx       key "value" "value";     any number       yes            no
//	text        value                    1 or more        yes            no
//
// The env format is that of a POSIX shell, the ini format that of MySQL's option files, and mysql
// such a file with the section of the server alone, the nginx format that of simple
// directives, outside of any block of the same file. nginx knows no escape for a dollar sign, so that a value with one
// is refused.
//
// The text format is the exception to the promise: its values are whole lines, its keys only say what they are about.
// It is for text that is fixed, such as the frame that other files are included in; nothing that a user wrote may be
// put there.
//
// The package imports the standard library only, so that both sides can use it.
package configfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Lookup gives the value of a secret.
type Lookup func(plan.SecretRef) (string, error)

// setting is an Entry with its secret resolved.
type setting struct {
	key  string
	args []string
}

// syntax is what tells one format from another.
type syntax struct {
	// key is what a key must look like.
	key *regexp.Regexp
	// minArgs and maxArgs bound the number of values; maxArgs 0 is no bound.
	minArgs, maxArgs int
	// repeats says whether a key may be there more than once.
	repeats repetition
	// check refuses a value that the format cannot hold.
	check func(value string) error
	// noSecret says why an entry cannot have a secret; empty where it can.
	noSecret string
	// write gives the file's content; settings are checked.
	write func([]setting) ([]byte, error)
}

// repetition says whether a key may be there more than once.
type repetition int

const (
	once repetition = iota
	often
)

var syntaxes = map[plan.Format]syntax{
	plan.FormatRedis: {key: regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`), minArgs: 1, repeats: often,
		check: withoutNUL, write: writeRedis},
	plan.FormatProperties: {key: regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`), minArgs: 1, maxArgs: 1, check: validUTF8,
		write: writeProperties},
	plan.FormatEnv: {key: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), minArgs: 1, maxArgs: 1, check: withoutNUL,
		write: writeEnv},
	plan.FormatJSON: {key: regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`), minArgs: 1, check: validUTF8,
		write: writeJSON},
	plan.FormatYAML: {key: regexp.MustCompile(`^[A-Za-z0-9_/-]+(\.[A-Za-z0-9_/-]+)*$`), minArgs: 1, check: validUTF8,
		write: writeYAML},
	plan.FormatINI: {key: regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`),
		maxArgs: 1, repeats: often, check: withoutNUL, write: writeINI},
	plan.FormatMySQL: {key: regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_]*)?$`), maxArgs: 1, repeats: often,
		check: withoutNUL, write: writeMySQL},
	plan.FormatPostgreSQL: {key: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`), minArgs: 1,
		maxArgs: 1, check: withoutNUL, write: writePostgreSQL},
	plan.FormatNginx: {key: regexp.MustCompile(`^[a-z][a-z0-9_]*$`), repeats: often, check: nginxValue,
		write: writeNginx},
	plan.FormatPgBouncer: {key: regexp.MustCompile(`^([a-z][a-z0-9_]*|(databases|users)\.([A-Za-z0-9_-]+|\*))$`),
		minArgs: 1, maxArgs: 1, check: wholeLine, write: writePgBouncer},
	plan.FormatUserList: {key: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`), minArgs: 1, maxArgs: 1,
		check: userPassword, write: writeUserList},
	plan.FormatText: {key: regexp.MustCompile(`^[ -~]*$`), minArgs: 1, repeats: often, check: withoutNUL,
		noSecret: "text has no escapes, so it cannot hold a secret", write: writeText},
}

// Formats returns the known formats, sorted.
func Formats() []plan.Format {
	var formats []plan.Format
	for format := range syntaxes {
		formats = append(formats, format)
	}
	slices.Sort(formats)
	return formats
}

// Encode returns the content of a configuration file with the entries in their
// order. An entry's secret is looked up and appended to its values. The error
// names the key at fault and never a value of a secret.
func Encode(format plan.Format, entries []plan.Entry, lookup func(plan.SecretRef) (string, error)) ([]byte, error) {
	syn, known := syntaxes[format]
	if !known {
		return nil, fmt.Errorf("cannot encode format %q: known are %v", format, Formats())
	}
	settings := make([]setting, 0, len(entries))
	seen := map[string]bool{}
	for _, entry := range entries {
		s, err := syn.resolve(entry, lookup)
		if err == nil {
			err = syn.accept(s, seen)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot encode setting %q as %s: %w", entry.Key, format, err)
		}
		settings = append(settings, s)
	}
	data, err := syn.write(settings)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", format, err)
	}
	return data, nil
}

// resolve reads the entry's secret.
func (syn syntax) resolve(entry plan.Entry, lookup Lookup) (setting, error) {
	s := setting{key: entry.Key, args: slices.Clone(entry.Args)}
	if entry.Secret == nil {
		return s, nil
	}
	if syn.noSecret != "" {
		return setting{}, errors.New(syn.noSecret)
	}
	if lookup == nil {
		return setting{}, fmt.Errorf("secret %s/%s cannot be looked up here", entry.Secret.Credential, entry.Secret.Key)
	}
	value, err := lookup(*entry.Secret)
	if err != nil {
		return setting{}, err
	}
	s.args = append(s.args, value)
	return s, nil
}

// accept refuses what the format cannot hold.
func (syn syntax) accept(s setting, seen map[string]bool) error {
	if !syn.key.MatchString(s.key) {
		return fmt.Errorf("the key must match %s", syn.key)
	}
	if seen[s.key] && syn.repeats == once {
		return errors.New("the key is there twice")
	}
	seen[s.key] = true
	if len(s.args) < syn.minArgs {
		return errors.New("it has no value; give one, which may be empty")
	}
	if syn.maxArgs > 0 && len(s.args) > syn.maxArgs {
		return fmt.Errorf("it has %d values; this format holds one per key", len(s.args))
	}
	for _, arg := range s.args {
		if err := syn.check(arg); err != nil {
			return err
		}
	}
	return nil
}

func withoutNUL(value string) error {
	if strings.ContainsRune(value, 0) {
		return errors.New("the value has a NUL byte, which its reader cannot hold")
	}
	return nil
}

func validUTF8(value string) error {
	if !utf8.ValidString(value) {
		return errors.New("the value is not UTF-8, which this format requires")
	}
	return nil
}

// plain says whether every byte of a value is an ASCII letter, a digit or one of
// extra, so that it needs no quotes. The empty value is not plain.
func plain(value, extra string) bool {
	for i := range len(value) {
		c := value[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !alphanumeric && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return value != ""
}
