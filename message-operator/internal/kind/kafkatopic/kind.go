// SPDX-License-Identifier: Apache-2.0

package kafkatopic

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// +kubebuilder:rbac:groups=message.zeroinfra.github.com,resources=kafkatopics,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=message.zeroinfra.github.com,resources=kafkatopics/status,verbs=get;patch
// +kubebuilder:rbac:groups=message.zeroinfra.github.com,resources=kafkatopics/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=entities,verbs=create;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=kafkatopics.message.zeroinfra.github.com,verbs=patch

// Kind is the kind KafkaTopic.
type Kind struct{}

var (
	_ typed.Kind[*messagev1.KafkaTopic]           = Kind{}
	_ typed.EntityReporter[*messagev1.KafkaTopic] = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return "KafkaTopic" }

// New implements typed.Kind.
func (Kind) New() *messagev1.KafkaTopic { return &messagev1.KafkaTopic{} }
