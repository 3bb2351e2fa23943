// SPDX-License-Identifier: Apache-2.0

// Package workloadset reconciles WorkloadSets: it creates, changes and deletes their pods as the spec says.
//
// It observes the facts (package facts), which nothing changes afterwards, and has four sub-reconcilers say what they
// come to, and act:
//
//   - generations: which generation of volumes the pods are to have;
//   - volumes: claims, their size, and the data before the first pod starts;
//   - primary: who the primary is, and its handover;
//   - pods: how each pod stands to the one that would be made now, and the steps that package rollout plans.
//
// Each has a verdict of its own, and none knows another one: what one needs of another is an interface that it
// declares. What they say to the planner is a facts.Draft, which belongs to one reconcile. This package wires them,
// takes them in their order (controller.go, act.go), says what the set waits for (plan.go), and is the one author of
// the status.
//
// Inputs: the WorkloadSet, its pods with the reports of their agents, its claims, Secrets and ConfigMap, the Components
// that are updated before its own, and StorageClasses. No plugin is needed. A step that disrupts a pod, or adds a
// primary label, is planned with live reads of the pods. Nodes and volumes are read only when a node can never provide
// the resources of a pod, or seems to be lost.
//
// Field owner: workloadset.
//
// Conditions: Ready, Reconciling, Stalled, and those that the plugin declares, from what pods report (conditions.go).
// Reasons: PodsNotReady, PodUnschedulable, NodeUnreachable, ImageUnavailable, VolumeUnavailable, QuotaExceeded,
// ProcessFailing, ConfigurationPending, SwitchoverPending, SwitchoverFailed, ResizePending, ResizeInfeasible,
// RetainedVolumesExist, AdoptionRefused, OperationAtWork, UpdateOrder, WaitingForMaintenance, StorageClassNotFound,
// VolumeShrinkRefused, VolumeExpansionUnsupported, NameTaken, Restoring, RestoreFailed, Stopped, Suspended, Deleting.
// Restored has the progress of a restore.
//
// Data is never destroyed as a side effect. Claims are created and expanded; they are deleted only with the deletion
// policy Delete, after the pods are gone. A claim of an earlier Application is adopted only if adoptVolumes names that
// Application and the data fits.
package workloadset
