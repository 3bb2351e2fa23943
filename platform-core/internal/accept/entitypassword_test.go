// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A role whose password the Application has is no Entity's to give another one.
func TestPasswordOfACredentialIsNotThatOfAnEntity(t *testing.T) {
	state := loadVersion(t, "postgresql", "1.0.0").State
	secret := &platformv1.SecretKeyReference{Name: "users", Key: "app"}
	for name, test := range map[string]struct {
		entity  platformv1.EntitySpec
		refused []string
	}{
		"role of the credential": {
			platformv1.EntitySpec{Type: "role", Name: "app", PasswordFrom: secret},
			[]string{`the password of role "app" is that of credential "app"`},
		},
		"without a password":       {platformv1.EntitySpec{Type: "role", Name: "app"}, nil},
		"another role":             {platformv1.EntitySpec{Type: "role", Name: "apps", PasswordFrom: secret}, nil},
		"a database of that name":  {platformv1.EntitySpec{Type: "database", Name: "app"}, nil},
		"role of a supplied login": {platformv1.EntitySpec{Type: "role", Name: "archive", PasswordFrom: secret}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := JudgeEntity(&platformv1.Entity{Spec: test.entity}, nil, postgresql(3), state)
			says(t, "refusals", sentences(v.Refused), test.refused...)
		})
	}
}
