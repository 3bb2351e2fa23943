// SPDX-License-Identifier: Apache-2.0

package router

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
)

// Ports at which clients come: to the primary, to the replicas, and to where each statement leads.
const (
	PortPrimary  = 6446
	PortReplicas = 6447
	PortSplit    = 6450
	// PortREST is where the pod's own containers ask for numbers.
	PortREST = 8081
)

// realm is who is let in by the REST API: those whose passwords are in a file.
const realm = "metrics"

// cache is what the Router calls its knowledge of the group.
const cache = "group"

// sectionOf says where a parameter belongs that is not one of all routes.
var sectionOf = map[string]string{
	"idle_timeout":                "connection_pool",
	"level":                       "logger",
	"max_idle_server_connections": "connection_pool",
	"ttl":                         "metadata_cache",
}

// splitOnly are parameters that the route has alone by which statements are split.
var splitOnly = []string{"wait_for_my_writes", "wait_for_my_writes_timeout"}

// text of the configuration. Options in the section DEFAULT are those of all routes.
func (r *Router) text(parameters map[string]string, bind string) string {
	b := &strings.Builder{}
	section := func(name string, lines ...string) {
		fmt.Fprintf(b, "[%s]\n", name)
		kind, _, _ := strings.Cut(name, ":")
		for _, key := range slices.Sorted(maps.Keys(parameters)) {
			if belongs(key, kind, name) {
				lines = append(lines, key+" = "+parameters[key])
			}
		}
		b.WriteString(strings.Join(lines, "\n") + "\n")
	}
	clients, servers := []string{"client_ssl_mode = PREFERRED"}, []string{"server_ssl_mode = PREFERRED"}
	metadata := []string{"ssl_mode = PREFERRED"}
	if r.CAFile != "" {
		clients = []string{"client_ssl_mode = REQUIRED"}
		servers = []string{"server_ssl_mode = REQUIRED", "server_ssl_verify = VERIFY_IDENTITY", "server_ssl_ca = " + r.CAFile}
		metadata = []string{"ssl_mode = VERIFY_IDENTITY", "ssl_ca = " + r.CAFile}
	}
	section("DEFAULT", slices.Concat([]string{
		"name = zeroinfra", "logging_folder =", "runtime_folder = " + r.Run, "data_folder = " + r.Run,
		"keyring_path = " + r.keyring(), "master_key_path = " + r.masterKey(), "dynamic_state = " + r.state(),
		"unknown_config_option = error",
		"client_ssl_cert = " + r.certificate(), "client_ssl_key = " + r.key(),
		// Many clients have the address of one node: one that fails to log in must not keep out the others.
		"max_connect_errors = 4294967295",
	}, r.plugins(), clients, servers)...)
	section("logger")
	section("connection_pool")
	section("metadata_cache:"+cache, slices.Concat([]string{"cluster_type = gr",
		"router_id = " + strconv.Itoa(mysql.RouterID), "user = " + server.RouterUser,
		"metadata_cluster = " + mysql.RouterGroup, "use_gr_notifications = 0"}, metadata)...)
	r.rest(section)
	route := func(name string, port int, role, strategy string, more ...string) {
		section("routing:"+name, append([]string{"bind_address = " + bind, "bind_port = " + strconv.Itoa(port),
			"destinations = metadata-cache://" + cache + "/?role=" + role, "routing_strategy = " + strategy,
			"protocol = classic"}, more...)...)
	}
	route("primary", PortPrimary, "PRIMARY", "first-available")
	// Where there is no replica, the primary serves reads.
	route("replicas", PortReplicas, "SECONDARY", "round-robin-with-fallback")
	route(split, PortSplit, "PRIMARY_AND_SECONDARY", "round-robin", "access_mode = auto", "connection_sharing = 1")
	return b.String()
}

// rest is the REST API, on loopback.
func (r *Router) rest(section func(name string, lines ...string)) {
	section("http_server", "bind_address = 127.0.0.1", "port = "+strconv.Itoa(PortREST), "ssl = 0")
	section("http_auth_backend:"+realm, "backend = file", "filename = "+r.accounts())
	section("http_auth_realm:"+realm, "backend = "+realm, "method = basic", "name = "+realm)
	section("rest_api")
	for _, part := range []string{"rest_connection_pool", "rest_metadata_cache", "rest_router", "rest_routing"} {
		section(part, "require_realm = "+realm)
	}
}

// nobodyYet is in the list of members until the Router has read one.
const nobodyYet = "nobody-yet.invalid:3306"

// members is what the Router knows of the group when it begins: it replaces that by what it reads.
func (r *Router) members() ([]byte, error) {
	var members []string
	for _, member := range append(slices.Clone(r.Members), nobodyYet) {
		members = append(members, "mysql://"+member)
	}
	return json.Marshal(map[string]any{"version": "1.0.0",
		"metadata-cache": map[string]any{"cluster-metadata-servers": members}})
}

func (r *Router) plugins() []string {
	if r.Plugins == "" {
		return nil
	}
	return []string{"plugin_folder = " + r.Plugins}
}

// split is the route by which statements are split.
const split = "split"

// belongs says whether a parameter is of a section.
func belongs(key, kind, name string) bool {
	if slices.Contains(splitOnly, key) {
		return name == "routing:"+split
	}
	if section, found := sectionOf[key]; found {
		return section == kind
	}
	return kind == "DEFAULT"
}
