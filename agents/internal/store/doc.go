// SPDX-License-Identifier: Apache-2.0

// Package store keeps objects under names: in a bucket of an object storage that speaks S3, or in a folder of a volume.
//
// An object is there as a whole or not at all, never changes, and is never written over: two that mean to keep
// something else under one name are told so. What [Store.Put] has acknowledged outlives a loss of power.
package store
