// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=redisclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=redisclusters/status,verbs=get;patch
// +kubebuilder:rbac:groups=database.zeroinfra.github.com,resources=redisclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=entities,verbs=create;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=redisclusters.database.zeroinfra.github.com,verbs=patch

// Kind is the kind RedisCluster.
type Kind struct{}

var (
	_ typed.Kind[*databasev1.RedisCluster]     = Kind{}
	_ typed.Reporter[*databasev1.RedisCluster] = Kind{}
	_ typed.Writer                             = Kind{}
	_ typed.Converter                          = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return "RedisCluster" }

// WriteThrough implements typed.Writer.
func (Kind) WriteThrough() map[string]string { return instance.WriteThrough() }

// Convert implements typed.Converter.
func (Kind) Convert(field string, value any) (any, error) { return instance.Convert(field, value) }

// New implements typed.Kind.
func (Kind) New() *databasev1.RedisCluster { return &databasev1.RedisCluster{} }
