// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator

// What the tests look at from outside.
var (
	CacheOptions = cacheOptions
	OfDomain     = ofDomain
	Watched      = watched
)
