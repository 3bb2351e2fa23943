// SPDX-License-Identifier: Apache-2.0

// Package plugin loads plugins: it parses the five ConfigMaps of a bundle,
// checks everything that can be checked without a cluster, and keeps the loaded
// bundles in an Index. Everything is parsed and compiled once per version.
//
// The package is pure: it takes data and gives data, and never talks to the API.
package plugin
