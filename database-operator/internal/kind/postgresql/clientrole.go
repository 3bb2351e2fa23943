// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"cmp"
	"regexp"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// clientRole is the role in the binding, the database that it owns and the credential with its password.
const clientRole = "app"

// withoutClientRole are the versions of the plugin whose binding has the superuser.
var withoutClientRole = regexp.MustCompile(`^v?(0|1\.[0-4])\.`)

// hasClientRole says whether the version of the plugin makes the role for clients.
func hasClientRole(spec *databasev1.PostgreSQLSpec) bool {
	return !withoutClientRole.MatchString(string(cmp.Or(spec.PluginVersion, pluginVersion)))
}

// credentials is the password of the login in the binding, where it comes from a Secret of the user: from auth, or from
// the role among the roles. The schema refuses both at once.
func credentials(spec *databasev1.PostgreSQLSpec) []platformv1.Credential {
	if !hasClientRole(spec) {
		return kindparts.Credentials(superuser, spec.Auth)
	}
	for _, r := range spec.Roles {
		if r.Name == clientRole && r.PasswordFrom != nil {
			return kindparts.Credentials(clientRole, &databasev1.Auth{PasswordFrom: *r.PasswordFrom})
		}
	}
	return kindparts.Credentials(clientRole, spec.Auth)
}

// asClientRole has the Entity of the role take over the one that the server is made with. Its password is that of the
// credential, and it stays when it is taken out of the list.
func asClientRole(spec *databasev1.PostgreSQLSpec, entity *platformv1.EntitySpec) {
	if hasClientRole(spec) && entity.Name == clientRole {
		entity.Adopt, entity.PasswordFrom, entity.DeletionPolicy = true, nil, platformv1.EntityRetain
	}
}

// asClientDatabase does so for its database. Without an owner that is the role.
func asClientDatabase(spec *databasev1.PostgreSQLSpec, entity *platformv1.EntitySpec) {
	if !hasClientRole(spec) || entity.Name != clientRole {
		return
	}
	entity.Adopt = true
	if _, named := entity.Parameters["owner"]; !named {
		entity.Parameters["owner"] = clientRole
	}
}
