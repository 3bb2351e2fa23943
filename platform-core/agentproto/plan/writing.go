// SPDX-License-Identifier: Apache-2.0

package plan

// MemberFile is in Process.Dir: the identity of the data there, and what its agent promised (package permission). It is
// made with the first start on an empty folder, and whoever removes it makes another member of the pod.
const MemberFile = ".zeroinfra.member"

// ParameterPrimary is the parameter of Follow and Rejoin: the DNS name of the primary.
const ParameterPrimary = "primary"

// Writing has the process run as a primary only while the agent has a permission (package permission), where the engine
// is the authority over that. Process.Dir must be given. It is no part of the digests: a change of it restarts nothing,
// and is taken from the mounted plan.
type Writing struct {
	// Set is the name of the WorkloadSet, in the pod's namespace, whose status has the record of who may write.
	Set string `json:"set"`
	// PrimaryArgs are appended to Process.Command when the process is started as the primary.
	PrimaryArgs []string `json:"primaryArgs,omitempty"`
	// ReplicaArgs are appended when it is started as a replica. Here alone ${primary.fqdn} is the DNS name of the primary,
	// so that they are expanded only then, and Rewrite leaves them as they are.
	ReplicaArgs []string `json:"replicaArgs,omitempty"`
	// Promote has a process that runs as a follower become the primary. Without it the process is restarted with
	// PrimaryArgs.
	Promote *Action `json:"promote,omitempty"`
	// Follow has a process that runs as a follower follow another primary, the parameter primary. Without it the process
	// is restarted with ReplicaArgs.
	Follow *Action `json:"follow,omitempty"`
	// FollowOnStart has Follow run beside a process that was started as a follower, too.
	FollowOnStart bool `json:"followOnStart,omitempty"`
	// FollowIntervalSeconds has Follow run again and again beside a process that follows, so that one that has lost its
	// primary for a reason that does not pass finds that out; 0 for never.
	FollowIntervalSeconds int `json:"followIntervalSeconds,omitempty"`
	// UpdateMembers has a process that runs as the primary take over the list of members in MemberFile. Until it has
	// succeeded, the member does not confirm that list. A process that is started or promoted as the primary has it from
	// the first moment on.
	UpdateMembers *Action `json:"updateMembers,omitempty"`
	// Rejoin is run beside a process that was started as a follower where one ran as the primary before, with the
	// parameter primary.
	Rejoin *Action `json:"rejoin,omitempty"`
}
