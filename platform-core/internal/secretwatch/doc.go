// SPDX-License-Identifier: Apache-2.0

// Package secretwatch watches Secrets that users supply, each by its name. The
// operator's cache selects on the domain label, which these Secrets do not
// carry, and must not hold Secrets that nobody named.
//
// A watch begins when the first owner is interested and ends when the last one
// no longer is. A watch that breaks is taken up again with back-off by client-go.
package secretwatch
