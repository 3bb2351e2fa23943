// SPDX-License-Identifier: Apache-2.0

// Package component renders a Component with its plugin and keeps what comes of
// it applied: the WorkloadSets and the Services.
//
// Duty: WorkloadSets and Services of the component; endpoints and pods in its status.
//
// Inputs: the Component, the loaded plugin that it pins, its WorkloadSets and Services.
//
// Field owner: component.
//
// Conditions: Ready, Reconciling, Stalled. Reasons: PluginMissing, PluginChanged,
// whatever the renderer refuses, NameTaken, and the reasons of its WorkloadSets.
package component
