// SPDX-License-Identifier: Apache-2.0

// Package workloadset reconciles WorkloadSets: it creates, changes and deletes their pods as the spec says.
//
// Duties: pods, volumes, the identity, certificates and plan of the agents, role labels, and the steps that package
// rollout plans: a new configuration, resources or image for a running pod, a replacement where that is not enough, a
// switchover before the primary is disrupted, stop and start. Where the instance starts from a Backup, one Job
// (restore-<UID>-<attempt>) restores it to the volumes of the first pod before any pod is created.
//
// Inputs: the WorkloadSet, its pods with the reports of their agents, its claims, Secrets and ConfigMap, and
// StorageClasses. No plugin is needed. A step that disrupts a pod, or adds a primary label, is planned with live reads
// of the pods. Nodes and volumes are read only when a node can never provide the resources of a pod, or seems to be
// lost.
//
// Field owner: workloadset.
//
// Conditions: Ready, Reconciling, Stalled, and those that the plugin declares, from what pods report (conditions.go).
// Reasons: PodsNotReady, PodUnschedulable, NodeUnreachable, ImageUnavailable, VolumeUnavailable, QuotaExceeded,
// ProcessFailing, ConfigurationPending, SwitchoverPending, SwitchoverFailed, ResizePending, ResizeInfeasible,
// RetainedVolumesExist, AdoptionRefused, WaitingForMaintenance, StorageClassNotFound, VolumeShrinkRefused,
// VolumeExpansionUnsupported, NameTaken, Restoring, RestoreFailed, Stopped, Suspended, Deleting. Restored has the
// progress of a restore.
//
// Data is never destroyed as a side effect. Claims are created and expanded; they are deleted only with the deletion
// policy Delete, after the pods are gone. A claim of an earlier Application is adopted only if adoptVolumes names that
// Application and the data fits.
package workloadset
