// SPDX-License-Identifier: Apache-2.0

// Package dataset is the controller of Datasets.
//
// Duty: for each version it makes a claim and an Operation with an inline template that prepares the version there,
// tells in the status which claim has which files, and deletes claims by the retention of the Dataset. Inputs:
// Datasets, their Operations, their claims, the Inferences that use them, the pods of the namespace where a claim is to
// go, the clock. Field owner: dataset. Conditions: Ready, Reconciling, Stalled. What to do is decided by decide, and
// templates are made by compile; both are pure.
//
// # Once for each attempt
//
// The names of claims and Operations follow from the Dataset, the version and the number of the attempt, and both are
// only ever created. Before that the Dataset is read from the API server, so that a cache of before begins no attempt.
// A controller that dies in between finds the same names. No name comes twice: a version that is added counts its
// attempts on from the most that one had which was taken out, since the Operations of that one may still be there.
//
// # How far a version is
//
// The pod of a fetch has no token, and so tells nobody by itself: it is asked over HTTP, every 10 s while its Operation
// runs, and what it says is the message of the version. Nothing is decided on it. A pod that cannot be asked holds up
// nothing: the message is that of the Operation then.
//
// # What is never read
//
// A claim is in the status only once every file on it had the digest that was asked for. Claims have no owner
// reference: nothing but the deletion policy Delete has one deleted, and never while a pod mounts it.
package dataset

// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=datasets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=datasets/status,verbs=get;patch
// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=datasets/finalizers,verbs=update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=datasets.ai.zeroinfra.github.com,verbs=patch
