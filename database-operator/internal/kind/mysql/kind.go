// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=mysqls,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=mysqls/status,verbs=get;patch
// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=mysqls/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=entities,verbs=create;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=mysqls.database.zeroinfra.github.com,verbs=patch

// Kind is the kind MySQL.
type Kind struct{}

var (
	_ typed.Kind[*databasev1.MySQL]     = Kind{}
	_ typed.Reporter[*databasev1.MySQL] = Kind{}
	_ typed.Writer                      = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return "MySQL" }

// New implements typed.Kind.
func (Kind) New() *databasev1.MySQL { return &databasev1.MySQL{} }

// WriteThrough implements typed.Writer.
func (Kind) WriteThrough() map[string]string {
	return instance.WriteThrough()
}
