// SPDX-License-Identifier: Apache-2.0

// Package mover carries a backup between a command of the middleware and a repository, as package agentproto/mover
// says.
//
// What is in memory is bounded, whatever the size of the data: at most five pieces of [store.PieceSize] on their way,
// and what compression and encryption keep, which is some 20 MiB; the derivation of a key takes 32 MiB for a moment at
// the beginning. A stream of 1 GiB takes 77 MiB resident on its way there, and 94 MiB back. Nothing is kept on disk.
//
// Two attempts never make a mix: each writes beneath a folder of its own, and whatever manifest there is names files of
// one attempt. An attempt says with a mark that it is the latest, looks at the mark at each part and every few seconds,
// and before and after it has written the manifest.
package mover
