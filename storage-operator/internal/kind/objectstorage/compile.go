// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// Topologies of the plugins minio, which has the first two, and s3-external.
const (
	standalone  = "standalone"
	distributed = "distributed"
	external    = "external"
)

// externalVersion is the one release line of s3-external.
const externalVersion = "2006.3"

// servers of MinIO, and the keeper that looks after the buckets of a storage elsewhere, with what each has of an
// InstanceSpec.
var (
	servers = typed.Instance{Plugin: "minio", PluginVersion: "1.0.0", Component: "minio", Size: resource.MustParse("10Gi")}
	keeper  = typed.Instance{Plugin: "s3-external", PluginVersion: "1.0.0", Component: "keeper"}
)

// Compile implements typed.Kind.
func (k Kind) Compile(o *storagev1.ObjectStorage) (*typed.Output, error) {
	return k.CompileWith(o, nil)
}

// CompileWith implements typed.Referrer. What is left out has the defaults of the plugin, which are those that the CRD
// states.
func (Kind) CompileWith(o *storagev1.ObjectStorage, referents typed.Referents) (*typed.Output, error) {
	app := ofServers(&o.Spec)
	if o.Spec.Backend == storagev1.BackendExternal {
		app = ofKeeper(&o.Spec)
	}
	return &typed.Output{Application: app, Entities: entities(o, referents)}, nil
}

// ofServers is the Application of servers: one, or pools in their order.
func ofServers(spec *storagev1.ObjectStorageSpec) *platformv1.Application {
	app := servers.Application(&spec.InstanceSpec, spec.PluginVersion)
	app.Spec.Topology = standalone
	app.Spec.Credentials = typed.Authority("trusted-ca", spec.TrustedCASecretRef)
	main := &app.Spec.Components[0]
	for _, pool := range spec.Pools {
		app.Spec.Topology = distributed
		main.Sets = append(main.Sets, platformv1.ComponentSet{Name: pool.Name, Replicas: new(pool.Servers)})
	}
	if spec.Parity != nil {
		main.Parameters["storage_class_standard"] = "EC:" + typed.Number(*spec.Parity)
	}
	return app
}

// ofKeeper is the Application of a keeper. The schema lets none through that does not say where the storage is; the pod
// of one that does not is not ready, and says so.
func ofKeeper(spec *storagev1.ObjectStorageSpec) *platformv1.Application {
	at := cmp.Or(spec.External, &storagev1.ObjectStorageExternal{})
	app := keeper.Application(&spec.InstanceSpec, spec.PluginVersion)
	app.Spec.Version, app.Spec.Topology = externalVersion, external
	app.Spec.Components[0].Parameters = typed.ParametersOf(at)
	account := at.CredentialsSecretRef.Name
	app.Spec.Credentials = append(typed.Authority("storage-ca", at.CASecretRef),
		typed.Supplied("access-key", account, "accessKey"), typed.Supplied("secret-key", account, "secretKey"))
	return app
}
