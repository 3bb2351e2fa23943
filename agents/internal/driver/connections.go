// SPDX-License-Identifier: Apache-2.0

package driver

// OutOfConnections is the error of a middleware that answers and has no connection left for the driver. The middleware
// is alive, and nothing that was asked has been done.
type OutOfConnections struct {
	// Said is what the middleware says.
	Said string
}

// Error implements error.
func (e *OutOfConnections) Error() string {
	return "clients have all connections of the middleware (" + e.Said +
		"): close some, have clients share them by a pool, or raise the limit in the parameters"
}
