// SPDX-License-Identifier: Apache-2.0

// Package dump carries what is in a server from one to another by what its objects are, and not by its files: to a
// server of the same version, or of a later one.
//
// A dump is a tar, as docs/backup-format.md has it: dump.json (a [Header]); for each database, by its number, what all
// databases have in common (globals.sql, where that is another than before: roles and their rights, as pg_dumpall
// writes them) and the database (an archive of pg_dump in its custom format, in pieces, since nobody knows how long it
// is before it is all there); last whole.json (a [Trailer]).
//
//   - Each database is as it was at one moment. A role that something in it is of is in the globals before it: those
//     are taken after that moment, while pg_dump begins with it, and both begin anew where a role or a table has gone
//     meanwhile ([Source]).
//   - It goes into a server of its own on new data, where nobody else is ([Target]). Whatever goes wrong ends it.
package dump
