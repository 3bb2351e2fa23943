// SPDX-License-Identifier: Apache-2.0

// Package admission is the validating webhook of an operator: it tells a user at once, in the answer of kubectl, what
// the conditions of an Application, of an Operation with a template of its own or of a typed object would say seconds
// later. The questions are those of package accept; nothing is refused here that is not refused there. A webhook that
// is away is no gap, only a later answer. A change that a typed kind guards is refused while what the object names does
// not exist (typed.Guarded): the condition says the same of an object that is created so.
//
// Every replica serves it. The certificate is in a Secret in the operator's namespace, shared by all replicas: whoever
// finds none makes it; the leader makes the next one in time and writes the authorities that the API server is to trust
// into the ValidatingWebhookConfiguration, which belongs to the chart.
package admission
