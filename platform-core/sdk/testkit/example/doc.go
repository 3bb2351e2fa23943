// SPDX-License-Identifier: Apache-2.0

// Package example is a small typed kind, Sample, for the tests of the frame and of
// the bootstrap. It compiles to an Application of plugin redis.
//
// +kubebuilder:object:generate=true
// +groupName=sample.zeroinfra.github.com
// +versionName=v1
package example
