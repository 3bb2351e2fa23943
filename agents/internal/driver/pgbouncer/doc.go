// SPDX-License-Identifier: Apache-2.0

// Package pgbouncer speaks with the console of a PgBouncer. The driver asks it what its SHOW commands tell; [Gate] has
// clients wait while another server becomes the one that takes writes.
//
// The console takes no arguments and no prepared statements. Its users are those that PgBouncer calls stats_users,
// which can ask and nothing else, and over the unix socket whoever has the user of the process, which can do
// everything: nobody else reaches that.
package pgbouncer
