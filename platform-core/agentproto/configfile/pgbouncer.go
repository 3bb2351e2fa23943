// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// sectionPgBouncer has the settings of the program itself.
const sectionPgBouncer = "pgbouncer"

// writePgBouncer writes pgbouncer.ini: settings without a section are those of the program, and come last, after the
// databases and users. A value is the rest of its line as it is.
func writePgBouncer(settings []setting) ([]byte, error) {
	var order []string
	bodies := map[string]*bytes.Buffer{}
	for _, s := range settings {
		section, key, found := strings.Cut(s.key, ".")
		if !found {
			section, key = sectionPgBouncer, s.key
		}
		if bodies[section] == nil {
			bodies[section] = &bytes.Buffer{}
			if section != sectionPgBouncer {
				order = append(order, section)
			}
		}
		fmt.Fprintf(bodies[section], "%s = %s\n", key, s.args[0])
	}
	var b bytes.Buffer
	if bodies[sectionPgBouncer] != nil {
		order = append(order, sectionPgBouncer)
	}
	for _, section := range order {
		fmt.Fprintf(&b, "[%s]\n%s", section, bodies[section])
	}
	return b.Bytes(), nil
}

// wholeLine refuses what is not the rest of one line, which pgbouncer.ini has no escapes for.
func wholeLine(value string) error {
	switch {
	case strings.ContainsFunc(value, unicode.IsControl):
		return errors.New("the value has a line break or another control character, which this format has no escape for")
	case strings.TrimFunc(value, isBlank) != value:
		return errors.New("the value begins or ends with a blank, which its reader takes off")
	}
	return nil
}

func isBlank(r rune) bool { return r == ' ' }

// writeUserList writes the file of users of PgBouncer: a name and a password, each in double quotes, with a quote
// doubled.
func writeUserList(settings []setting) ([]byte, error) {
	var b bytes.Buffer
	for _, s := range settings {
		fmt.Fprintf(&b, "\"%s\" \"%s\"\n", s.key, strings.ReplaceAll(s.args[0], `"`, `""`))
	}
	return b.Bytes(), nil
}

// maxUserListPassword is the longest password that PgBouncer keeps.
const maxUserListPassword = 995

var passwordHash = regexp.MustCompile(`^(md5[0-9a-f]{32}|SCRAM-SHA-256\$.*)$`)

// userPassword refuses what PgBouncer would read as something else than this password.
func userPassword(value string) error {
	switch {
	case value == "":
		return errors.New("the password is empty, which lets nobody in")
	case strings.ContainsFunc(value, unicode.IsControl):
		return errors.New("the password has a line break or another control character: take one without")
	case len(value) > maxUserListPassword:
		return fmt.Errorf("the password has more than %d bytes: take a shorter one", maxUserListPassword)
	case passwordHash.MatchString(value):
		return errors.New("the password looks like the hash of one, for which it would be taken: take another one")
	}
	return nil
}
