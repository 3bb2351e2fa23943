// SPDX-License-Identifier: Apache-2.0

// Package transfer is what a pod that fetches files says of how far it is, over HTTP. It has no account to write that
// anywhere, so whoever waits for it asks. The answer holds numbers alone, and nothing is decided on it.
package transfer

// Where a pod answers a GET with Progress as JSON.
const (
	Port = 8080
	Path = "/progress"
)

// ExitRefused is the exit code of a pod that fetches or verifies files where another pod would end no better: the
// source refuses what is asked of it, or what it has is not what is wanted. It is that of sysexits.h for what somebody
// has to configure otherwise. All other codes are worth another attempt.
const ExitRefused = 78

// Progress is how far a transfer is.
type Progress struct {
	// Bytes that are there, of Total, which is 0 while it is not known.
	Bytes int64 `json:"bytes"`
	Total int64 `json:"total,omitempty"`
	// Files that are there, of so many.
	Files int64 `json:"files"`
	Of    int64 `json:"of"`
}
