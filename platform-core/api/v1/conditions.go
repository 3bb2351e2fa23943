// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of the suite. Those that all kinds have are the ones of kstatus. The comment of each is its row
// in docs/conditions.md, as for reasons.
const (
	// ReadyCondition: True when the object does what its spec asks, at its observed generation; False while it
	// does not, and the reason says why. Read the message of this condition first.
	// Kinds: all.
	ReadyCondition = "Ready"
	// ReconcilingCondition: True while the operator works on the object; absent at rest. Wait.
	// Kinds: all.
	ReconcilingCondition = "Reconciling"
	// StalledCondition: True when nothing changes until somebody removes the cause that the message names; absent
	// otherwise. Do what the message says.
	// Kinds: all.
	StalledCondition = "Stalled"
	// AcceptedCondition: True when the inputs of the object can be used: plugin, version, parameters and
	// references. While it is False, what runs goes on with the spec of before. Correct what the message names.
	// Kinds: Application, Plugin, typed kinds.
	AcceptedCondition = "Accepted"
	// CertificateServedCondition: True when every pod serves the present certificate; absent without TLS. The
	// operator has the others load it. Look at the pods that the message names when it stays False.
	// Kinds: Application, Component.
	CertificateServedCondition = "CertificateServed"
	// MonitoredCondition: True when a Prometheus can find the metrics of a Component; absent when no metrics are
	// asked for. The instance is ready all the same. Do what the message says when it is False.
	// Kinds: Application, Component.
	MonitoredCondition = "Monitored"
	// RoutedCondition: True when the Ingresses and HTTPRoutes exist by which clients outside of the cluster reach
	// a Component; absent when none are asked for. Do what the message says when it is False.
	// Kinds: Application, Component.
	RoutedCondition = "Routed"
	// AutoscaledCondition: True while the HorizontalPodAutoscalers of a Component have the metrics that they go by;
	// absent without autoscaling, and until an autoscaler has looked. While it is False the number of pods stays as
	// it is. Do what the message says when it stays False.
	// Kinds: Application, Component, typed kinds.
	AutoscaledCondition = "Autoscaled"
	// RestoredCondition: True when the data of the Backup that an instance begins with is complete; absent when it
	// begins without one. Wait while it is False, and do what the message says.
	// Kinds: Application, Component, WorkloadSet, typed kinds.
	RestoredCondition = "Restored"
	// ArchiveFoundCondition: True when the BackupRepository that an instance keeps its archive in can be used;
	// absent when it keeps none there. Do what the message says when it is False.
	// Kinds: Application, typed kinds.
	ArchiveFoundCondition = "ArchiveFound"
	// BackupsVerifiedCondition: True when the last restore drill of the Backups of an instance found good data,
	// False when it did not; absent when there was none. Create another Backup and drill it when it is False.
	// Kinds: Application, BackupPolicy, typed kinds.
	BackupsVerifiedCondition = "BackupsVerified"
	// PointOfNoReturnCondition: True when an Operation can no longer be cancelled, False while it can; absent when
	// its template has no such point. Cancel the Operation before if it is not wanted.
	// Kinds: Operation.
	PointOfNoReturnCondition = "PointOfNoReturn"
	// HeldCondition: True while an Operation waits for the maintenance window that its message names, False
	// afterwards; absent when it waited for none. Wait for the window, or change the windows.
	// Kinds: Operation.
	HeldCondition = "Held"
	// ConnectionsAvailableCondition: False while the middleware of a pod refuses its own probe because clients use
	// all connections; absent otherwise. Close connections, use a pool, or raise the limit in the parameters.
	// Kinds: WorkloadSet, Component, Application, typed kinds.
	ConnectionsAvailableCondition = "ConnectionsAvailable"
	// QuorumCondition: False while so few members of a middleware answer that nobody takes writes; absent otherwise.
	// The operator gives up no member by itself. Bring the members back that the message names, or do what it says.
	// Kinds: Component, Application, typed kinds.
	QuorumCondition = "Quorum"
	// QuarantinedCondition: True while members stay out of the cluster of a middleware, and so out of Services, because
	// they have data that the others do not have; absent otherwise. The operator overwrites none of it. Save what the
	// message names, and make the members anew as it says.
	// Kinds: Component, Application, typed kinds.
	QuarantinedCondition = "Quarantined"
	// SuspendedCondition: True while the operator does nothing, because the spec of a typed object has suspend:
	// true; absent otherwise. Set suspend to false to have it go on.
	// Kinds: typed kinds.
	SuspendedCondition = "Suspended"
	// AdoptedCondition: True once an object has the instance of the other object that its spec names; absent before,
	// and where it names none. Do what the message of Ready says while it is absent.
	// Kinds: typed kinds.
	AdoptedCondition = "Adopted"
)

// MembershipConditions are the types that Components set by what the members say of each other.
var MembershipConditions = []string{QuorumCondition, QuarantinedCondition}

// EngineConditions are the types that the engine sets itself: a plugin cannot declare one of them. ConnectionsAvailable
// and those of the membership are not among them, since they are passed on to the owners like those that plugins
// declare.
var EngineConditions = []string{
	ReadyCondition, ReconcilingCondition, StalledCondition, AcceptedCondition, CertificateServedCondition,
	MonitoredCondition, RoutedCondition, AutoscaledCondition, RestoredCondition, ArchiveFoundCondition,
	BackupsVerifiedCondition, PointOfNoReturnCondition, HeldCondition, SuspendedCondition, AdoptedCondition,
}

// StopsPods says whether a reason names what keeps a pod from starting or from staying up: its message comes before any
// other.
func StopsPods(reason string) bool {
	switch reason {
	case ReasonPodUnschedulable, ReasonImageUnavailable, ReasonVolumeUnavailable, ReasonQuotaExceeded,
		ReasonProcessFailing, ReasonNodeUnreachable:
		return true
	}
	return false
}

// StopsRun says whether the reason of an Operation that is under way names what keeps the pod of a step from starting.
func StopsRun(reason string) bool { return reason == ReasonForbidden || StopsPods(reason) }

// Phase is one word for a person who lists objects; programs read the conditions.
type Phase string

// Phases of Application, Component, WorkloadSet and every typed kind.
const (
	PhasePending   Phase = "Pending"
	PhaseCreating  Phase = "Creating"
	PhaseUpdating  Phase = "Updating"
	PhaseReady     Phase = "Ready"
	PhaseStalled   Phase = "Stalled"
	PhaseStopped   Phase = "Stopped"
	PhaseSuspended Phase = "Suspended"
	PhaseDeleting  Phase = "Deleting"
)
