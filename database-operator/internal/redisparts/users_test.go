// SPDX-License-Identifier: Apache-2.0

package redisparts

import (
	"reflect"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestUsers(t *testing.T) {
	users := []databasev1.RedisUser{
		{Name: "app", PasswordFrom: platformv1.SecretKeyReference{Name: "users"}, Keys: "~app:*", Channels: "&app",
			Commands: "+@read", Adopt: true},
		{Name: "Off", PasswordFrom: platformv1.SecretKeyReference{Name: "users", Key: "off"}, Enabled: new(false)},
	}
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
	if got := Users(users); !reflect.DeepEqual(got, want) {
		t.Errorf("they are %+v, want %+v", got, want)
	}
	if got := Users(nil); got != nil {
		t.Errorf("without users there are %v", got)
	}
}
