// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the objects that every domain of ZeroInfra is made of:
// Application, Component, WorkloadSet, Operation and Plugin.
//
// An Application is one instance of a middleware that a user owns. The engine
// breaks it down into Components (one binary each) and WorkloadSets (pods with
// the same resources and configuration), and records what it does as Operations.
// A Plugin is the published state of one loaded bundle.
//
// Status follows the kstatus convention everywhere: the conditions Ready,
// Reconciling and Stalled, and observedGeneration. The phase is for printing only.
//
// +kubebuilder:object:generate=true
// +groupName=platform.zeroinfra.github.com
package v1
