// SPDX-License-Identifier: Apache-2.0

// Package plugin loads the plugins that are in the operator's namespace and publishes what became of each.
//
// Duty: feed the index of loaded bundles on every replica; on the leader, one
// cluster-scoped Plugin object per bundle, and an event when one is refused.
//
// Inputs: ConfigMaps with the label platform.zeroinfra.github.com/plugin in the operator's namespace; Applications,
// which it counts.
//
// Field owner: plugin.
//
// Conditions of a Plugin: Accepted, Ready, Stalled. Reasons: Accepted, PluginInvalid.
//
// Operators may share a namespace. Each publishes the bundles of its own domain; what is of no domain that runs here is
// refused by whichever is first, and taken over by the operator of its domain once that comes.
//
// Operators of one domain may serve different namespaces. One of them publishes a bundle that several have loaded, and
// counts its own instances; another one takes that over when the first one is gone.
//
// A broken or changed bundle never harms one that is loaded: the index keeps what it accepted.
package plugin
