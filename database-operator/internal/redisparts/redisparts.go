// SPDX-License-Identifier: Apache-2.0

// Package redisparts is what the kinds that are made of Redis servers have alike, beside what all kinds have.
package redisparts

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// Names of the plugin redis.
const (
	Plugin        = "redis"
	PluginVersion = "1.0.0"
	// Credential is the one of the user default.
	Credential = "default"
)

// DefaultSize of a volume.
var DefaultSize = resource.MustParse("1Gi")

// Redis's own default, written down so that what is saved does not depend on its version.
var defaultSaveRules = []databasev1.SaveRule{
	{Seconds: 3600, Changes: 1},
	{Seconds: 300, Changes: 100},
	{Seconds: 60, Changes: 10000},
}

// Instance is what a component of servers has of an InstanceSpec.
func Instance(component string) typed.Instance {
	return typed.Instance{Plugin: Plugin, PluginVersion: PluginVersion, Component: component, Size: DefaultSize}
}

// Credentials says where the password of the user default comes from; nil for one that is made.
func Credentials(auth *databasev1.Auth) []platformv1.Credential {
	return kindparts.Credentials(Credential, auth)
}

// Parameters puts the fields that are parameters of Redis beside those that the user names himself; the CRD keeps the
// two apart.
func Parameters(named platformv1.Parameters, servers *databasev1.RedisServers) platformv1.Parameters {
	out := platformv1.Parameters{}
	maps.Copy(out, named)
	if servers.Maxmemory != nil {
		out["maxmemory"] = platformv1.ParameterValue(strconv.FormatInt(servers.Maxmemory.Value(), 10))
	}
	if servers.MaxmemoryPolicy != "" {
		out["maxmemory-policy"] = platformv1.ParameterValue(servers.MaxmemoryPolicy)
	}
	maps.Copy(out, persistence(servers.Persistence))
	return out
}

// persistence is how data survives a restart, as parameters.
func persistence(p databasev1.RedisPersistence) platformv1.Parameters {
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
