// SPDX-License-Identifier: Apache-2.0

// Package confine keeps processes that run what others have written from files that are none of theirs, although their
// user may read them. It is done by Landlock, which takes no rights.
package confine
