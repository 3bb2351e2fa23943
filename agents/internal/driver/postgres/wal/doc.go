// SPDX-License-Identifier: Apache-2.0

// Package wal keeps a PostgreSQL's write-ahead log in a store, as the server's archive_command, and gives it back, as
// its restore_command.
//
//   - An archive is of one system: its mark says which, and another one is refused ([Archive.Keep]).
//   - A timeline is a number and the term in which it began, so that two that two servers gave one number are two
//     ([Timeline]).
//   - A file is one object: a frame with its sum, then the file in the format of zstd, which skips the frame. What is
//     there is compared, and never written over. Partial segments are not compared: servers that leave one timeline
//     have one each.
//   - A server that asks for one file has those that are next kept as well, several at once. What is kept is noted
//     beside, and answered from there: a note says that it is in the store already, so that losing one costs a request
//     and no log.
//   - Whoever restores is told apart what has not been written yet (the end) from what is missing (a gap) and from a
//     store that cannot be read: a recovery must never end at one of those.
package wal
