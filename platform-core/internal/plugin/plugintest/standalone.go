// SPDX-License-Identifier: Apache-2.0

// Package plugintest makes plugins for tests out of those of the suite.
package plugintest

import (
	_ "embed"
	"fmt"
	"maps"
	"strings"
)

// standalone is components.yaml of a Redis with one topology, standalone, and without what has it take parameters over
// while it runs.
//
//go:embed standalone.yaml
var standalone string

// Begin and end of the defaults of the plugin redis: they are for the reload that standalone does not have.
const (
	beginOfDefaults = "defaults:\n  # A primary that is killed"
	endOfDefaults   = "# Parameters whose value is several words"
)

// Standalone makes of the parts of the plugin redis, each with its texts by key, a small plugin, whose texts are there
// once, for tests that change some of them. Its components are its own; parameters, templates and operations are those
// of the plugin redis.
func Standalone(components, parameters, templates, operations map[string]string) error {
	components["components.yaml"] = standalone
	before, rest, begins := strings.Cut(parameters["redis.yaml"], beginOfDefaults)
	_, after, ends := strings.Cut(rest, endOfDefaults)
	if !begins || !ends {
		return fmt.Errorf("redis.yaml of the plugin redis has no %q before %q", beginOfDefaults, endOfDefaults)
	}
	parameters["redis.yaml"] = before + endOfDefaults + after
	others := func(key, _ string) bool {
		return !strings.HasPrefix(key, "redis.") && !strings.HasPrefix(key, "acl-user.")
	}
	maps.DeleteFunc(parameters, others)
	maps.DeleteFunc(templates, others)
	maps.DeleteFunc(operations, func(key, _ string) bool { return key != "Restart.yaml" })
	return nil
}
