// SPDX-License-Identifier: Apache-2.0

// Package postgresql is the kind PostgreSQL: one server with a volume of its own, or a primary with replicas.
//
// It compiles to an Application of the plugin postgresql, with the component postgresql (port 5432), with spec.pooler
// the component pooler (port 6432), and the credential superuser; others are made. The topology is always replication:
// the engine says who writes, also while there is only one server, so that replicas can come and go at any time. Roles,
// databases, their extensions and grants are Entities. Compile and Entities are pure functions; testdata holds what
// Compile makes of each input. The frame in sdk/typed does the rest under the field owner typed/postgresql: it applies
// the Application and the Entities, mirrors conditions (Ready, Reconciling, Stalled, Accepted) and phase, and has
// Report fill in the rest of the status.
//
// Fields left out, of those that instances can have: logs, which is where access logs go, and PostgreSQL writes none.
// What its processes log is on their standard output.
package postgresql
