// SPDX-License-Identifier: Apache-2.0

// Package modelfile brings the file of a model to the folder of a pod: over HTTP, or from a bucket. A download that was
// cut off goes on where it ended, and a file is used only when its SHA-256 digest is the one that was asked for.
package modelfile
