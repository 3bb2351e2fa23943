// SPDX-License-Identifier: Apache-2.0

package router

import (
	"strings"
	"testing"
)

// sections of a configuration.
func sections(text string) map[string][]string {
	found, now := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, is := strings.CutPrefix(line, "["); is {
			now = strings.TrimSuffix(name, "]")
			found[now] = nil
			continue
		}
		if line != "" {
			found[now] = append(found[now], line)
		}
	}
	return found
}

func TestParametersAreInTheirSections(t *testing.T) {
	r := &Router{Parameters: "/c/router.json", Run: "/r", Members: []string{"a:3306", "b:3306"}}
	got := sections(r.text(map[string]string{"ttl": "0.5", "level": "debug", "max_idle_server_connections": "7",
		"wait_for_my_writes": "0", "max_total_connections": "9"}, "::"))
	for section, lines := range map[string][]string{
		"DEFAULT":              {"max_total_connections = 9", "client_ssl_mode = PREFERRED", "server_ssl_mode = PREFERRED"},
		"logger":               {"level = debug"},
		"connection_pool":      {"max_idle_server_connections = 7"},
		"metadata_cache:group": {"ttl = 0.5", "user = zeroinfra_router"},
		"routing:primary":      {"bind_port = 6446", "destinations = metadata-cache://group/?role=PRIMARY"},
		"routing:replicas":     {"bind_port = 6447", "routing_strategy = round-robin-with-fallback"},
		"routing:split":        {"bind_port = 6450", "access_mode = auto", "wait_for_my_writes = 0", "bind_address = ::"},
	} {
		for _, line := range lines {
			for name, has := range got {
				if there := contains(has, line); there != (name == section) && line != "bind_address = ::" {
					t.Errorf("section %s has %q: %t", name, line, there)
				}
			}
		}
	}
}

func TestMembersAreVerifiedWhereThereIsTLS(t *testing.T) {
	r := &Router{Parameters: "/c/router.json", Certificates: "/certs", CAFile: "/certs/ca.crt"}
	got := sections(r.text(nil, "0.0.0.0"))
	for _, line := range []string{"client_ssl_mode = REQUIRED", "client_ssl_cert = /certs/tls.crt",
		"client_ssl_key = /certs/tls.key", "server_ssl_mode = REQUIRED", "server_ssl_verify = VERIFY_IDENTITY",
		"server_ssl_ca = /certs/ca.crt"} {
		if !contains(got["DEFAULT"], line) {
			t.Errorf("there is no %q in %v", line, got["DEFAULT"])
		}
	}
	if has := got["metadata_cache:group"]; !contains(has, "ssl_mode = VERIFY_IDENTITY") {
		t.Errorf("members are not verified: %v", has)
	}
}

func contains(lines []string, line string) bool {
	for _, has := range lines {
		if has == line {
			return true
		}
	}
	return false
}
