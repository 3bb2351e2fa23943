// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestACLUsersOfAFailover has users follow the writer: all of them are in the new one within seconds, and one that was
// removed meanwhile does not come back with the old one.
func TestACLUsersOfAFailover(t *testing.T) {
	s := framework.NewNamespace(t, "failoverusers")
	r := s.CreateReplicatedRedis("db")
	names := []string{"ann", "ben", "cat", "dan", "eve"}
	passwords := map[string]string{}
	for _, name := range names {
		passwords[name] = "secret-of-" + name
	}
	s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("users"), StringData: passwords})
	for _, name := range names {
		s.Create(userOf(s, r.Name, name))
	}
	r.WaitReady()
	first, _ := r.WaitForPrimary()
	for _, name := range names {
		entityIs(s, name, platformv1.ReasonReady)
	}
	wantUsers(r, first, names, passwords)

	r.KillUntilPrimaryChanges(first)
	begin := time.Now()
	second, _ := r.WaitForPrimary()
	wantUsers(r, second, names, passwords)
	t.Logf("all %d users are in the new writer %s after it was named", len(names),
		framework.FormatSeconds(time.Since(begin)))

	// The old one has the user in no file any more, and hears of no removal.
	removes(s, "eve")
	r.SwitchOver(second, first)
	if again, _ := r.WaitForPrimary(); again != first {
		t.Fatalf("%s writes, and not %s", again, first)
	}
	wantUsers(r, first, names[:4], passwords)
	// Looked at by the operator once more, and not before.
	if users := adminSays(r, first, "ACL", "USERS"); strings.Contains(users, "eve") {
		t.Errorf("the users are %q", users)
	}
	for _, pod := range []string{second, first} {
		if said := saysTo(s, accountOf(r, pod), "eve", passwords["eve"], "PING"); !strings.Contains(said, "WRONGPASS") {
			t.Errorf("the removed user is told %q by %s", said, pod)
		}
	}
}

// accountOf is how one pod is reached.
func accountOf(r *framework.Replicated, pod string) framework.Account {
	r.Helper()
	a := r.AccountIn(r.Object().Status.Binding.Name)
	a.Host = pod + "." + r.Name + "-" + framework.RedisComponent + "-headless." + r.Namespace.Name + ".svc"
	a.Port = "6379"
	return a
}

// adminSays runs a command at one pod.
func adminSays(r *framework.Replicated, pod string, arguments ...string) string {
	r.Helper()
	a := accountOf(r, pod)
	return saysTo(r.Application.Namespace, a, a.Username, a.Password, arguments...)
}

// wantUsers waits until these users can log in to a pod.
func wantUsers(r *framework.Replicated, pod string, names []string, passwords map[string]string) {
	r.Helper()
	for _, name := range names {
		r.Eventually(entityReady, name+" is let in", func() error {
			if said := saysTo(r.Application.Namespace, accountOf(r, pod), name, passwords[name], "PING"); said != "PONG" {
				return fmt.Errorf("%s says %q", pod, said)
			}
			return nil
		})
	}
}
