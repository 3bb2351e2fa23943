// SPDX-License-Identifier: Apache-2.0

// Package objects reads the buckets of a storage that speaks S3 and puts objects back into one, as backups need it: an
// object is read as one version of it or not at all, and one that is there is never written over.
package objects
