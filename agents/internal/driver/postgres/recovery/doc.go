// SPDX-License-Identifier: Apache-2.0

// Package recovery makes of a copy of a server's data that of a server of its own: as the copy is, or at a point in
// time that the log of its archive leads to.
//
//   - Whether it leads there is looked up before anything is done ([Reach.Check]): the copy has to be on one of the
//     timelines that the latest one descends from, left after the copy was whole, and the archive has to have a
//     transaction that ended after the time.
//   - The server replays the log by itself, where nobody but this program reaches it, and is stopped again
//     ([Server.Recover]). What ends anywhere but at the target is an error, and the data is not to be used.
//   - The copy has the number of the former server's system. What it is told from it by, in its archive above all, is
//     written last ([Own]).
package recovery
