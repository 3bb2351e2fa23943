// SPDX-License-Identifier: Apache-2.0

package mysqlparts

import (
	"cmp"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// What the plugin mysql calls what is inside a server.
const (
	userType     = "user"
	databaseType = "database"
	grantType    = "grant"
)

// anyHost is where a user may come from when nothing is said.
const anyHost = "%"

// Entities are what is inside the servers: databases, users and what they are granted.
//
// What the data of a Backup has already becomes what the object says: it is there before anybody could have made it for
// this object.
func Entities(servers *databasev1.MySQLServers, from *platformv1.RestoreFrom) []platformv1.EntitySpec {
	restored := from != nil
	var specs []platformv1.EntitySpec
	for _, d := range servers.Databases {
		specs = append(specs, platformv1.EntitySpec{
			Type: databaseType, Name: d.Name, Parameters: database(&d),
			DeletionPolicy: cmp.Or(d.DeletionPolicy, platformv1.EntityRetain), Adopt: d.Adopt || restored,
		})
	}
	for _, u := range servers.Users {
		specs = append(specs, platformv1.EntitySpec{
			Type: userType, Name: account(&u), Parameters: user(&u), PasswordFrom: typed.PasswordFrom(&u.PasswordFrom),
			DeletionPolicy: platformv1.EntityDelete, Adopt: u.Adopt || restored,
		})
		for _, g := range u.Grants {
			specs = append(specs, platformv1.EntitySpec{
				Type: grantType, Name: grant(&u, &g), Parameters: platformv1.Parameters{"privileges": list(g.Privileges)},
				DeletionPolicy: platformv1.EntityDelete, Adopt: u.Adopt || restored,
			})
		}
	}
	return specs
}

// account is the name of a user, with its host where that is not any.
func account(u *databasev1.MySQLUser) string {
	if cmp.Or(u.Host, anyHost) == anyHost {
		return u.Name
	}
	return u.Name + "@" + u.Host
}

// grant is the name of what a user is granted.
func grant(u *databasev1.MySQLUser, g *databasev1.MySQLGrant) string {
	parts := []string{account(u), g.Database}
	if g.Table != "" {
		parts = append(parts, g.Table)
	}
	return strings.Join(parts, "/")
}

// user is a user in the words of the plugin. What is left out is said too, so that it is taken away.
func user(u *databasev1.MySQLUser) platformv1.Parameters {
	return platformv1.Parameters{
		"locked": yesNo(u.Locked), "require-tls": yesNo(u.RequireTLS), "max-connections": kindparts.Number(u.MaxConnections),
		"keep-previous-password": yesNo(u.KeepPreviousPassword), "global-privileges": list(u.GlobalPrivileges),
	}
}

func database(d *databasev1.MySQLDatabase) platformv1.Parameters {
	out := platformv1.Parameters{}
	for name, value := range map[string]string{"charset": d.Charset, "collation": d.Collation} {
		if value != "" {
			out[name] = platformv1.ParameterValue(value)
		}
	}
	return out
}

// list is words with blanks between them, in alphabetical order: no other order says anything else.
func list[T ~string](words []T) platformv1.ParameterValue {
	var texts []string
	for _, word := range words {
		texts = append(texts, string(word))
	}
	slices.Sort(texts)
	return platformv1.ParameterValue(strings.Join(texts, " "))
}

func yesNo(is bool) platformv1.ParameterValue {
	if is {
		return "yes"
	}
	return "no"
}
