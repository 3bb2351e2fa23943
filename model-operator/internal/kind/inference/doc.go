// SPDX-License-Identifier: Apache-2.0

// Package inference is the kind Inference: servers that answer requests with one version of a Model.
//
// It compiles to an Application of the plugin that spec.runtime names, with the topology server, of which the fields of
// the spec are about the component server. Which file is served is that of the version of the Model that modelRef
// names, or that is in the stage that it names: when the stage gets another version, the Application gets another
// digest, and its pods change one after the other. Which formats and which fields a runtime has, its plugin says: what
// it has no parameter for is refused. CompileWith is a pure function of the Inference and its Model; testdata holds
// what it makes of each input. The frame in sdk/typed does the rest under the field owner typed/inference: it waits for
// the Model, applies the Application, mirrors its conditions (Ready, Reconciling, Stalled, Accepted) and phase, and has
// Report fill in the rest of the status.
//
// A canary is a second set of pods of the same component, with model parameters of its own, so that the Service of the
// component leads to the pods of both: their numbers split requests. The other set has the name that it has without a
// canary, so that its pods stay. With httpRoute the kind makes the HTTPRoute itself, and a Service for each set,
// between which it has weights. Which of its steps a canary is at, the controller in internal/canary decides, and has
// on record in an annotation that Compile goes by.
//
// With idle the topology is server-door: a component door takes the requests of clients, and that of the servers has
// none of them while no request comes. Whether it has, the controller in internal/idle decides, and has on record in an
// annotation that Compile goes by.
//
// Fields left out, of those that instances can have: logs, since what the processes log is on their standard output.
// tls is refused, since the server does not read a renewed certificate. autoscaling is minReplicas, maxReplicas,
// cpuUtilization, memoryUtilization and metrics.
package inference
