// SPDX-License-Identifier: Apache-2.0

//go:build processes

package plugin

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The server that is installed knows what is on record of its version, and takes by CONFIG SET what is dynamic, and
// nothing else.
func TestRedisServerSaysTheSame(t *testing.T) {
	b, c, parameters := wholeRedis(t)
	cli := serveRedis(t)
	info, err := cli("INFO", "server")
	if err != nil {
		t.Fatal(info)
	}
	_, rest, _ := strings.Cut(info, "redis_version:")
	version := strings.Join(strings.SplitN(rest, ".", 3)[:2], ".")
	if !slices.Contains(b.Manifest.SupportedVersions, version) {
		t.Fatalf("the server is of version %q: put redis-server of one of %v in the path", version,
			b.Manifest.SupportedVersions)
	}
	answer, err := cli("--json", "CONFIG", "GET", "*")
	if err != nil {
		t.Fatal(answer)
	}
	var server map[string]string
	if err := json.Unmarshal([]byte(answer), &server); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(server)),
		slices.Sorted(maps.Keys(ownValues(t, version))); !slices.Equal(got, want) {
		t.Errorf("the server knows %v; on record are %v", got, want)
	}
	resetValues := b.resetValues(c, version)
	for _, name := range parameters.Names(version) {
		value, dynamic := resetValues[name]
		if !dynamic {
			value = server[name]
		}
		said, err := cli("CONFIG", "SET", name, value)
		switch {
		case name == "maxclients" || name == started:
			// The first depends on how many files a process may open here.
		case dynamic && err != nil:
			t.Errorf("%s is dynamic, and the server does not take %q: %s", name, value, said)
		case !dynamic && (err == nil || !strings.Contains(said, "immutable")):
			t.Errorf("%s is fixed, and the server says %q", name, said)
		}
		if got, err := cli("--json", "CONFIG", "GET", name); err != nil || name != "maxclients" &&
			!strings.Contains(got, mustJSON(t, value)) {
			t.Errorf("%s was set to %q and is %s, %v", name, value, got, err)
		}
	}
}

func mustJSON(t *testing.T, value string) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// serveRedis starts the server that is installed, told nothing but where to listen, and returns its client.
func serveRedis(t *testing.T) func(args ...string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	socket := filepath.Join(folder, "s")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder)
	if err := server.Start(); err != nil {
		t.Fatalf("redis-server has to be installed: %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	cli := func(args ...string) (string, error) {
		out, err := exec.Command("redis-cli", append([]string{"-e", "-s", socket}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		said, err := cli("PING")
		if err == nil && said == "PONG" {
			return cli
		}
		if time.Now().After(end) {
			t.Fatalf("redis-server does not answer: %s, %v", said, err)
		}
	}
}
