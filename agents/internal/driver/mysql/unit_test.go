// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
)

// The example of the SHA-crypt specification. What a server makes of a password is compared in TestObjects.
func TestSHACrypt(t *testing.T) {
	if got := shaCrypt("Hello world!", "saltstring", 5000); got != "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5" {
		t.Errorf("got %s", got)
	}
}

func TestVerifiersOfOthersAreNotThePassword(t *testing.T) {
	var remembered Verified
	for _, verifier := range []string{"", "*81F5E21E35407D884A6CD4A731AEBFB6AF209E1B", "$A$005$short", "$A$FFFF$" +
		strings.Repeat("x", 63), "$A$000$" + strings.Repeat("x", 63)} {
		for range 2 {
			if remembered.same(verifier, "secret") {
				t.Errorf("%q is taken for the password", verifier)
			}
		}
	}
}

func TestSame(t *testing.T) {
	for _, pair := range [][2]string{{"67108864", "64M"}, {"ON", "1"}, {"OFF", "off"}, {"10.000000", "10"},
		{"A,B", "b, a"}, {"READ-COMMITTED", "read-committed"}} {
		if !same(pair[0], pair[1]) {
			t.Errorf("%q is not %q", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{{"67108864", "63M"}, {"ON", "0"}, {"", "0"}, {"A", "A,B"}} {
		if same(pair[0], pair[1]) {
			t.Errorf("%q is %q", pair[0], pair[1])
		}
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	change := func(name string, parameters ...string) driver.Change {
		c := driver.Change{Query: driver.Query{Name: name, Password: "p"}, Intent: driver.Create,
			Parameters: map[string]string{}}
		for i := 0; i < len(parameters); i += 2 {
			c.Parameters[parameters[i]] = parameters[i+1]
		}
		return c
	}
	for want, tc := range map[string]struct {
		keeper keeper
		change driver.Change
	}{
		"the instance's own":          {users{}, change("root@localhost")},
		"is the instance's own: take": {users{}, change("zeroinfra_x")},
		"no name of a user":           {users{}, change("a'b")},
		"at most 32 bytes":            {users{}, change(strings.Repeat("a", 33))},
		"must be yes or no":           {users{}, change("a", parameterLocked, "maybe")},
		"must be a whole number":      {users{}, change("a", parameterConnections, "-1")},
		`has the word "SUPER"`:        {users{}, change("a", parameterGlobal, "PROCESS SUPER")},
		`"x" is not known`:            {users{}, change("a", "x", "y")},
		"the database \"MySQL\" is":   {databases{}, change("MySQL")},
		"charset must be a name":      {databases{}, change("shop", parameterCharset, "utf8; DROP")},
		"no name of a grant":          {grants{}, change("a")},
		`has the word "FILE"`:         {grants{}, change("a/shop", parameterPrivileges, "SELECT FILE")},
		`has the word "EVENT"`:        {grants{}, change("a/shop/t", parameterPrivileges, "EVENT")},
		"to grant nothing":            {grants{}, change("a/shop", parameterPrivileges, "")},
		"nothing of it is granted":    {grants{}, change("a/mysql", parameterPrivileges, "SELECT")},
	} {
		if statements, err := tc.keeper.statements(tc.change, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, statements, err)
		}
	}
}

// What a user of 8.0 is granted it is granted in a later server, too, which does not know one of the privileges.
func TestGrantsOfLaterServers(t *testing.T) {
	const to = " ON *.* TO `o'neil`@`%` WITH GRANT OPTION"
	for grant, want := range map[string]string{
		"GRANT SELECT, INSERT" + to:               "GRANT SELECT, INSERT" + to,
		"GRANT `SET_USER_ID`@`%` TO `x`@`%`":      "GRANT `SET_USER_ID`@`%` TO `x`@`%`",
		"GRANT ROLE_ADMIN,SET_USER_ID" + to:       "GRANT ROLE_ADMIN" + to + "; SET @zeroinfra",
		"GRANT SET_USER_ID" + to:                  "SET @zeroinfra",
		"GRANT SET_USER_ID,XA_RECOVER_ADMIN" + to: "GRANT XA_RECOVER_ADMIN" + to + "; SET @zeroinfra",
	} {
		got := strings.Join(portable(grant), "; ")
		if got != want && !(strings.HasSuffix(want, "zeroinfra") && strings.HasPrefix(got, want+" = CONCAT('GRANT ', IF(") &&
			strings.Contains(got, "' ON *.* TO `o''neil`@`%` WITH GRANT OPTION'); PREPARE")) {
			t.Errorf("of %s it makes %s", grant, got)
		}
	}
}

// An underscore in the name of a database stands for itself, and not for any character.
func TestGrantOnANameWithUnderscores(t *testing.T) {
	g, err := parseGrant("Shop@FE80::1/t")
	if err != nil || g.grantee() != "'Shop'@'fe80::1'" {
		t.Errorf("got %s, %v: the server has hosts in small letters", g.grantee(), err)
	}
	g, err = parseGrant("shop@10.%/a_b%")
	if err != nil || g.on() != "`a\\_b\\%`.*" || g.grantee() != "'shop'@'10.%'" {
		t.Errorf("got %s to %s, %v", g.on(), g.grantee(), err)
	}
}
