// SPDX-License-Identifier: Apache-2.0

// Package binlog keeps the binary logs of MySQL servers in an archive, and replays them on a copy of the data up to a
// point in time.
//
//   - The primary archives its closed logs, and has the server begin another one after a while. A log is named by its
//     server and by when it began, so that nothing has the name of something else.
//   - Members of a group have the same transactions in logs of their own. Which of them an archive has is told by
//     GTIDs, and so is what a log goes on from: nothing is replayed twice, and nothing that has a gap before it.
//   - A transaction is of the time at which its server committed it, as its GTID event has it in microseconds.
//
// Layout, below a folder that is named by the data that the logs are of: logs/<server>/<number>-<seconds>.zst, and the
// same name with .json, which says what is in the log and is written last.
package binlog
