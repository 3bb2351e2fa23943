// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"cmp"
	"encoding/json"
	"errors"
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
	pluginVersion = "1.3.0"
	component     = "minio"
	standalone    = "standalone"
	distributed   = "distributed"
)

// defaultSize of a volume.
var defaultSize = resource.MustParse("10Gi")

// Compile implements typed.Kind.
func (k Kind) Compile(o *storagev1.ObjectStorage) (*typed.Output, error) {
	return k.CompileWith(o, nil)
}

// CompileWith implements typed.Referrer. The defaults that the CRD states are filled in here too, for callers that have no API server before them.
func (Kind) CompileWith(o *storagev1.ObjectStorage, referents typed.Referents) (*typed.Output, error) {
	spec := &o.Spec
	if err := checkInside(spec); err != nil {
		return nil, err
	}
	if spec.Backend == storagev1.BackendExternal && spec.External == nil {
		return nil, errors.New("backend External needs external: where the storage is, and the Secret with the keys of an account there")
	}
	app := &platformv1.Application{
		Spec: platformv1.ApplicationSpec{
			PluginVersion:  cmp.Or(spec.PluginVersion, pluginVersion),
			Maintenance:    spec.Maintenance.DeepCopy(),
			Schedules:      spec.DeepCopy().Schedules,
			DeletionPolicy: cmp.Or(spec.DeletionPolicy, platformv1.DeletionPolicyRetain),
			Keeping:        spec.Keeping,
			RestoreFrom:    spec.RestoreFrom.DeepCopy(),
		},
	}
	if spec.Backend == storagev1.BackendExternal {
		compileExternal(&app.Spec, spec)
	} else {
		compileMinio(&app.Spec, spec)
	}
	if spec.Running != nil && !*spec.Running {
		// Written down only where it is false: true is the default.
		app.Spec.Running = new(false)
	}
	return &typed.Output{Application: app, Entities: entities(o, referents)}, nil
}

// compileMinio adds the servers.
func compileMinio(app *platformv1.ApplicationSpec, spec *storagev1.ObjectStorageSpec) {
	app.Plugin, app.Version, app.Topology = plugin, spec.Version, standalone
	if len(spec.Pools) > 0 {
		app.Topology = distributed
	}
	app.Components = []platformv1.ApplicationComponent{{
		Name:                component,
		Sets:                sets(spec.Pools),
		Resources:           *spec.Resources.DeepCopy(),
		Storage:             volume(spec.Storage.DeepCopy()),
		Parameters:          parameters(spec),
		Service:             spec.Service.DeepCopy(),
		Scheduling:          spec.Scheduling.DeepCopy(),
		PodDisruptionBudget: spec.PodDisruptionBudget.DeepCopy(),
		Monitoring:          spec.Monitoring.DeepCopy(),
	}}
	if ca := spec.TrustedCASecretRef; ca != nil {
		app.Credentials = []platformv1.Credential{supplied("trusted-ca", ca.Name, cmp.Or(ca.Key, authorityKey))}
	}
	app.NetworkPolicy, app.TLS = spec.NetworkPolicy.DeepCopy(), spec.TLS.DeepCopy()
}

// sets are the pools, in their order.
func sets(pools []storagev1.ObjectStoragePool) []platformv1.ComponentSet {
	var sets []platformv1.ComponentSet
	for _, pool := range pools {
		sets = append(sets, platformv1.ComponentSet{Name: pool.Name, Replicas: new(pool.Servers)})
	}
	return sets
}

func volume(asked *storagev1.ObjectStorageVolume) *platformv1.Storage {
	if asked.Size.IsZero() {
		asked.Size = defaultSize.DeepCopy()
	}
	return &platformv1.Storage{Size: asked.Size, StorageClassName: asked.StorageClassName}
}

// parameters puts the fields that are parameters of the plugin beside those that the user names himself; the CRD keeps the two apart.
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
			return fmt.Errorf("lifecycle of bucket %q takes %d characters, and at most %d are allowed: use fewer rules or shorter prefixes", b.Name, n, maxText)
		}
	}
	for _, p := range spec.Policies {
		if !json.Valid([]byte(p.Document)) {
			return fmt.Errorf("document of policy %q is no JSON: mend it", p.Name)
		}
	}
	for _, u := range spec.Users {
		if n := len(grants(u.Grants)); n > maxText {
			return fmt.Errorf("grants of user %q take %d characters, and at most %d are allowed: use fewer of them, or policies", u.Name, n, maxText)
		}
	}
	return nil
}
