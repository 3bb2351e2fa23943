// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"
	"testing"
)

// withKey is redis with a credential that only a user can supply.
func withKey(t *testing.T, changes ...string) []LoadError {
	t.Helper()
	sources := redisSources(t)
	text := sources[PartComponents].Data[components]
	for i, changes := 0, append([]string{"    credentials: [default]", "    credentials: [default, key]",
		"credentials:\n  - name: default", "credentials:\n  - {name: key, username: key, supplied: true}\n  - name: default",
		"          - key: dir\n", "          - {key: loadmodule, args: [/zeroinfra/secrets/key/password], when: \"'key' in " +
			"app.supplied\"}\n          - key: dir\n"}, changes...); i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("there is no %q in %s", changes[i], text)
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	sources[PartComponents].Data[components] = text
	_, errs := Load(sources)
	return errs
}

// TestCredentialsThatOnlyUsersSupply are used by nothing that is there without them.
func TestCredentialsThatOnlyUsersSupply(t *testing.T) {
	if errs := withKey(t); len(errs) > 0 {
		t.Fatal(errs)
	}
	for what, c := range map[string]struct{ old, new, says string }{
		"the probe": {"credential: default, key: password}\n      interval",
			"credential: key, key: password}\n      interval", `names the credential of this component "key"`},
		"the binding": {"  credential: default\n  uriScheme", "  credential: key\n  uriScheme", `names the credential "key"`},
		"the driver": {"      credential: default\n      entitiesFile", "      credential: key\n      entitiesFile",
			`names the credential of the component "key"`},
	} {
		if errs := withKey(t, c.old, c.new); len(errs) == 0 || !strings.Contains(errs[0].Message, c.says) {
			t.Errorf("%s: %v", what, errs)
		}
	}
}

func TestDeclaredConditions(t *testing.T) {
	condition := func(text string) []LoadError {
		return withKey(t, "    credentials: [default, key]\n", "    credentials: [default, key]\n    conditions:\n      - "+
			text+"\n")
	}
	if errs := condition(`{type: Saving, roles: [primary], status: "role == 'primary' ? 'True' : ''", reason: ` +
		`"'Saved'", message: "'all is saved'"}`); len(errs) > 0 {
		t.Fatal(errs)
	}
	for text, says := range map[string]string{
		`{type: Ready, status: "''", reason: "'A'", message: "''"}`: "those that the engine has itself " +
			"are taken",
		`{type: Saving, roles: [leader], status: "''", reason: "'A'", message: "''"}`:   `names the role "leader"`,
		`{type: Saving, status: "true", reason: "'A'", message: "''"}`:                  "gives bool: it must give text",
		`{type: Saving, status: "attributes['nothing']", reason: "'A'", message: "''"}`: `names the attribute "nothing"`,
		`{type: Saving, status: "stdout", reason: "'A'", message: "''"}`:                "known here: role, attributes",
		`{type: Saving, status: "''", reason: "'A'"}`:                                   "message",
	} {
		if errs := condition(text); len(errs) == 0 || !strings.Contains(errs[0].Message, says) {
			t.Errorf("%s: %v", text, errs)
		}
	}
}
