// SPDX-License-Identifier: Apache-2.0

//go:build integration

package entity

import (
	"fmt"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Entities that come later have their own objects looked at, and not all that are there. Once the interval is over
// these are looked at as well: what somebody changed is put right.
func TestLaterEntitiesHaveTheirOwnLook(t *testing.T) {
	f := newFixture(t)
	f.settings.UseEntityInterval(time.Hour)
	f.secret("users", map[string]string{"all": "secret"})
	const count = 20
	user := func(i int) *platformv1.Entity {
		return f.entity(fmt.Sprintf("user-%d", i), func(s *platformv1.EntitySpec) { s.PasswordFrom.Key = "all" })
	}
	var first []*platformv1.Entity
	for i := range count {
		first = append(first, user(i))
		f.create(first[i])
	}
	f.run(-1)
	f.ready(first...)
	before := f.queried.Load()
	last := user(count)
	f.create(last)
	f.ready(last)
	// Before and after its change; a Secret that is looked at once more has nobody else looked at.
	if asked := f.queried.Load() - before; asked < 2 || asked >= count {
		t.Errorf("%d objects were asked about for one Entity", asked)
	}
	f.admin("ACL", "DELUSER", "user-0")
	f.settings.UseEntityInterval(time.Second)
	another := user(count + 1)
	f.create(another)
	f.ready(another)
	f.repaired(first[0], 1, "it was gone")
}
