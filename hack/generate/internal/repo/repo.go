// SPDX-License-Identifier: Apache-2.0

// Package repo knows the repository: where its root is and which operators it has.
package repo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Operator is one operator of the suite.
type Operator struct {
	// Domain is the value of the domain label, for example database.
	Domain string
	// Group is the API group of its kinds.
	Group string
	// About says in a few words what it looks after.
	About string
}

// Name of the operator, of its folder, its chart and its image.
func (o Operator) Name() string { return o.Domain + "-operator" }

// Operators of the suite.
var Operators = []Operator{
	{Domain: "storage", Group: "storage.zeroinfra.github.com", About: "object, file and block storage"},
	{Domain: "database", Group: "database.zeroinfra.github.com", About: "databases and caches"},
	{Domain: "message", Group: "message.zeroinfra.github.com", About: "message brokers and streams"},
	{Domain: "model", Group: "ai.zeroinfra.github.com", About: "training and serving of models"},
	{Domain: "common", Group: "common.zeroinfra.github.com", About: "services that every platform needs"},
	{Domain: "batch", Group: "batch.zeroinfra.github.com", About: "jobs and workflows"},
}

// Root returns the root of the repository that the working directory is in: the
// nearest folder above that has a VERSION file and a platform-core folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if exists(filepath.Join(dir, "VERSION")) && exists(filepath.Join(dir, "platform-core")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("cannot find the root of the repository: run this inside of it")
		}
		dir = parent
	}
}

// Version returns the version of the suite.
func Version(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return "", fmt.Errorf("cannot read version of the suite: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
