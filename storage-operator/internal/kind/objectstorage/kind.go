// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// +kubebuilder:rbac:groups=storage.zeroinfra.github.com,resources=objectstorages,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=storage.zeroinfra.github.com,resources=objectstorages/status,verbs=get;patch
// +kubebuilder:rbac:groups=storage.zeroinfra.github.com,resources=objectstorages/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=entities,verbs=create;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=objectstorages.storage.zeroinfra.github.com,verbs=patch

// Kind is the kind ObjectStorage.
type Kind struct{}

var (
	_ typed.Kind[*storagev1.ObjectStorage]           = Kind{}
	_ typed.Reporter[*storagev1.ObjectStorage]       = Kind{}
	_ typed.EntityReporter[*storagev1.ObjectStorage] = Kind{}
	_ typed.Referrer[*storagev1.ObjectStorage]       = Kind{}
	_ typed.Writer                                   = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return "ObjectStorage" }

// New implements typed.Kind.
func (Kind) New() *storagev1.ObjectStorage { return &storagev1.ObjectStorage{} }

// WriteThrough implements typed.Writer. How many servers there are nothing but another pool changes.
func (Kind) WriteThrough() map[string]string {
	fields := servers.WriteThrough()
	fields["components["+keeper.Component+"].resources"] = "resources"
	return fields
}
