// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// WithDeletionPolicy sets the deletion policy.
func WithDeletionPolicy(policy platformv1.DeletionPolicy) Setting {
	return func(s *databasev1.RedisSpec) { s.DeletionPolicy = policy }
}

// ExpectConfig has the test fail unless the running server has these settings now.
func (i *Instance) ExpectConfig(settings map[string]string) {
	i.Helper()
	if _, err := i.RunClientCommand(func() (string, error) { return "", i.WaitForConfig(settings) }); err != nil {
		i.Error(err)
	}
}

// WithVersion sets the version of Redis.
func WithVersion(v string) Setting {
	return func(spec *databasev1.RedisSpec) { spec.Version = v }
}

// WithPersistence sets the mode of persistence.
func WithPersistence(p databasev1.RedisPersistence) Setting {
	return func(spec *databasev1.RedisSpec) { spec.Persistence = p }
}

// countAtRest counts the keys but for those that a writer may be writing meanwhile.
const countAtRest = `local n = 0
for _, key in ipairs(redis.call('KEYS', '*')) do if string.sub(key, 1, 2) ~= 'w:' then n = n + 1 end end
return n`

// WithReplicas asks for that many beside the primary.
func WithReplicas(number int32) Setting {
	return func(spec *databasev1.RedisSpec) { spec.Replicas = &number }
}

// WithUser has one user who may read, with the password of the key "password" of the Secret "users".
func WithUser(name string) Setting {
	return func(spec *databasev1.RedisSpec) {
		spec.Users = []databasev1.RedisUser{
			{Name: name, PasswordFrom: platformv1.SecretKeyReference{Name: "users"}, Keys: "~k:*", Channels: "&news",
				Commands: "+@read +ping"}}
	}
}

// AccountAt is the account for one pod, by its own name.
func (i *Instance) AccountAt(pod string) Account {
	i.Helper()
	a := i.Account()
	a.Host = pod + "." + i.Application() + "-" + RedisComponent + "-headless." + i.Namespace.Name + ".svc"
	return a
}

// PodsInRole are the pods of a role, as the status says.
func (i *Instance) PodsInRole(role string) []string {
	i.Helper()
	var pods []string
	for _, m := range i.Object().Status.Members {
		if m.Role == role {
			pods = append(pods, m.Name)
		}
	}
	return pods
}

// WaitForReplicas waits until that many replicas follow the primary with all that it has.
func (i *Instance) WaitForReplicas(number int) {
	i.Helper()
	i.WaitReady()
	i.Eventually(ReadyTimeout, fmt.Sprintf("%d replicas have all that the primary has", number), func() error {
		r := i.Object()
		if want := fmt.Sprintf("%[1]d/%[1]d", number); r.Status.Replicas != want || len(i.PodsInRole("replica")) != number {
			return fmt.Errorf("status says %q: %v", r.Status.Replicas, r.Status.Members)
		}
		if got, err := i.Do("WAIT", fmt.Sprint(number), "1000"); err != nil || got != fmt.Sprint(number) {
			return fmt.Errorf("%s of %d replicas have the last write: %v", got, number, err)
		}
		want := i.MustDo("EVAL", countAtRest, "0")
		for _, pod := range i.PodsInRole("replica") {
			if got, err := i.RedisCLI(i.AccountAt(pod), "EVAL", countAtRest, "0"); err != nil || got != want {
				return fmt.Errorf("%s has %q keys of %s: %v", pod, got, want, err)
			}
		}
		return nil
	})
}

// WithSentinels has that many elect the primary.
func WithSentinels(number int32) Setting {
	return func(spec *databasev1.RedisSpec) { spec.Sentinel = &databasev1.RedisSentinel{Replicas: number} }
}
