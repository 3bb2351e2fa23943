// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// SourcesVariable names the environment variable that points at components/
// when the program runs far from the project.
const SourcesVariable = "DEVCLUSTER_COMPONENTS"

// FindSources finds the folder components/: where the environment says, above
// the working directory or the program's file, or where this was compiled.
func FindSources() (string, error) {
	if dir := os.Getenv(SourcesVariable); dir != "" {
		if isSources(dir) {
			return filepath.Abs(dir)
		}
		return "", errors.New("cannot find the pinned components: " + SourcesVariable + " names no folder that holds them")
	}
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			for _, candidate := range []string{filepath.Join(dir, "hack", "devcluster", "components"),
				filepath.Join(dir, "components")} {
				if isSources(candidate) {
					return candidate, nil
				}
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("cannot find the pinned components: run this inside the project, or set " + SourcesVariable +
		" to its folder hack/devcluster/components")
}

func isSources(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "kubernetes", "go.mod"))
	return err == nil
}

// DefaultCache returns the folder that keeps programs between clusters.
func DefaultCache() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", errors.Join(errors.New("cannot find a cache folder: set HOME or XDG_CACHE_HOME"), err)
	}
	return filepath.Join(base, "zeroinfra", "devcluster"), nil
}
