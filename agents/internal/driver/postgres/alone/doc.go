// SPDX-License-Identifier: Apache-2.0

// Package alone runs a server of PostgreSQL on data that nobody else is to reach yet: it listens on a socket that only
// its own user finds, and knows nothing of what its data will be served with. Whoever started it makes of the data what
// it is to be, and stops it.
package alone
