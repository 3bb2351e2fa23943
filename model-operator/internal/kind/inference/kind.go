// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=inferences,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=inferences/status,verbs=get;patch
// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=inferences/finalizers,verbs=update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=inferences.ai.zeroinfra.github.com,verbs=patch

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete

// Kind is the kind Inference.
type Kind struct{}

var (
	_ typed.Kind[*aiv1.Inference]           = Kind{}
	_ typed.Reporter[*aiv1.Inference]       = Kind{}
	_ typed.Referrer[*aiv1.Inference]       = Kind{}
	_ typed.Writer                          = Kind{}
	_ typed.ObjectMaker                     = Kind{}
	_ typed.ObjectReporter[*aiv1.Inference] = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return "Inference" }

// New implements typed.Kind.
func (Kind) New() *aiv1.Inference { return &aiv1.Inference{} }

// WriteThrough implements typed.Writer.
func (Kind) WriteThrough() map[string]string {
	fields := instance.WriteThrough()
	of := "components[" + instance.Component + "]."
	fields[of+"replicas"] = "replicas"
	// What is edited at the pods that are always there is said of all.
	for _, field := range []string{"replicas", "resources"} {
		fields[of+"sets["+stableSet+"]."+field] = field
	}
	return fields
}
