// SPDX-License-Identifier: Apache-2.0

// Package workflow is the controller of Workflows.
//
// Duty: it compiles the tasks of a Workflow to the inline template of an Operation, creates that Operation, has it
// suspended and cancelled as the spec says, and tells in the status how far the tasks are. Inputs: Workflows, the
// Workflows that they have their tasks from, their Operations, the clock. Field owner: workflow. Conditions: Ready,
// Reconciling, Stalled, Succeeded. What to do is decided by decide, and the template is made by compile; both are pure.
//
// # Once for each attempt
//
// The name of an Operation follows from the UID of the Workflow and the number of the attempt, and an Operation is only
// ever created. Before it is created, the Workflow is read from the API server, so that a cache of before begins no
// attempt. An Operation that was deleted is not created again: its UID is on record.
package workflow

// +kubebuilder:rbac:groups=batch.zeroinfra.github.com,resources=workflows,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=batch.zeroinfra.github.com,resources=workflows/status,verbs=get;patch
// +kubebuilder:rbac:groups=batch.zeroinfra.github.com,resources=workflows/finalizers,verbs=update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=workflows.batch.zeroinfra.github.com,verbs=patch
