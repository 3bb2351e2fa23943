// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// What the plugin postgresql calls what is inside a server.
const (
	roleType      = "role"
	databaseType  = "database"
	extensionType = "extension"
	grantType     = "grant"
)

// anyNumber of sessions.
const anyNumber = -1

// entities are what is inside the servers: roles and what they are granted, databases and their extensions.
//
// What the data of a Backup has already becomes what the object says: it is there before anybody could have made it for
// this object.
func entities(p *databasev1.PostgreSQL) []platformv1.EntitySpec {
	restored := p.Spec.RestoreFrom != nil
	var specs []platformv1.EntitySpec
	for _, r := range p.Spec.Roles {
		entity := role(&r)
		entity.Adopt = r.Adopt || restored
		asClientRole(&entity)
		specs = append(specs, entity)
		for _, g := range r.Grants {
			specs = append(specs, platformv1.EntitySpec{
				Type: grantType, Name: path(r.Name, g.Database, g.Schema, g.Table),
				Parameters:     platformv1.Parameters{"privileges": typed.Words(g.Privileges)},
				DeletionPolicy: platformv1.EntityDelete, Adopt: r.Adopt || restored,
			})
		}
	}
	for _, d := range p.Spec.Databases {
		database := typed.WithoutEmpty(typed.EntityOf(databaseType, &d))
		database.Parameters["connection-limit"] = limit(d.ConnectionLimit)
		database.Adopt = d.Adopt || restored
		asClientDatabase(&database)
		specs = append(specs, database)
		for _, e := range d.Extensions {
			extension := typed.WithoutEmpty(typed.EntityOf(extensionType, &e))
			extension.Name, extension.DeletionPolicy = path(d.Name, e.Name), database.DeletionPolicy
			extension.Adopt = d.Adopt || restored
			specs = append(specs, extension)
		}
	}
	return specs
}

// path is the name of what is inside something else: the parts that there are.
func path(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "/")
}

// role is a role in the words of the plugin.
func role(r *databasev1.PostgreSQLRole) platformv1.EntitySpec {
	var attributes []string
	if r.CreateDatabase {
		attributes = append(attributes, "createdb")
	}
	if r.BypassRowSecurity {
		attributes = append(attributes, "bypassrls")
	}
	entity := typed.EntityOf(roleType, r)
	entity.Parameters["attributes"] = platformv1.ParameterValue(strings.Join(attributes, " "))
	entity.Parameters["connection-limit"] = limit(r.ConnectionLimit)
	return entity
}

// limit of sessions; any number where none is said.
func limit(sessions *int32) platformv1.ParameterValue {
	if sessions == nil {
		return typed.Number(anyNumber)
	}
	return typed.Number(*sessions)
}
