// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=postgresqls,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=postgresqls/status,verbs=get;patch
// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=postgresqls/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=entities,verbs=create;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=postgresqls.database.zeroinfra.github.com,verbs=patch

// Kind is the kind PostgreSQL.
type Kind struct{}

var (
	_ typed.Kind[*databasev1.PostgreSQL]     = Kind{}
	_ typed.Reporter[*databasev1.PostgreSQL] = Kind{}
	_ typed.Writer                           = Kind{}
	_ typed.Converter                        = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return "PostgreSQL" }

// WriteThrough implements typed.Writer.
func (Kind) WriteThrough() map[string]string {
	fields := instance.WriteThrough()
	for _, field := range []string{"replicas", "resources", "parameters"} {
		fields["components["+pooler+"]."+field] = pooler + "." + field
	}
	return fields
}

// Convert implements typed.Converter.
func (Kind) Convert(field string, value any) (any, error) { return instance.Convert(field, value) }

// New implements typed.Kind.
func (Kind) New() *databasev1.PostgreSQL { return &databasev1.PostgreSQL{} }
