// SPDX-License-Identifier: Apache-2.0

// Package modelserver starts a server of a language model in its pod, once the file of the model is there, and tells
// how far that is and whether the server answers. The two run in different containers and share a folder.
package modelserver
