// SPDX-License-Identifier: Apache-2.0

// Package workloadset keeps the pods of a WorkloadSet as its spec asks.
//
// Duty: pods, volumes, the agents' identity, certificates and plan; role labels;
// replacement of pods, and restart of processes in place, as package rollout
// plans them.
//
// Inputs: the WorkloadSet, its pods with their agents' reports, its claims,
// Secrets and ConfigMap, and StorageClasses. No plugin is needed.
//
// Field owner: workloadset.
//
// Conditions: Ready, Reconciling, Stalled. Reasons: PodsNotReady,
// PodUnschedulable, ImageUnavailable, ProcessFailing, ConfigurationPending,
// RetainedVolumesExist, StorageClassNotFound, VolumeShrinkRefused,
// VolumeExpansionUnsupported, NameTaken, Deleting.
//
// Data is never destroyed as a side effect: claims are made, grown, and only with
// the deletion policy Delete deleted, after the pods are gone.
package workloadset
