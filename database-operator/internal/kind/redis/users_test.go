// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"reflect"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestEntities(t *testing.T) {
	r := &databasev1.Redis{Spec: databasev1.RedisSpec{Users: []databasev1.RedisUser{
		{Name: "app", PasswordFrom: platformv1.SecretKeyReference{Name: "users"}, Keys: "~app:*", Channels: "&app", Commands: "+@read", Adopt: true},
		{Name: "Off", PasswordFrom: platformv1.SecretKeyReference{Name: "users", Key: "off"}, Enabled: new(false)},
	}}}
	want := []platformv1.EntitySpec{
		{
			Type: "acl-user", Name: "app", DeletionPolicy: platformv1.EntityDelete, Adopt: true,
			PasswordFrom: &platformv1.SecretKeyReference{Name: "users", Key: "password"},
			Parameters:   platformv1.Parameters{"enabled": "yes", "keys": "~app:*", "channels": "&app", "commands": "+@read"},
		},
		{
			Type: "acl-user", Name: "Off", DeletionPolicy: platformv1.EntityDelete,
			PasswordFrom: &platformv1.SecretKeyReference{Name: "users", Key: "off"},
			Parameters:   platformv1.Parameters{"enabled": "no", "keys": "", "channels": "", "commands": ""},
		},
	}
	if got := (Kind{}).Entities(r); !reflect.DeepEqual(got, want) {
		t.Errorf("they are %+v, want %+v", got, want)
	}
	if got := (Kind{}).Entities(&databasev1.Redis{}); got != nil {
		t.Errorf("without users there are %v", got)
	}
}
