// SPDX-License-Identifier: Apache-2.0

// Package objectstorage is the kind ObjectStorage: a storage that speaks S3, with its buckets, policies and users.
//
// With the backend Minio it compiles to an Application of the plugin minio, with the one component minio (port 9000)
// and the one credential root. The topology is distributed where spec.pools is set, each pool a set of the component,
// and else standalone: it never changes. With External it is an Application of the plugin s3-external: the one
// component keeper is a pod that looks after the buckets of an S3 elsewhere. Compile is a pure function; testdata holds
// what it makes of each input. The frame in sdk/typed does the rest under the field owner typed/objectstorage: it
// applies the Application, keeps an Entity for each bucket, policy and user, mirrors the conditions (Ready,
// Reconciling, Stalled, Accepted) and phase, and has Report fill in the rest of the status.
//
// Fields left out, of those that instances can have: logs, since MinIO writes no access logs to files; and
// autoscaling, since a pool has for good as many servers as it was made with, and storage grows by pools that a user
// adds.
package objectstorage
