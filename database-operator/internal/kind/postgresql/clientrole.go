// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// clientRole is the role in the binding, the database that it owns and the credential with its password.
const clientRole = "app"

// credentials is the password of the login in the binding, where it comes from a Secret of the user: from auth, or from
// the role among the roles. The schema refuses both at once.
func credentials(spec *databasev1.PostgreSQLSpec) []platformv1.Credential {
	for _, r := range spec.Roles {
		if r.Name == clientRole && r.PasswordFrom != nil {
			return kindparts.Credentials(clientRole, &databasev1.Auth{PasswordFrom: *r.PasswordFrom})
		}
	}
	return kindparts.Credentials(clientRole, spec.Auth)
}

// asClientRole has the Entity of the role take over the one that the server is made with. Its password is that of the
// credential, and it stays when it is taken out of the list.
func asClientRole(entity *platformv1.EntitySpec) {
	if entity.Name == clientRole {
		entity.Adopt, entity.PasswordFrom, entity.DeletionPolicy = true, nil, platformv1.EntityRetain
	}
}

// asClientDatabase does so for its database. Without an owner that is the role.
func asClientDatabase(entity *platformv1.EntitySpec) {
	if entity.Name != clientRole {
		return
	}
	entity.Adopt = true
	if _, named := entity.Parameters["owner"]; !named {
		entity.Parameters["owner"] = clientRole
	}
}
