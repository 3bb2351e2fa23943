// SPDX-License-Identifier: Apache-2.0

// Package cluster brings a Redis Cluster to a wanted shape: which members make up which shard, and which are to go.
//
// It looks at all members (look.go), decides on the next step and says why (plan.go and beside, pure: no clock and no
// network), and carries that step out (act.go, move.go). Then it looks again: nothing is remembered, so that whoever
// begins anew at any point goes on. What holds at each point: a slot is given to its new owner before the old one is
// told, a node is dropped only when no member says that it owns a slot, nobody gives up a copy of what a member owns
// that leaves, nobody takes over without having copied, and a member whose address has changed is met again before
// anybody is dropped. Whatever is not seen, or seen in two ways, is waited for.
package cluster
