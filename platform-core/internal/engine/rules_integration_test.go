// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// stored is a spec whose component has storage of a size and a class; empty for that of the cluster.
func stored(size, class string) func(*platformv1.ApplicationSpec) {
	return func(s *platformv1.ApplicationSpec) {
		storage := &platformv1.Storage{Size: resource.MustParse(size)}
		if class != "" {
			storage.StorageClassName = &class
		}
		s.Components = []platformv1.ApplicationComponent{{Name: "redis", Storage: storage}}
	}
}

// logged is the same for the volume of access logs.
func logged(size, class string) func(*platformv1.ApplicationSpec) {
	return func(s *platformv1.ApplicationSpec) {
		volume := &platformv1.LogsVolume{Size: resource.MustParse(size)}
		if class != "" {
			volume.StorageClassName = &class
		}
		s.Components = []platformv1.ApplicationComponent{{Name: "redis", Logs: &platformv1.Logs{Volume: volume}}}
	}
}

func restored(backup string) func(*platformv1.ApplicationSpec) {
	return func(s *platformv1.ApplicationSpec) { s.RestoreFrom = &platformv1.RestoreFrom{Backup: backup} }
}

// bare is a spec whose component has nothing of its own.
func bare(s *platformv1.ApplicationSpec) {
	s.Components = []platformv1.ApplicationComponent{{Name: "redis"}}
}

// What an Application cannot be, or become, is refused before it is stored, whoever is there to look at it.
func TestApplicationsThatCannotBeAreRefusedAtAdmission(t *testing.T) {
	namespace := env.Namespace(t)
	const adopted = "6f2c1c1e-55b4-4a0e-9f0c-0f6f0a0d8a11"
	type change = func(*platformv1.ApplicationSpec)
	for name, tc := range map[string]struct {
		// from is nil for one that is made; text is empty for what is taken.
		from, to change
		text     string
	}{
		"two-sources": {nil, func(s *platformv1.ApplicationSpec) { restored("b")(s); s.AdoptVolumes = adopted },
			"restoreFrom and adoptVolumes say both where the data comes from: take one of them out"},
		"second-source": {restored("b"), func(s *platformv1.ApplicationSpec) { s.AdoptVolumes = adopted },
			"restoreFrom and adoptVolumes say both where the data comes from: take one of them out"},
		"no-size":      {nil, stored("0", ""), "size must be greater than 0"},
		"source-comes": {bare, restored("b"), "restoreFrom is for an instance that is made, and immutable"},
		"source-goes": {restored("b"), func(s *platformv1.ApplicationSpec) { s.RestoreFrom = nil },
			"restoreFrom is for an instance that is made, and immutable"},
		"other-source":  {restored("b"), restored("c"), "restoreFrom is for an instance that is made, and immutable"},
		"other-plugin":  {bare, func(s *platformv1.ApplicationSpec) { s.Plugin = "valkey" }, "plugin is immutable"},
		"storage-goes":  {stored("1Gi", ""), bare, "storage cannot be removed"},
		"class-comes":   {stored("1Gi", ""), stored("1Gi", "fast"), "storage.storageClassName is immutable"},
		"class-goes":    {stored("1Gi", "fast"), stored("1Gi", ""), "storage.storageClassName is immutable"},
		"other-class":   {stored("1Gi", "fast"), stored("2Gi", "slow"), "storage.storageClassName is immutable"},
		"log-class":     {logged("1Gi", "fast"), logged("1Gi", "slow"), "logs.volume.storageClassName is immutable"},
		"log-classless": {logged("1Gi", "fast"), logged("1Gi", ""), "logs.volume.storageClassName is immutable"},
		"one-source":    {nil, restored("b"), ""},
		"no-volumes":    {nil, func(s *platformv1.ApplicationSpec) { restored("b")(s); s.AdoptVolumes = "" }, ""},
		"storage-comes": {bare, stored("1Gi", "fast"), ""},
		"storage-grows": {stored("1Gi", "fast"), stored("2Gi", "fast"), ""},
		"entry-goes":    {stored("1Gi", "fast"), func(s *platformv1.ApplicationSpec) { s.Components = nil }, ""},
		"logs-go":       {logged("1Gi", "fast"), bare, ""},
	} {
		app := testkit.BuildApplication(namespace, name).Build()
		write := env.Client.Create
		if tc.from != nil {
			tc.from(&app.Spec)
			create(t, app)
			before := app.DeepCopy()
			write = func(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
				return env.Client.Patch(ctx, obj, client.MergeFrom(before))
			}
		}
		tc.to(&app.Spec)
		switch err := write(t.Context(), app); {
		case tc.text == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.text != "" && (err == nil || !strings.Contains(err.Error(), tc.text)):
			t.Errorf("%s: %v, want %s", name, err, tc.text)
		}
	}
}
