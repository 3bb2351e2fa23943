// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the kinds of the group database.zeroinfra.github.com.
//
// Each kind says what a person wants of one database; the operator compiles it
// to an Application of the engine. What goes wrong and what to do is in the
// condition Ready of the object.
//
// +kubebuilder:object:generate=true
// +groupName=database.zeroinfra.github.com
package v1
