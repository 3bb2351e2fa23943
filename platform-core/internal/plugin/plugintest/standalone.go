// SPDX-License-Identifier: Apache-2.0

// Package plugintest makes plugins for tests out of those of the suite.
package plugintest

import (
	"fmt"
	"maps"
	"strings"
)

// part of a text: what it begins with, what comes after it, and what is there in its place.
type part struct{ from, to, instead string }

// replicated are the parts of components.yaml of the plugin redis that are there for the topologies replication and sentinel, and its reload.
var replicated = []part{
	{"      # For reads that may be a moment old.", "    process:\n", ""},
	{"      # Elected by Sentinel, it asks", "      dir: /data\n", "      command: [redis-server, /zeroinfra/config/redis.conf]\n"},
	{"      # Once for each parameter that changed", "      # A server that ran", ""},
	{"          # Who follows shows the writer", "        parameters: All", ""},
	{"      # Elected by Sentinel, a server that", "        -e, -h", "      command: [redis-cli,\n"},
	{"        - {name: SELF, value: \"${pod.fqdn}\", when", "      intervalSeconds", ""},
	{"      role: \"!(", "      version:", "      role: \"'role' in fields ? (fields['role'] == 'master' ? 'primary' : 'replica') : ''\"\n"},
	{"      attributes:\n        # Whether a replica", "    tls:\n", ""},
	{"    # What the engine runs where it names the writer.", "    # Redis itself has no metrics", ""},
	{"    credentials: [default, sentinel]\n  # Those who elect", "topologies:\n", "    credentials: [default]\n"},
	{"  # One primary and its replicas.", "credentials:\n", ""},
	{"  # What Sentinels are to each other", "entities:\n", ""},
	{"  # Each member of a Redis Cluster has a list of its own.", "binding:\n", ""},
	{"  readOnlyService: replica", "  port: redis\n", ""},
}

// defaults are the same of its parameters, with those that the reload is for.
var defaults = []part{{"defaults:\n  # A primary that is killed", "# Parameters whose value is several words", ""}}

// Standalone takes out of the parts of the plugin redis, each with its texts by key, what is there for its other topologies and
// what has it take parameters over while it runs: a small plugin, whose texts are there once, for tests that change some of them.
func Standalone(components, parameters, templates, operations map[string]string) error {
	small, err := without(components["components.yaml"], replicated)
	if err != nil {
		return err
	}
	components["components.yaml"] = strings.Replace(small, "replicas: {default: 1, min: 1, max: 5}", "replicas: {default: 1, min: 1, max: 1}", 1)
	if parameters["redis.yaml"], err = without(parameters["redis.yaml"], defaults); err != nil {
		return err
	}
	others := func(key, _ string) bool {
		return !strings.HasPrefix(key, "redis.") && !strings.HasPrefix(key, "acl-user.")
	}
	maps.DeleteFunc(parameters, others)
	maps.DeleteFunc(templates, others)
	maps.DeleteFunc(operations, func(key, _ string) bool { return key != "Restart.yaml" })
	return nil
}

func without(text string, parts []part) (string, error) {
	for _, p := range parts {
		from := strings.Index(text, p.from)
		if from < 0 {
			return "", fmt.Errorf("the plugin redis has no %q", p.from)
		}
		length := strings.Index(text[from:], p.to)
		if length < 0 {
			return "", fmt.Errorf("the plugin redis has no %q after %q", p.to, p.from)
		}
		text = text[:from] + p.instead + text[from+length:]
	}
	return text, nil
}
