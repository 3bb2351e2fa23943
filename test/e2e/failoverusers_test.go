// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestACLUsersOfAFailover has users follow the writer: all of them are in the new one within seconds, and one that was removed
// meanwhile does not come back with the old one.
func TestACLUsersOfAFailover(t *testing.T) {
	s := newSpace(t, "failoverusers")
	r := s.replicatedRedis("db")
	names := []string{"ann", "ben", "cat", "dan", "eve"}
	passwords := map[string]string{}
	for _, name := range names {
		passwords[name] = "secret-of-" + name
	}
	s.create(&corev1.Secret{ObjectMeta: named("users"), StringData: passwords})
	for _, name := range names {
		s.create(s.userOf(r.name, name))
	}
	r.ready()
	first, _ := r.whole()
	for _, name := range names {
		s.entityIs(name, platformv1.ReasonReady)
	}
	r.wantUsers(first, names, passwords)

	r.killedUntilChanged(first)
	begin := time.Now()
	second, _ := r.whole()
	r.wantUsers(second, names, passwords)
	t.Logf("all %d users are in the new writer %s after it was named", len(names), seconds(time.Since(begin)))

	// The old one has the user in no file any more, and hears of no removal.
	s.removes("eve")
	r.switchTo(second, first)
	if again, _ := r.whole(); again != first {
		t.Fatalf("%s writes, and not %s", again, first)
	}
	r.wantUsers(first, names[:4], passwords)
	// Looked at by the operator once more, and not before.
	if users := r.adminSays(first, "ACL", "USERS"); strings.Contains(users, "eve") {
		t.Errorf("the users are %q", users)
	}
	for _, pod := range []string{second, first} {
		if said := s.saysTo(r.accountOf(pod), "eve", passwords["eve"], "PING"); !strings.Contains(said, "WRONGPASS") {
			t.Errorf("the removed user is told %q by %s", said, pod)
		}
	}
}

// accountOf is how one pod is reached.
func (r *replicated) accountOf(pod string) account {
	r.Helper()
	a := r.accountIn(r.object().Status.Binding.Name)
	a.host = pod + "." + r.name + "-" + redisComponent + "-headless." + r.space.name + ".svc"
	a.port = "6379"
	return a
}

// adminSays runs a command at one pod.
func (r *replicated) adminSays(pod string, arguments ...string) string {
	r.Helper()
	a := r.accountOf(pod)
	return r.saysTo(a, a.username, a.password, arguments...)
}

// wantUsers waits until these users can log in to a pod.
func (r *replicated) wantUsers(pod string, names []string, passwords map[string]string) {
	r.Helper()
	for _, name := range names {
		r.eventually(entityReady, name+" is let in", func() error {
			if said := r.saysTo(r.accountOf(pod), name, passwords[name], "PING"); said != "PONG" {
				return fmt.Errorf("%s says %q", pod, said)
			}
			return nil
		})
	}
}
