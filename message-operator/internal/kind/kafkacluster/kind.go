// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/message-operator/internal/kafkaparts"
)

// +kubebuilder:rbac:groups=message.zeroinfra.github.com,resources=kafkaclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=message.zeroinfra.github.com,resources=kafkaclusters/status,verbs=get;patch
// +kubebuilder:rbac:groups=message.zeroinfra.github.com,resources=kafkaclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=entities,verbs=create;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=kafkaclusters.message.zeroinfra.github.com,verbs=patch

// Kind is the kind KafkaCluster.
type Kind struct{}

var (
	_ typed.Kind[*messagev1.KafkaCluster]     = Kind{}
	_ typed.Reporter[*messagev1.KafkaCluster] = Kind{}
	_ typed.Writer                            = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return kafkaparts.ClusterKind }

// New implements typed.Kind.
func (Kind) New() *messagev1.KafkaCluster { return &messagev1.KafkaCluster{} }

// WriteThrough implements typed.Writer.
func (Kind) WriteThrough() map[string]string {
	fields := instance.WriteThrough()
	fields["components["+component+"].replicas"] = "replicas"
	fields["components["+keeper+"].resources"] = "resources"
	fields["components["+controller+"].replicas"] = "controllers.replicas"
	fields["components["+controller+"].resources"] = "controllers.resources"
	fields["components["+controller+"].storage.size"] = "controllers.storage.size"
	fields["components["+zookeeper+"].resources"] = "zookeeper.resources"
	fields["components["+zookeeper+"].storage.size"] = "zookeeper.storage.size"
	return fields
}
