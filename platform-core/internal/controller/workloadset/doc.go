// SPDX-License-Identifier: Apache-2.0

// Package workloadset keeps the pods of a WorkloadSet as its spec asks.
//
// Duty: pods, volumes, the agents' identity, certificates and plan; role labels;
// and what package rollout plans: other images, other resources and other
// configuration for pods that run, other pods where that is not enough, a switchover
// before the writer is taken out, stop and start. Where the instance begins with the data of a Backup, one Job
// (restore-<UID>-<attempt>) puts that on the volumes of the first pod, before any pod is made.
//
// Inputs: the WorkloadSet, its pods with their agents' reports, its claims,
// Secrets and ConfigMap, and StorageClasses. No plugin is needed. A step that takes
// a pod out, or gives a writer's label, is planned on pods read live. Nodes and
// volumes are read when a node can never give a pod its resources, and the node of a pod that it seems to have lost.
//
// Field owner: workloadset.
//
// Conditions: Ready, Reconciling, Stalled, and those that the plugin declares, from what pods report (conditions.go).
// Reasons: PodsNotReady, PodUnschedulable, NodeUnreachable, ImageUnavailable, VolumeUnavailable, QuotaExceeded,
// ProcessFailing, ConfigurationPending, SwitchoverPending, SwitchoverFailed, ResizePending, ResizeInfeasible,
// RetainedVolumesExist, AdoptionRefused, WaitingForMaintenance, StorageClassNotFound, VolumeShrinkRefused,
// VolumeExpansionUnsupported, NameTaken, Restoring, RestoreFailed, Stopped, Suspended, Deleting. Restored says how far
// the data of a Backup is.
//
// Data is never destroyed as a side effect: claims are made, grown, and only with
// the deletion policy Delete deleted, after the pods are gone. A claim of an earlier
// Application is used only when adoptVolumes names that, and the data fits.
package workloadset
