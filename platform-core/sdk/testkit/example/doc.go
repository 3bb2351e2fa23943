// SPDX-License-Identifier: Apache-2.0

// Package example has two small typed kinds for the tests of the frame and of
// the bootstrap: Sample, which compiles to an Application of plugin redis, and Bundle, which
// compiles to Kubernetes objects, Entities and Operations.
//
// +kubebuilder:object:generate=true
// +groupName=sample.zeroinfra.github.com
// +versionName=v1
package example
