// SPDX-License-Identifier: Apache-2.0

// Package failover decides who writes in a set whose component declares a failover: it carries out the protocol of
// package permission, which says what is safe, and decides when and whom. It is pure: facts in, steps with reasons out,
// no client and no clock. What one process remembers in between is a [Memory].
//
// Rules, in order of weight:
//   - The first writer is named when every wanted pod has said who it is: the first of them, as the only member, or
//     where volumes know of an earlier time the one that wrote last, else the one whose data is the most advanced.
//   - A writer fails when its pod goes, its volume is another one, its node is lost, its process is down or unhealthy
//     for longer than After (when it never wrote in its term: for half a minute), or when a follower says that it is
//     not asked any more and the engine does not reach it either. What is down and comes back in time stays the writer,
//     once it has stayed for as long. One that answers and has no connection left for its probe is not down. Services
//     lead to one that is about to be replaced no more, a second before.
//   - It is deposed only when another can take over: a member of every list that counts, alive, healthy, within
//     MaxLag. Of several the most advanced, then the first. How far data is counts within one history only: data that
//     goes on from what another has comes first, and that of the writer's history before any other,
//     but for one that the writer began later and did not come to tell of. With mode Manual only when a person says so.
//   - An order to change the writer is carried out in the same way, after the writer was paused until the candidate has
//     all that it has, where the plugin can do that; an order to take over at once, whatever the writer says.
//   - Once nobody is named, all members are asked for their promise: the writer before ends with its own, and where it
//     does not answer, its permission has to run out.
//   - A pod becomes a member when it is healthy and in sync, and is one no more when it is not wanted, has another
//     volume, or has not been well for half a minute while the writer is.
//   - Members that do not know the record are told.
package failover
