// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"cmp"
	"slices"
	"strings"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// What the plugin postgresql calls what is inside a server.
const (
	roleType      = "role"
	databaseType  = "database"
	extensionType = "extension"
	grantType     = "grant"
)

// anyNumber of sessions.
const anyNumber int32 = -1

// entities are what is inside the servers: roles and what they are granted, databases and their extensions.
//
// What the data of a Backup has already becomes what the object says: it is there before anybody could have made it for
// this object.
func entities(p *databasev1.PostgreSQL) []platformv1.EntitySpec {
	restored := p.Spec.RestoreFrom != nil
	var specs []platformv1.EntitySpec
	for _, r := range p.Spec.Roles {
		specs = append(specs, platformv1.EntitySpec{
			Type: roleType, Name: r.Name, Parameters: role(&r), PasswordFrom: typed.PasswordFrom(r.PasswordFrom),
			DeletionPolicy: platformv1.EntityDelete, Adopt: r.Adopt || restored,
		})
		asClientRole(&specs[len(specs)-1])
		for _, g := range r.Grants {
			specs = append(specs, platformv1.EntitySpec{
				Type: grantType, Name: path(r.Name, g.Database, g.Schema, g.Table),
				Parameters:     platformv1.Parameters{"privileges": list(g.Privileges)},
				DeletionPolicy: platformv1.EntityDelete, Adopt: r.Adopt || restored,
			})
		}
	}
	for _, d := range p.Spec.Databases {
		policy := cmp.Or(d.DeletionPolicy, platformv1.EntityRetain)
		specs = append(specs, platformv1.EntitySpec{Type: databaseType, Name: d.Name, Parameters: database(&d),
			DeletionPolicy: policy, Adopt: d.Adopt || restored})
		asClientDatabase(&specs[len(specs)-1])
		for _, e := range d.Extensions {
			specs = append(specs, platformv1.EntitySpec{
				Type: extensionType, Name: path(d.Name, e.Name), Parameters: extension(&e), DeletionPolicy: policy,
				Adopt: d.Adopt || restored,
			})
		}
	}
	return specs
}

// path is the name of what is inside something else: the parts that there are.
func path(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "/")
}

// list is words with blanks between them, in the order of the alphabet: no other order says anything else.
func list[T ~string](words []T) platformv1.ParameterValue {
	var texts []string
	for _, word := range words {
		texts = append(texts, string(word))
	}
	slices.Sort(texts)
	return platformv1.ParameterValue(strings.Join(texts, " "))
}

// role is a role in the words of the plugin. What is left out is said too, so that it is taken away.
func role(r *databasev1.PostgreSQLRole) platformv1.Parameters {
	var attributes []string
	if r.CreateDatabase {
		attributes = append(attributes, "createdb")
	}
	if r.BypassRowSecurity {
		attributes = append(attributes, "bypassrls")
	}
	until := ""
	if r.ValidUntil != nil {
		until = r.ValidUntil.UTC().Format(time.RFC3339)
	}
	return platformv1.Parameters{
		"login": yesUnless(r.Login), "inherit": yesUnless(r.Inherit),
		"attributes":       platformv1.ParameterValue(strings.Join(attributes, " ")),
		"connection-limit": limit(r.ConnectionLimit), "valid-until": platformv1.ParameterValue(until),
		"member-of": list(r.MemberOf),
	}
}

// database is a database in the words of the plugin. Its owner is the superuser where nobody is said.
func database(d *databasev1.PostgreSQLDatabase) platformv1.Parameters {
	out := platformv1.Parameters{"connection-limit": limit(d.ConnectionLimit)}
	put(out, "owner", d.Owner)
	put(out, "encoding", d.Encoding)
	put(out, "locale", d.Locale)
	return out
}

func extension(e *databasev1.PostgreSQLExtension) platformv1.Parameters {
	out := platformv1.Parameters{}
	put(out, "version", e.Version)
	put(out, "schema", e.Schema)
	return out
}

// put leaves what is not said to the plugin's default.
func put(out platformv1.Parameters, name, value string) {
	if value != "" {
		out[name] = platformv1.ParameterValue(value)
	}
}

func limit(sessions *int32) platformv1.ParameterValue {
	if sessions == nil {
		return kindparts.Number(anyNumber)
	}
	return kindparts.Number(*sessions)
}

func yesUnless(set *bool) platformv1.ParameterValue {
	if set != nil && !*set {
		return "no"
	}
	return "yes"
}
