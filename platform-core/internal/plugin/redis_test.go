// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// fixed are the parameters of Redis that CONFIG SET does not take.
var fixed = []string{
	"aof-rewrite-cpulist", "aof_rewrite_cpulist", "bgsave-cpulist", "bgsave_cpulist", "bio-cpulist", "bio_cpulist",
	"databases", "disable-thp",
	"io-threads", "io-threads-do-reads", "rdbchecksum", "server-cpulist", "server_cpulist", "set-proc-title",
	"tcp-backlog",
}

// started is the one that CONFIG SET would take, and that what starts the server needs.
const started = "replica-priority"

// wholeRedis is the plugin with all of its topologies.
func wholeRedis(t *testing.T) (*Bundle, *schema.Component, *Parameters) {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(redisFolder), "redis")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	c, _ := b.Component("redis")
	return b, c, b.Parameters(c)
}

// ownValues are what CONFIG GET * said of a server that was told nothing.
func ownValues(t *testing.T, version string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(redisFolder, "testdata", "config-"+version+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]string
	if err := json.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// Every parameter is dynamic, with the value that the server has without it, or is one that only a start changes.
func TestRedisParametersAreDynamicOrFixed(t *testing.T) {
	b, c, parameters := wholeRedis(t)
	for _, version := range b.Manifest.SupportedVersions {
		own, resetValues := ownValues(t, version), b.resetValues(c, version)
		for _, name := range parameters.Names(version) {
			value, dynamic := resetValues[name]
			if fixed := slices.Contains(fixed, name) || name == started; dynamic == fixed || parameters.Dynamic(name) == fixed {
				t.Errorf("%s: %s is dynamic: %v", version, name, dynamic)
			}
			if dynamic && value != own[name] {
				t.Errorf("%s: %s goes back to %q, and the server has %q", version, name, value, own[name])
			}
		}
		for name, topology := range map[string]string{"redis": "standalone", "node": "cluster"} {
			component, _ := b.Component(name)
			p, err := b.RenderPlan(name, sampleValues(component, topology, version, 0))
			if err != nil || !maps.Equal(p.Process.Reload.ResetValues, resetValues) {
				t.Errorf("%s: the plan of %s says %v, %v", version, name, p.Process.Reload, err)
			}
		}
	}
}

// The memory for data follows the limit of the container, and is never above it.
func TestRedisMemoryFollowsTheLimit(t *testing.T) {
	b, c, _ := wholeRedis(t)
	for limit, want := range map[int64]string{0: "", 16 << 20: "4194304", 48 << 20: "12582912", 64 << 20: "25165824",
		512 << 20: "377487360", 4 << 30: "3196059648"} {
		for _, topology := range []string{"standalone", "replication", "sentinel"} {
			got, err := b.ParametersInForce(c, sampleValues(c, topology, "7.0", limit), nil)
			if err != nil || got["maxmemory"] != want {
				t.Errorf("%s with a limit of %d: maxmemory is %q, %v; want %q", topology, limit, got["maxmemory"], err, want)
			}
		}
	}
	node, _ := b.Component("node")
	if got, err := b.ParametersInForce(node, sampleValues(node, "cluster", "8.0", 512<<20), nil); err != nil ||
		got["maxmemory"] != "377487360" {
		t.Errorf("in a cluster: maxmemory is %q, %v", got["maxmemory"], err)
	}
	for value, fits := range map[platformv1.ParameterValue]bool{
		"0": true, "1073741824": true, "1073741824b": true, "1gb": true, "1024MB": true, "1048576kb": true, "1g": true,
		"1073m": true, "1073741k": true,
		"1073741825": false, "2G": false, "1074m": false, "1025mb": false, "1048577Kb": false, "1073742k": false,
		"999999999999999gb": false,
	} {
		_, err := b.ParametersInForce(c, sampleValues(c, "standalone", "7.0", 1<<30),
			platformv1.Parameters{"maxmemory": value})
		if fits != (err == nil) || err != nil &&
			!strings.Contains(err.Error(), "maxmemory cannot be above the memory limit") {
			t.Errorf("maxmemory %s of 1 GiB: %v", value, err)
		}
		if _, err := b.ParametersInForce(c, sampleValues(c, "standalone", "7.0", 0),
			platformv1.Parameters{"maxmemory": value}); err != nil {
			t.Errorf("maxmemory %s without a limit: %v", value, err)
		}
	}
}
