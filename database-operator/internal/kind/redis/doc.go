// SPDX-License-Identifier: Apache-2.0

// Package redis is the kind Redis: one Redis server with a volume of its own.
//
// It compiles to an Application of the plugin redis, topology standalone, with
// the one component redis (port 6379) and the one credential default. Compile is
// a pure function; testdata holds what it makes of each input. The frame in
// sdk/typed does the rest under the field owner typed/redis: it applies the
// Application, mirrors its conditions (Ready, Reconciling, Stalled, Accepted)
// and phase, and has Report fill in the rest of the status.
package redis
