// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds of this operator.
var GroupVersion = schema.GroupVersion{Group: "ai.zeroinfra.github.com", Version: "v1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the kinds of this operator with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Dataset{}, &DatasetList{},
		&Inference{}, &InferenceList{},
		&Model{}, &ModelList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
