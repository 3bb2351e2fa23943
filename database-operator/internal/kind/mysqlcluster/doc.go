// SPDX-License-Identifier: Apache-2.0

// Package mysqlcluster is the kind MySQLCluster.
//
// It compiles to an Application of the plugin mysql with the topology group, of which the fields of the spec are
// about the component mysql, and to an Entity for each database, user and grant. Compile is a pure function; testdata
// holds what it makes of each input. The frame in sdk/typed does the rest under the field owner typed/mysqlcluster: it
// applies the Application, mirrors its conditions (Ready, Reconciling, Stalled, Accepted, and TablesReplicable and
// Writable of the plugin) and phase, and has Report fill in the rest of the status.
//
// One with adoptMySQL has the Application of that MySQL, under the name that it has, and changes its topology
// (docs/adr/0057).
//
// Fields left out, of those that instances can have: logs, since what the processes log is on their standard output,
// and autoscaling, since a member that is added copies all data, and an even number of them is none to stay at.
package mysqlcluster
