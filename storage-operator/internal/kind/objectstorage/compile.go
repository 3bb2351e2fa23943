// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

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
	if err := checkInside(spec); err != nil {
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
	app.Spec.Topology, main.Sets, main.Parameters = standalone, sets(spec.Pools), parameters(spec)
	if len(spec.Pools) > 0 {
		app.Spec.Topology = distributed
	}
	if ca := spec.TrustedCASecretRef; ca != nil {
		app.Spec.Credentials = []platformv1.Credential{supplied("trusted-ca", ca.Name, cmp.Or(ca.Key, authorityKey))}
	}
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

// parameters puts the fields that are parameters of the plugin beside those that the user names himself; the CRD keeps
// the two apart.
func parameters(spec *storagev1.ObjectStorageSpec) platformv1.Parameters {
	out := platformv1.Parameters{}
	maps.Copy(out, spec.Parameters)
	if spec.Parity != nil {
		out["storage_class_standard"] = platformv1.ParameterValue(fmt.Sprintf("EC:%d", *spec.Parity))
	}
	return out
}

// maxText is the longest text that an Entity can have as a parameter, in characters.
const maxText = 4096

// checkInside says what no Entity could say.
func checkInside(spec *storagev1.ObjectStorageSpec) error {
	for _, b := range spec.Buckets {
		if b.Policy != "" && !json.Valid([]byte(b.Policy)) {
			return fmt.Errorf("policy of bucket %q is no JSON: mend it, or set access in its place", b.Name)
		}
		if n := len(lifecycle(b.Lifecycle)); n > maxText {
			return fmt.Errorf("lifecycle of bucket %q takes %d characters, and at most %d are allowed: use fewer rules or "+
				"shorter prefixes", b.Name, n, maxText)
		}
	}
	for _, p := range spec.Policies {
		if !json.Valid([]byte(p.Document)) {
			return fmt.Errorf("document of policy %q is no JSON: mend it", p.Name)
		}
	}
	for _, u := range spec.Users {
		if n := len(grants(u.Grants)); n > maxText {
			return fmt.Errorf("grants of user %q take %d characters, and at most %d are allowed: use fewer of them, or policies",
				u.Name, n, maxText)
		}
	}
	return nil
}
