// SPDX-License-Identifier: Apache-2.0

// Package datasetfile prepares a version of a dataset on a volume: it fetches the files of a manifest, verifies files
// that somebody else keeps, or writes the manifest of files that steps made. The digest of a version is that of its
// manifest, so it stands for every byte of every file.
package datasetfile
