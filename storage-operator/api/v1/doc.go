// SPDX-License-Identifier: Apache-2.0

// Package v1 is the group storage.zeroinfra.github.com, version v1.
//
// +kubebuilder:object:generate=true
// +groupName=storage.zeroinfra.github.com
package v1
