// SPDX-License-Identifier: Apache-2.0

// Package cronjob is the controller of CronJobs.
//
// Duty: it creates an Operation with an inline template for each time of a schedule, cancels and deletes Operations by
// the policies of the CronJob, and tells in its status what became of them. Inputs: CronJobs, their Operations, the
// CronJobs and Workflows that they depend on, the Workflows whose tasks they run, the clock. What to do is decided by
// decide, which is pure.
//
// # Once for each time
//
// status.settledTime says up to when times are decided on. Operations are created before it moves, under names that
// follow from the CronJob and the time, and are deleted only after it has moved. So a controller that dies in between
// creates none twice: the next one takes over the runs that are not in the status yet, whatever the policies say of
// their times by then. Before it creates any, it reads the CronJob from the API server, so that it never decides on a
// settledTime of before.
//
// A clock that is set back by up to an hour begins nothing twice. By more than that it was wrong before, and times
// count from what it says now.
package cronjob

// +kubebuilder:rbac:groups=batch.zeroinfra.github.com,resources=cronjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.zeroinfra.github.com,resources=workflows,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.zeroinfra.github.com,resources=cronjobs/status,verbs=get;patch
// +kubebuilder:rbac:groups=batch.zeroinfra.github.com,resources=cronjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=cronjobs.batch.zeroinfra.github.com,verbs=patch
