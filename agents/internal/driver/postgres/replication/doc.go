// SPDX-License-Identifier: Apache-2.0

// Package replication makes a PostgreSQL of one pod the primary of a set or one that follows it, where the engine
// decides which it is.
//
// The process manager starts the server by [Server.Start] and changes what it is by [Server.Promote], [Server.Follow]
// and [Server.UpdateMembers], each a command of its own beside the server. Whoever begins it again does no harm.
//
//   - A follower is started without a primary. It replays what it has; only then it is known how far its data goes, and
//     whether the primary's goes on from that ([Decide]). Where it does, it follows; where it does not, the server is
//     stopped, and the next start rewinds the data or copies the primary's.
//   - Timelines are numbers that two servers can give alike, each to its own history. So each promotion notes the term
//     in which it was beside the number (file zeroinfra.timelines), and data of another term under the same number is
//     another history.
//   - Data that is being copied has another name until it is whole.
//   - Who the primary waits for follows from the list of members that the agent keeps (plan.MemberFile), and from
//     nothing else: that is on record at the API server before it is there.
package replication
