// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"cmp"
	"maps"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// What the plugin postgresql calls things.
const (
	plugin        = "postgresql"
	pluginVersion = "1.0.0"
	topology      = "replication"
	component     = "postgresql"
	pooler        = "pooler"
)

// defaultPoolers can lose one.
const defaultPoolers = 2

// instance is what a PostgreSQL has of an InstanceSpec.
var instance = typed.Instance{
	Plugin: plugin, PluginVersion: pluginVersion, Component: component, Size: resource.MustParse("5Gi"),
	Role: kindparts.Primary, Replicas: "replicas", Whole: "a PostgreSQL",
}

// Compile implements typed.Kind. The defaults that the CRD states are filled in here too, for callers that have no API
// server before them.
func (Kind) Compile(p *databasev1.PostgreSQL) (*typed.Output, error) {
	spec := &p.Spec
	app := instance.Application(&spec.InstanceSpec, spec.PluginVersion)
	main := &app.Spec.Components[0]
	main.Autoscaling = kindparts.Autoscaling(spec.Autoscaling)
	if main.Autoscaling == nil {
		main.Replicas = new(spec.Replicas + 1)
	}
	maps.Copy(main.Parameters, kindparts.ArchiveParameters(spec.Archive))
	maps.Copy(main.Parameters, hbaParameters(spec.HBA))
	maps.Copy(main.Parameters, synchronous(spec.Synchronous))
	app.Spec.Topology, app.Spec.Failover = topology, kindparts.Failover(spec.Failover)
	app.Spec.Archive = kindparts.ArchiveIn(spec.Archive)
	app.Spec.Credentials = append(credentials(spec), kindparts.ArchiveCredentials(spec.Archive)...)
	app.Spec.Components = append(app.Spec.Components, poolers(spec)...)
	return &typed.Output{Application: app, Entities: entities(p)}, nil
}

// synchronous is how replicas take part in commits, as parameters. What is not said is the plugin's to say.
func synchronous(s *databasev1.PostgreSQLSynchronous) platformv1.Parameters {
	if s == nil {
		return nil
	}
	out := platformv1.Parameters{
		"synchronous.method":   typed.Lower(cmp.Or(s.Method, databasev1.SynchronousAny)),
		"synchronous.shortage": typed.Lower(cmp.Or(s.Shortage, platformv1.ShortageWait)),
	}
	if s.Replicas != nil {
		out["synchronous.replicas"] = typed.Number(*s.Replicas)
	}
	return out
}

// poolers are in the same places as the servers, and measured as they are. Without the component there are none.
func poolers(spec *databasev1.PostgreSQLSpec) []platformv1.ApplicationComponent {
	p := spec.Pooler
	if p == nil {
		return nil
	}
	set := platformv1.Parameters{"pool_mode": typed.Lower(cmp.Or(p.Mode, databasev1.PoolTransaction))}
	maps.Copy(set, p.Parameters)
	return []platformv1.ApplicationComponent{{
		Name:       pooler,
		Replicas:   new(cmp.Or(p.Replicas, defaultPoolers)),
		Resources:  *p.Resources.DeepCopy(),
		Parameters: set,
		Service:    p.Service.DeepCopy(),
		Scheduling: spec.Scheduling.DeepCopy(),
		Monitoring: spec.Monitoring.DeepCopy(),
	}}
}
