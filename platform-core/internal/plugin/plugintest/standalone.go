// SPDX-License-Identifier: Apache-2.0

// Package plugintest makes plugins for tests out of those of the suite.
package plugintest

import (
	"fmt"
	"strings"
)

// replicated are the parts of components.yaml of the plugin redis that are there for the topology replication, by the text that each
// begins with and the one that comes after it.
var replicated = [][2]string{
	{"      # For reads that may be a moment old.", "    process:\n"},
	{"          # Who follows shows the writer", "        parameters: All"},
	{"      attributes:\n        # Whether a replica", "    tls:\n"},
	{"    # What the engine runs where it names the writer.", "    # Redis itself has no metrics"},
	{"  # A member of a Redis Cluster.", "topologies:\n"},
	{"  # One primary and its replicas.", "credentials:\n"},
	{"  readOnlyService: replica", "  port: redis\n"},
}

// defaults are the same of its parameters.
var defaults = [][2]string{{"defaults:\n  # A primary that is killed", "# Parameters whose value is several words"}}

// Standalone takes out of components.yaml and of the parameters of the plugin redis what is there for the topology replication: a small
// plugin, whose texts are there once, for tests that change some of them.
func Standalone(components, parameters string) (smallComponents, smallParameters string, err error) {
	if smallComponents, err = without(components, replicated); err != nil {
		return "", "", err
	}
	if smallParameters, err = without(parameters, defaults); err != nil {
		return "", "", err
	}
	return strings.Replace(smallComponents, "replicas: {default: 1, min: 1, max: 5}", "replicas: {default: 1, min: 1, max: 1}", 1), smallParameters, nil
}

func without(text string, parts [][2]string) (string, error) {
	for _, part := range parts {
		from := strings.Index(text, part[0])
		if from < 0 {
			return "", fmt.Errorf("the plugin redis has no %q", part[0])
		}
		length := strings.Index(text[from:], part[1])
		if length < 0 {
			return "", fmt.Errorf("the plugin redis has no %q after %q", part[1], part[0])
		}
		text = text[:from] + text[from+length:]
	}
	return text, nil
}
