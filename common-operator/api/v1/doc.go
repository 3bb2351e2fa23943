// SPDX-License-Identifier: Apache-2.0

// Package v1 is the group common.zeroinfra.github.com, version v1.
//
// +kubebuilder:object:generate=true
// +groupName=common.zeroinfra.github.com
package v1
