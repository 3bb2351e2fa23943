// SPDX-License-Identifier: Apache-2.0

// Package claim takes in the Applications, Operations and Entities that users create
// without a domain label.
//
// Inputs: the metadata of these without the label, from a
// cache of its own; the Plugin objects that every operator publishes. Objects
// themselves are read live.
//
// An operator claims an Application whose plugin its index holds, or whose Plugin
// object names its domain, and an Operation or Entity whose Application carries its domain. To
// claim is to add the label, bound to the version of the object that was read: one
// operator wins, the others see the label. It is all that this controller writes
// to what is its own; from then on the other controllers see the object.
//
// What nobody can claim is told in the object, once: the conditions of an Application whose
// plugin is unknown, refused or unattended, or of an Entity whose Application is absent, and the failure of an
// Operation whose target is absent. Of several operators the holder of one shared Lease says it; it is taken when there
// is something to say, and another operator takes it when its holder has been silent for a term. The Application is
// claimed when its plugin appears; its status is then its owner's.
package claim
