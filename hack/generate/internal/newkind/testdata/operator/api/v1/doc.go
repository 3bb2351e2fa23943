// SPDX-License-Identifier: Apache-2.0

// Package v1 is the group batch.zeroinfra.github.com, version v1.
//
// +kubebuilder:object:generate=true
// +groupName=batch.zeroinfra.github.com
package v1
