// SPDX-License-Identifier: Apache-2.0

// Package failover decides which member of a set is the primary, where the component declares a failover. Package
// permission defines the protocol and its safety; this package decides when the primary is replaced, and by which
// candidate. It is pure: [Plan] takes [Facts] and returns steps with reasons, without a client and without a clock. A
// [Memory] holds the in-memory state of one process between two decisions; losing it costs time, not safety.
//
// Rules, in order of weight:
//   - The first primary is named when each wanted pod has reported its identity. It is the first pod, and the only
//     member. Where volumes know an earlier term, it is the primary of the latest one, or else the pod with the most
//     advanced data.
//   - A primary has failed when its pod is gone, its volume was replaced, its node is lost, its process is down or
//     unhealthy for longer than After (half a minute if it never wrote in its term), or when a replica suspects it and
//     the engine cannot reach it either. A process that fails again soon after its recovery does not get the time anew.
//     A process that answers but has no connection left for the probe has not failed. The primary loses its Service
//     label a second before it is deposed.
//   - A primary is deposed only when there is a candidate: a member of each list that counts, alive, healthy and within
//     MaxLag. The most advanced candidate wins, then the lowest ordinal. Orders are compared within one history. Data
//     that continues the history of another pod wins over it, then data of the primary's history. A history that the
//     primary began without reporting it wins over both. With mode Manual only an order deposes the primary.
//   - A switchover works in the same way. Where the plugin declares a handover action, the primary is paused first,
//     until the candidate has all of its data. An order to take over at once does not wait for the primary.
//   - While no primary is named, all members are asked to promise the new term. The former primary ends with its own
//     promise. If it does not answer, its write lease has to expire.
//   - A pod becomes a member when it is healthy and in sync. It is removed when it is not wanted, when its volume was
//     replaced, or after half a minute of not being healthy and in sync while the primary is healthy.
//   - Members that do not have the current record are told.
package failover
