// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// What the plugin redis calls things.
const (
	pluginName    = "redis"
	standalone    = "standalone"
	replication   = "replication"
	elected       = "sentinel"
	component     = "redis"
	sentinels     = "sentinel"
	primaryRole   = "primary"
	replicaRole   = "replica"
	credential    = "default"
	pluginVersion = "1.0.0"
	passwordKey   = "password"
)

// defaultMaxLag is Redis's own, in seconds.
const defaultMaxLag = 10

// defaultSentinels can lose one.
const defaultSentinels = 3

var (
	defaultSize = resource.MustParse("1Gi")
	// sentinelSize is more than the few lines that a Sentinel keeps will ever need.
	sentinelSize = resource.MustParse("64Mi")
)

// Redis's own default, written down so that what is saved does not depend on its version.
var defaultSaveRules = []databasev1.SaveRule{
	{Seconds: 3600, Changes: 1},
	{Seconds: 300, Changes: 100},
	{Seconds: 60, Changes: 10000},
}

// Compile implements typed.Kind. The defaults that the CRD states are filled in here
// too, for callers that have no API server before them.
func (Kind) Compile(r *databasev1.Redis) (*platformv1.Application, error) {
	spec := &r.Spec
	return &platformv1.Application{
		Spec: platformv1.ApplicationSpec{
			Plugin:        pluginName,
			PluginVersion: cmp.Or(spec.PluginVersion, pluginVersion),
			Version:       spec.Version,
			Topology:      topology(spec),
			Components: append([]platformv1.ApplicationComponent{{
				Name:                component,
				Replicas:            pods(spec.Replicas),
				Resources:           *spec.Resources.DeepCopy(),
				Storage:             storage(spec.Storage),
				Parameters:          parameters(spec),
				Service:             spec.Service.DeepCopy(),
				Scheduling:          spec.Scheduling.DeepCopy(),
				PodDisruptionBudget: spec.PodDisruptionBudget.DeepCopy(),
				Monitoring:          spec.Monitoring.DeepCopy(),
			}}, sentinelComponents(spec)...),
			Credentials:    credentials(spec.Auth),
			Failover:       failover(spec.Failover),
			NetworkPolicy:  spec.NetworkPolicy.DeepCopy(),
			TLS:            spec.TLS.DeepCopy(),
			Maintenance:    spec.Maintenance.DeepCopy(),
			Schedules:      spec.DeepCopy().Schedules,
			Running:        running(spec.Running),
			DeletionPolicy: cmp.Or(spec.DeletionPolicy, platformv1.DeletionPolicyRetain),
		},
	}, nil
}

// topology of a server that can have replicas: the engine says who writes, also while there is none, or Sentinels elect.
func topology(spec *databasev1.RedisSpec) string {
	switch {
	case spec.Sentinel != nil:
		return elected
	case spec.Replicas == nil:
		return standalone
	}
	return replication
}

// pods are the replicas and their primary.
func pods(replicas *int32) *int32 {
	if replicas == nil {
		return nil
	}
	return new(*replicas + 1)
}

// sentinelComponents are the Sentinels, where there are any: in the same places as the servers, and reached in the same way.
func sentinelComponents(spec *databasev1.RedisSpec) []platformv1.ApplicationComponent {
	s := spec.Sentinel
	if s == nil {
		return nil
	}
	c := platformv1.ApplicationComponent{
		Name:       sentinels,
		Replicas:   new(cmp.Or(s.Replicas, defaultSentinels)),
		Storage:    &platformv1.Storage{Size: sentinelSize.DeepCopy(), StorageClassName: spec.Storage.DeepCopy().StorageClassName},
		Service:    spec.Service.DeepCopy(),
		Scheduling: spec.Scheduling.DeepCopy(),
	}
	if s.After != nil {
		c.Parameters = platformv1.Parameters{"down-after-milliseconds": platformv1.ParameterValue(strconv.FormatInt(s.After.Milliseconds(), 10))}
	}
	return []platformv1.ApplicationComponent{c}
}

func failover(f *databasev1.RedisFailover) *platformv1.Failover {
	if f == nil {
		return nil
	}
	return (&platformv1.Failover{Mode: f.Mode, After: f.After}).DeepCopy()
}

// running is written down only where it is false: true is the default.
func running(wanted *bool) *bool {
	if wanted == nil || *wanted {
		return nil
	}
	return new(false)
}

func storage(s databasev1.RedisStorage) *platformv1.Storage {
	out := platformv1.Storage{Size: s.Size, StorageClassName: s.StorageClassName}
	if out.Size.IsZero() {
		out.Size = defaultSize
	}
	return out.DeepCopy()
}

func credentials(auth *databasev1.RedisAuth) []platformv1.Credential {
	if auth == nil {
		return nil
	}
	from := auth.PasswordFrom
	from.Key = cmp.Or(from.Key, passwordKey)
	return []platformv1.Credential{{Name: credential, PasswordFrom: from}}
}

// parameters puts the fields that are parameters of Redis beside those that the user
// names himself; the CRD keeps the two apart.
func parameters(spec *databasev1.RedisSpec) platformv1.Parameters {
	out := platformv1.Parameters{}
	maps.Copy(out, spec.Parameters)
	if spec.Maxmemory != nil {
		out["maxmemory"] = platformv1.ParameterValue(strconv.FormatInt(spec.Maxmemory.Value(), 10))
	}
	if spec.MaxmemoryPolicy != "" {
		out["maxmemory-policy"] = platformv1.ParameterValue(spec.MaxmemoryPolicy)
	}
	if d := spec.Durability; d != nil {
		out["min-replicas-to-write"] = number(d.MinReplicas)
		out["min-replicas-max-lag"] = number(cmp.Or(d.MaxLagSeconds, defaultMaxLag))
	}
	maps.Copy(out, persistence(spec.Persistence))
	return out
}

func number(n int32) platformv1.ParameterValue {
	return platformv1.ParameterValue(strconv.Itoa(int(n)))
}

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
