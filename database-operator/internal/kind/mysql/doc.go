// SPDX-License-Identifier: Apache-2.0

// Package mysql is the kind MySQL.
//
// It compiles to an Application of the plugin mysql with the topology standalone, of which the fields of the spec are
// about the component mysql, and to an Entity for each database, user and grant. Compile is a pure function; testdata
// holds what it makes of each input. The frame in sdk/typed does the rest under the field owner typed/mysql: it applies
// the Application, mirrors its conditions (Ready, Reconciling, Stalled, Accepted, and those of the plugin, such as
// TablesReplicable) and phase, and has Report fill in the rest of the status.
//
// Fields left out, of those that instances can have: logs, since what the processes log is on their standard output,
// and autoscaling, since the number of pods is fixed.
package mysql
