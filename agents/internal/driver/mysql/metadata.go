// SPDX-License-Identifier: Apache-2.0

package mysql

import "fmt"

const (
	// MetadataDatabase is where a MySQL Router asks for the members of a group.
	MetadataDatabase = "mysql_innodb_cluster_metadata"
	// RouterGroup is what routers call the group.
	RouterGroup = "zeroinfra"
	// RouterID is the number of every Router. Nothing is kept of it.
	RouterID = 1
)

// routerViews are the parts of the metadata schema of InnoDB Cluster, in its version 2.0.0, that a Router of 8.0 to 9.7
// reads. They are views of what the group itself says, so that nobody has to keep them. Who reads them needs the right
// to read what they are made of.
var routerViews = []struct{ name, query string }{
	{"schema_version", "SELECT 2 AS major, 0 AS minor, 0 AS patch"},
	{"v2_this_instance", "SELECT '" + RouterGroup + "' AS cluster_id, '" + RouterGroup + "' AS cluster_name, " +
		"'gr' AS cluster_type"},
	{"v2_gr_clusters", "SELECT '" + RouterGroup + "' AS cluster_id, '" + RouterGroup + "' AS cluster_name, " +
		"VARIABLE_VALUE AS group_name, 'gr' AS cluster_type, 'pm' AS primary_mode " +
		"FROM performance_schema.global_variables " +
		"WHERE VARIABLE_NAME = 'group_replication_group_name'"},
	{"v2_instances", "SELECT '" + RouterGroup + "' AS cluster_id, MEMBER_ID AS mysql_server_uuid, " +
		"SUBSTRING_INDEX(MEMBER_HOST, '.', 1) AS label, CONCAT(MEMBER_HOST, ':', MEMBER_PORT) AS address, " +
		"CONCAT(MEMBER_HOST, ':', MEMBER_PORT) AS endpoint, " +
		"NULL AS xendpoint, '{}' AS attributes FROM performance_schema.replication_group_members " +
		"WHERE CHANNEL_NAME = 'group_replication_applier' AND MEMBER_HOST <> ''"},
}

// RouterLines make what a Router reads. They are not replicated: each member has them of its own. A Router notes in the
// table when it was there, if it finds a line of its own; there is none, so that it writes nothing.
func RouterLines() []string {
	lines := []string{"CREATE DATABASE IF NOT EXISTS " + MetadataDatabase}
	for _, view := range routerViews {
		lines = append(lines, fmt.Sprintf("CREATE OR REPLACE DEFINER = 'root'@'%%' SQL SECURITY INVOKER VIEW %s.%s AS %s",
			MetadataDatabase, view.name, view.query))
	}
	return append(lines, "CREATE TABLE IF NOT EXISTS "+MetadataDatabase+".v2_routers ("+
		"router_id INT UNSIGNED PRIMARY KEY, cluster_id CHAR(36), router_name VARCHAR(256), "+
		"product_name VARCHAR(128), address VARCHAR(256), version VARCHAR(12), last_check_in TIMESTAMP NULL, "+
		"attributes JSON, options JSON)")
}

// RouterGrants are what a Router has to be granted; %s stands for its account.
func RouterGrants() []string {
	return []string{
		"GRANT SELECT ON " + MetadataDatabase + ".* TO %s",
		"GRANT UPDATE ON " + MetadataDatabase + ".v2_routers TO %s",
		"GRANT SELECT ON performance_schema.* TO %s",
	}
}
