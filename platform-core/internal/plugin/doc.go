// SPDX-License-Identifier: Apache-2.0

// Package plugin loads plugins: it parses the five ConfigMaps of a bundle, checks everything that can be checked
// without a cluster, and keeps the loaded bundles in an Index. Everything is parsed and compiled once per version. A
// [Bundle] renders plans and pod templates for the values of an instance.
//
// What is wrong with one part alone is found by the packages below: schema has the types of components.yaml, optemplate
// the templates of Operations, podtemplate the checks of a rendered pod. This package has the checks that need several
// parts: each is a method of the loader, which has all of them.
//
// The package is pure: it takes data and gives data, and never talks to the API.
package plugin
