// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Environ returns the environment in which Go is run for components: the
// caller's, outside of any workspace, without cgo and with the flags of the
// caller left out, so that the same inputs give the same programs.
func Environ() []string {
	env := make([]string, 0, len(os.Environ())+4)
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "GOWORK", "GOFLAGS", "CGO_ENABLED", "GOOS", "GOARCH":
		default:
			env = append(env, kv)
		}
	}
	return append(env, "GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
}

// goVersion returns the version of the Go toolchain, such as "go1.26.1".
func goVersion(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", fmt.Errorf("cannot find the go command: install Go 1.26 or newer and put it on PATH: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH")
	cmd.Env = Environ()
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot ask Go for its version: %w", err)
	}
	return strings.Join(strings.Fields(string(out)), "-"), nil
}
