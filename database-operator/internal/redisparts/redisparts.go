// SPDX-License-Identifier: Apache-2.0

// Package redisparts is what the kinds that are made of Redis servers have alike: parts of their specs as an Application has them, and of its
// status as they tell it.
package redisparts

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// Names of the plugin redis.
const (
	Plugin        = "redis"
	PluginVersion = "1.0.0"
	// Credential is the one of the user default.
	Credential = "default"
	// PasswordKey is the key of a Secret that names none.
	PasswordKey = "password"
	// Primary and Replica are the roles of pods.
	Primary = "primary"
	Replica = "replica"
	// Healthy is what the engine says of a pod whose server answers.
	Healthy = "Healthy"
)

// DefaultSize of a volume.
var DefaultSize = resource.MustParse("1Gi")

// Redis's own default, written down so that what is saved does not depend on its version.
var defaultSaveRules = []databasev1.SaveRule{
	{Seconds: 3600, Changes: 1},
	{Seconds: 300, Changes: 100},
	{Seconds: 60, Changes: 10000},
}

// Running is written down only where it is false: true is the default.
func Running(wanted *bool) *bool {
	if wanted == nil || *wanted {
		return nil
	}
	return new(false)
}

// Storage of each pod.
func Storage(s databasev1.RedisStorage) *platformv1.Storage {
	out := platformv1.Storage{Size: s.Size, StorageClassName: s.StorageClassName}
	if out.Size.IsZero() {
		out.Size = DefaultSize
	}
	return out.DeepCopy()
}

// Credentials says where the password of the user default comes from; nil for one that is made.
func Credentials(auth *databasev1.RedisAuth) []platformv1.Credential {
	if auth == nil {
		return nil
	}
	from := auth.PasswordFrom
	from.Key = cmp.Or(from.Key, PasswordKey)
	return []platformv1.Credential{{Name: Credential, PasswordFrom: from}}
}

// Memory is how much Redis uses for data, and what it does then, as parameters.
func Memory(most *resource.Quantity, policy databasev1.MaxmemoryPolicy) platformv1.Parameters {
	out := platformv1.Parameters{}
	if most != nil {
		out["maxmemory"] = platformv1.ParameterValue(strconv.FormatInt(most.Value(), 10))
	}
	if policy != "" {
		out["maxmemory-policy"] = platformv1.ParameterValue(policy)
	}
	return out
}

// Number is a whole number as a parameter.
func Number(n int32) platformv1.ParameterValue {
	return platformv1.ParameterValue(strconv.Itoa(int(n)))
}

// Persistence is how data survives a restart, as parameters.
func Persistence(p databasev1.RedisPersistence) platformv1.Parameters {
	mode := cmp.Or(p.Mode, databasev1.PersistenceAOF)
	// An empty save turns snapshots off.
	out := platformv1.Parameters{"appendonly": "no", "save": ""}
	if mode == databasev1.PersistenceAOF || mode == databasev1.PersistenceBoth {
		out["appendonly"] = "yes"
		fsync := cmp.Or(p.AppendFsync, databasev1.AppendFsyncEverySec)
		out["appendfsync"] = platformv1.ParameterValue(strings.ToLower(string(fsync)))
	}
	if mode == databasev1.PersistenceRDB || mode == databasev1.PersistenceBoth {
		out["save"] = saveRules(p.SaveRules)
	}
	return out
}

func saveRules(rules []databasev1.SaveRule) platformv1.ParameterValue {
	if len(rules) == 0 {
		rules = defaultSaveRules
	}
	var words []string
	for _, rule := range rules {
		words = append(words, strconv.Itoa(int(rule.Seconds)), strconv.Itoa(int(rule.Changes)))
	}
	return platformv1.ParameterValue(strings.Join(words, " "))
}

// Endpoint returns the address of the Service for pods of a role; empty when there is none.
func Endpoint(all []platformv1.Endpoint, role string) string {
	for _, e := range all {
		if e.Role == role {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
	}
	return ""
}
