// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(in storagev1.ObjectStorage) (any, error) {
		out, err := Kind{}.Compile(&in)
		if err != nil {
			return nil, err
		}
		return out.Application, nil
	})
}

func TestEntities(t *testing.T) {
	testkit.Golden(t, "testdata/entities",
		func(in storagev1.ObjectStorage) (any, error) { return entities(&in, nil), nil })
}

func TestWriteThroughIsWhatCompileDoes(t *testing.T) {
	testkit.WriteThrough[*storagev1.ObjectStorage](t, Kind{}, map[string]testkit.Written{
		"running":       {Spec: `{"running":false}`, Compiled: `"running":false`},
		"version":       {Spec: `{"version":"2026.3"}`, Compiled: `"version":"2026.3"`},
		"pluginVersion": {Spec: `{"pluginVersion":"1.0.0"}`, Compiled: `"pluginVersion":"1.0.0"`},
		"components[minio].resources": {Spec: `{"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `"resources":{"limits":{"memory":"3Gi"}}`},
		"components[minio].parameters": {Spec: `{"parameters":{"MINIO_X":"20"}}`, Compiled: `"MINIO_X":"20"`},
		"components[keeper].resources": {
			Spec:     `{"backend":"External","external":{},"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `"resources":{"limits":{"memory":"3Gi"}}`},
		"components[minio].storage.size": {Spec: `{"storage":{"size":"7Gi"}}`, Compiled: `"storage":{"size":"7Gi"}`},
	})
}

func TestAnExternalStorageIsWhereItsApplicationIs(t *testing.T) {
	app := &platformv1.Application{Spec: platformv1.ApplicationSpec{Topology: external},
		Status: platformv1.ApplicationStatus{Ready: "1/1", Binding: &platformv1.Binding{Name: "b"},
			Endpoints:  []platformv1.Endpoint{{Name: "s3", Host: "fd00::1", Port: 9000}},
			Components: []platformv1.ComponentState{{Name: "keeper", Sets: []platformv1.SetState{{Name: "main"}}}}}}
	o := &storagev1.ObjectStorage{Spec: storagev1.ObjectStorageSpec{Backend: storagev1.BackendExternal}}
	Kind{}.Report(o, app)
	if s := o.Status; s.Endpoint != "[fd00::1]:9000" || s.BindingName != "b" || s.Ready != "1/1" || s.Pools != nil {
		t.Errorf("got %+v", s)
	}
}

func TestReport(t *testing.T) {
	app := &platformv1.Application{Spec: platformv1.ApplicationSpec{Topology: distributed},
		Status: platformv1.ApplicationStatus{
			Version: "2026.2", Ready: "7/8", Binding: &platformv1.Binding{Name: "objectstorage-a-binding"},
			Endpoints: []platformv1.Endpoint{{Name: "objectstorage-a", Host: "objectstorage-a.shop.svc", Port: 9000}},
			Components: []platformv1.ComponentState{{Name: servers.Component, Sets: []platformv1.SetState{
				{Name: "first", Replicas: 4, ReadyReplicas: 4}, {Name: "second", Replicas: 4, ReadyReplicas: 3},
			}}},
		}}
	app.Name = "objectstorage-a"
	o := &storagev1.ObjectStorage{}
	Kind{}.Report(o, app)
	s := o.Status
	if s.Application != "objectstorage-a" || s.Version != "2026.2" || s.Ready != "7/8" ||
		s.Endpoint != "objectstorage-a.shop.svc:9000" || s.BindingName != "objectstorage-a-binding" {
		t.Errorf("got %+v", s)
	}
	if len(s.Pools) != 2 || s.Pools[1] != (storagev1.ObjectStoragePoolStatus{Name: "second", Servers: 4, Ready: 3}) {
		t.Errorf("got pools %+v", s.Pools)
	}
	// What is gone is not told any more, and a single server is no pool.
	app.Spec.Topology, app.Status.Endpoints, app.Status.Binding = standalone, nil, nil
	Kind{}.Report(o, app)
	if o.Status.Pools != nil || o.Status.Endpoint != "" || o.Status.BindingName != "" {
		t.Errorf("got %+v", o.Status)
	}
}
