// SPDX-License-Identifier: Apache-2.0

// Package storage tests the kinds of the storage operator from outside, on a real cluster: ObjectStorage with its
// buckets and their replication, BackupPolicy, and backups to object storage, volumes and NFS.
package storage
