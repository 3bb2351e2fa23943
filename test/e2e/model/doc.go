// SPDX-License-Identifier: Apache-2.0

// Package model has the end-to-end tests of the model operator: servers of a tiny language model that the test makes
// itself, judged by the completions that they answer with.
package model
