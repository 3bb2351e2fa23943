// SPDX-License-Identifier: Apache-2.0

// Package component renders a Component with its plugin and keeps what comes of
// it applied: the WorkloadSets, the Services and what guards the pods.
//
// Duty: the certificate of a component that speaks TLS, the PodMonitor of one whose metrics are wanted, WorkloadSets,
// Services, PodDisruptionBudgets, HorizontalPodAutoscalers, the NetworkPolicy, Ingresses, HTTPRoutes and the Role of
// the component; endpoints, sets and pods in its status. With autoscaling the number of pods is the autoscaler's and
// never written. Without, replicas and resources that somebody else gives a WorkloadSet go up to the object that
// declares the Application; every other edit is reverted, with an event that says of what.
//
// Where pods are members of one cluster, it has that looked at whenever they report anything new, puts a call that
// changes something on record in its status before it makes it, and keeps pods and sets that are not wanted any more
// until they have left.
//
// Inputs: the Component, and such pods, the loaded plugin that it pins, what it owns, and the Application, and the
// object that declares it, when a set was edited.
//
// Field owner: component.
//
// Conditions: Ready, Reconciling, Stalled, Monitored, where metrics are wanted, Autoscaled, with autoscaling, and
// Routed, where the plugin has routes, which hold nothing up, and CertificateServed, where TLS is on, which says which
// pods serve a certificate from before, and those of its WorkloadSets that the plugin declares. Reasons: PluginMissing,
// PluginChanged, Stopped, Suspended, CertManagerNotFound, CertificateNotReady, IssuerNotReady, whatever the renderer or
// the API server refuses, NameTaken, MembersPending, MembersRefused and the reasons of its WorkloadSets.
//
// A budget is made when its set has pods, and before the component is Ready.
//
// Pods are replaced only when the API server, asked for a dry run, would make the new ones.
package component
