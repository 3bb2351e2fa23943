// SPDX-License-Identifier: Apache-2.0

package mysqlparts

import (
	"cmp"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
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
		database := typed.WithoutEmpty(typed.EntityOf(databaseType, &d))
		database.Adopt = d.Adopt || restored
		specs = append(specs, database)
	}
	for _, u := range servers.Users {
		user := typed.EntityOf(userType, &u)
		user.Name, user.Adopt = account(&u), u.Adopt || restored
		specs = append(specs, user)
		for _, g := range u.Grants {
			specs = append(specs, platformv1.EntitySpec{
				Type: grantType, Name: grant(&u, &g),
				Parameters:     platformv1.Parameters{"privileges": typed.Words(g.Privileges)},
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
