// SPDX-License-Identifier: Apache-2.0

// Package model is the kind Model: versions of a model by their digest, where their files are, and which of them is in
// which stage.
//
// It runs no instance: an Inference reads it, and follows its stages. Without spec.cache it compiles to nothing, and
// with it to the Dataset that keeps the files of the versions which are in a stage or in use; the status says how far
// each is. The frame in sdk/typed sees to the conditions. A Model is Ready while all Models that it requires exist, all
// of its versions are signed by its public key, where it has one, and its Dataset is ready, where it has one. Key and
// signatures are in the spec, so that the webhook refuses a bad signature at once. Who uses it is in its status,
// version by version; the definition refuses to take out a version that somebody uses, and the frame keeps a Model that
// is deleted while somebody does. The webhook refuses to put a version into a stage while the Model lacks one that it
// requires.
package model
