// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// What WriteThrough names of a RedisCluster is what the field of the Application comes from.
func TestWriteThroughIsWhatCompileDoes(t *testing.T) {
	samples := map[string]struct{ spec, want string }{
		"running":                       {`{"running":false}`, `"running":false`},
		"version":                       {`{"version":"8.0"}`, `"version":"8.0"`},
		"pluginVersion":                 {`{"pluginVersion":"1.1.0"}`, `"pluginVersion":"1.1.0"`},
		"components[node].resources":    {`{"resources":{"limits":{"memory":"3Gi"}}}`, `"resources":{"limits":{"memory":"3Gi"}}`},
		"components[node].storage.size": {`{"storage":{"size":"7Gi"}}`, `"storage":{"size":"7Gi"}`},
		"components[node].replicas":     {`{"replicasPerShard":2}`, `"replicas":3`},
	}
	mapping := Kind{}.WriteThrough()
	if got, want := slices.Sorted(maps.Keys(mapping)), slices.Sorted(maps.Keys(samples)); !slices.Equal(got, want) {
		t.Fatalf("fields are %v, and samples are for %v", got, want)
	}
	for field, sample := range samples {
		r := &databasev1.RedisCluster{}
		if err := json.Unmarshal([]byte(sample.spec), &r.Spec); err != nil {
			t.Fatal(err)
		}
		if first := strings.Split(mapping[field], ".")[0]; !strings.Contains(sample.spec, `"`+first+`"`) {
			t.Errorf("%s comes from %s, and the sample is %s", field, mapping[field], sample.spec)
		}
		app, err := Kind{}.Compile(r)
		if err != nil {
			t.Fatal(err)
		}
		if spec, _ := json.Marshal(app.Spec); !strings.Contains(string(spec), sample.want) {
			t.Errorf("%s of %s is not in %s", field, sample.spec, spec)
		}
	}
}

// A RedisCluster counts the replicas of a shard, and its Application the pods.
func TestConvertCountsThePrimary(t *testing.T) {
	for pods, want := range map[int64]any{3: int64(2), 1: int64(0), 0: nil} {
		got, err := Kind{}.Convert("components[node].replicas", pods)
		if got != want || (err == nil) != (want != nil) {
			t.Errorf("%d pods are %v replicas, %v; want %v", pods, got, err, want)
		}
	}
	if got, err := (Kind{}).Convert("version", "8.0"); got != "8.0" || err != nil {
		t.Errorf("the version is %v, %v", got, err)
	}
}
