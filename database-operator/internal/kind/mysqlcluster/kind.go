// SPDX-License-Identifier: Apache-2.0

package mysqlcluster

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=mysqlclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=mysqlclusters/status,verbs=get;patch
// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=mysqlclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=entities,verbs=create;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=mysqlclusters.database.zeroinfra.github.com,verbs=patch

// Kind is the kind MySQLCluster.
type Kind struct{}

var (
	_ typed.Kind[*databasev1.MySQLCluster]     = Kind{}
	_ typed.Reporter[*databasev1.MySQLCluster] = Kind{}
	_ typed.Writer                             = Kind{}
	_ typed.Adopter[*databasev1.MySQLCluster]  = Kind{}
	_ typed.Referrer[*databasev1.MySQLCluster] = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return "MySQLCluster" }

// New implements typed.Kind.
func (Kind) New() *databasev1.MySQLCluster { return &databasev1.MySQLCluster{} }

// WriteThrough implements typed.Writer.
func (Kind) WriteThrough() map[string]string {
	fields := instance.WriteThrough()
	fields["components["+instance.Component+"].replicas"] = "members"
	for _, field := range []string{"replicas", "resources", "parameters"} {
		fields["components["+router+"]."+field] = router + "." + field
	}
	return fields
}
