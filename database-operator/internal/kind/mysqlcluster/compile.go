// SPDX-License-Identifier: Apache-2.0

package mysqlcluster

import (
	"cmp"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/mysqlparts"
)

// topology of the plugin for a group.
const topology = "group"

// router is the component of the plugin that clients come to who want one address.
const router = "router"

// defaultRouters can lose one.
const defaultRouters = 2

// defaultMembers are the fewest of which one can be lost.
const defaultMembers = 3

// levels of consistency as MySQL calls them.
var levels = map[databasev1.MySQLConsistency]platformv1.ParameterValue{
	databasev1.MySQLEventual:                "EVENTUAL",
	databasev1.MySQLBeforeOnPrimaryFailover: "BEFORE_ON_PRIMARY_FAILOVER",
	databasev1.MySQLBefore:                  "BEFORE",
	databasev1.MySQLAfter:                   "AFTER",
	databasev1.MySQLBeforeAndAfter:          "BEFORE_AND_AFTER",
}

// instance is what a MySQLCluster has of an InstanceSpec.
var instance = mysqlparts.Instance()

// Compile implements typed.Kind. The defaults that the CRD states are filled in here too, for callers that have no API
// server before them.
func (Kind) Compile(m *databasev1.MySQLCluster) (*typed.Output, error) {
	spec := &m.Spec
	app := instance.Application(&spec.InstanceSpec, spec.PluginVersion)
	main := &app.Spec.Components[0]
	main.Replicas, main.Parameters = new(cmp.Or(spec.Members, defaultMembers)), parameters(spec)
	app.Spec.Topology = topology
	mysqlparts.Complete(app, &spec.MySQLServers)
	app.Spec.Components = append(app.Spec.Components, routers(spec)...)
	return &typed.Output{Application: app, Entities: mysqlparts.Entities(&spec.MySQLServers, spec.RestoreFrom)}, nil
}

// parameters puts the fields that are parameters of MySQL beside those that the user names himself; the CRD keeps the
// two apart. What is left out has the default of the plugin.
func parameters(spec *databasev1.MySQLClusterSpec) platformv1.Parameters {
	out := platformv1.Parameters{}
	if spec.Consistency != "" {
		out["group_replication_consistency"] = levels[spec.Consistency]
	}
	if spec.ExpelTimeout != nil {
		out["group_replication_member_expel_timeout"] = seconds(spec.ExpelTimeout)
	}
	if spec.UnreachableMajorityTimeout != nil {
		out["group_replication_unreachable_majority_timeout"] = seconds(spec.UnreachableMajorityTimeout)
	}
	if spec.AutoRejoinTries != nil {
		out["group_replication_autorejoin_tries"] = typed.Number(*spec.AutoRejoinTries)
	}
	if len(out) == 0 {
		return spec.Parameters
	}
	maps.Copy(out, spec.Parameters)
	return out
}

// seconds of a duration, which has no fraction of one.
func seconds(d *metav1.Duration) platformv1.ParameterValue {
	return typed.Number(int32(d.Seconds()))
}

// routers are in the same places as the members, and measured as they are. Without the component there are none.
func routers(spec *databasev1.MySQLClusterSpec) []platformv1.ApplicationComponent {
	r := spec.Router
	if r == nil {
		return nil
	}
	return []platformv1.ApplicationComponent{{
		Name:       router,
		Replicas:   new(cmp.Or(r.Replicas, defaultRouters)),
		Resources:  *r.Resources.DeepCopy(),
		Parameters: maps.Clone(r.Parameters),
		Service:    r.Service.DeepCopy(),
		Scheduling: spec.Scheduling.DeepCopy(),
		Monitoring: spec.Monitoring.DeepCopy(),
	}}
}
