// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// What the plugin minio calls things.
const (
	plugin        = "minio"
	pluginVersion = "1.0.0"
	component     = "minio"
	standalone    = "standalone"
	distributed   = "distributed"
)

// instance is what servers of MinIO have of an InstanceSpec.
var instance = typed.Instance{Plugin: plugin, PluginVersion: pluginVersion, Component: component,
	Size: resource.MustParse("10Gi")}

// Compile implements typed.Kind.
func (k Kind) Compile(o *storagev1.ObjectStorage) (*typed.Output, error) {
	return k.CompileWith(o, nil)
}

// CompileWith implements typed.Referrer. The defaults that the CRD states are filled in here too, for callers that have
// no API server before them.
func (Kind) CompileWith(o *storagev1.ObjectStorage, referents typed.Referents) (*typed.Output, error) {
	spec := &o.Spec
	if err := checkDocuments(spec); err != nil {
		return nil, err
	}
	if spec.Backend != storagev1.BackendExternal {
		return &typed.Output{Application: compileMinio(spec), Entities: entities(o, referents)}, nil
	}
	app, err := compileExternal(spec)
	if err != nil {
		return nil, err
	}
	return &typed.Output{Application: app, Entities: entities(o, referents)}, nil
}

// compileMinio returns the Application of servers.
func compileMinio(spec *storagev1.ObjectStorageSpec) *platformv1.Application {
	app := instance.Application(&spec.InstanceSpec, spec.PluginVersion)
	main := &app.Spec.Components[0]
	app.Spec.Topology, main.Sets = standalone, sets(spec.Pools)
	if len(spec.Pools) > 0 {
		app.Spec.Topology = distributed
	}
	if spec.Parity != nil {
		main.Parameters["storage_class_standard"] = "EC:" + typed.Number(*spec.Parity)
	}
	app.Spec.Credentials = typed.Authority("trusted-ca", spec.TrustedCASecretRef)
	return app
}

// sets are the pools, in their order.
func sets(pools []storagev1.ObjectStoragePool) []platformv1.ComponentSet {
	var sets []platformv1.ComponentSet
	for _, pool := range pools {
		sets = append(sets, platformv1.ComponentSet{Name: pool.Name, Replicas: new(pool.Servers)})
	}
	return sets
}

// checkDocuments refuses policies that are no JSON.
func checkDocuments(spec *storagev1.ObjectStorageSpec) error {
	for _, b := range spec.Buckets {
		if b.Policy != "" && !json.Valid([]byte(b.Policy)) {
			return fmt.Errorf("policy of bucket %q is no JSON: mend it, or set access in its place", b.Name)
		}
	}
	for _, p := range spec.Policies {
		if !json.Valid([]byte(p.Document)) {
			return fmt.Errorf("document of policy %q is no JSON: mend it", p.Name)
		}
	}
	return nil
}
