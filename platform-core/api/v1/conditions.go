// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types that every object of the suite has (kstatus).
const (
	// ReadyCondition is True when the object does what its spec asks, at its observed generation.
	ReadyCondition = "Ready"
	// ReconcilingCondition is True while the engine works on the object; absent at rest.
	ReconcilingCondition = "Reconciling"
	// StalledCondition is True when nothing will change until someone mends what its message names; absent otherwise.
	StalledCondition = "Stalled"
	// AcceptedCondition says whether the inputs of an object (plugin, version, parameters, references) are usable.
	AcceptedCondition = "Accepted"
	// CertificateServedCondition says whether every pod of a Component, and of all those of an Application, serves the present certificate.
	CertificateServedCondition = "CertificateServed"
	// MonitoredCondition says whether a Prometheus can find the metrics of a Component; absent when they are not wanted.
	MonitoredCondition = "Monitored"
	// RoutedCondition says whether the Ingresses and HTTPRoutes are there by which clients outside of the cluster reach a
	// Component; absent for one without.
	RoutedCondition = "Routed"
	// RestoredCondition says whether the data of the Backup is there that an instance begins with; absent where it begins with none.
	RestoredCondition = "Restored"
	// ArchiveFoundCondition says whether the BackupRepository is there that an instance keeps its archive in; absent where it keeps none there.
	ArchiveFoundCondition = "ArchiveFound"
	// BackupsVerifiedCondition says what the last restore drill of an instance's Backups came to; absent when there was none.
	BackupsVerifiedCondition = "BackupsVerified"
	// PointOfNoReturnCondition is True once an Operation has passed the point from which on there is no way back, False before; absent for one
	// whose template has none.
	PointOfNoReturnCondition = "PointOfNoReturn"
	// HeldCondition is True while an Operation waits for a maintenance window, which its message names, and False once that is over; absent for one
	// that waited for none.
	HeldCondition = "Held"
	// ConnectionsAvailableCondition is False while a pod's middleware turns its own probe away for want of connections;
	// absent otherwise. It goes up like the conditions that plugins declare, and is none of EngineConditions.
	ConnectionsAvailableCondition = "ConnectionsAvailable"
	// SuspendedCondition is True while the spec of a typed object has the engine do nothing at all; absent otherwise.
	SuspendedCondition = "Suspended"
)

// EngineConditions are the types that the engine has itself: no plugin declares one of them.
var EngineConditions = []string{ReadyCondition, ReconcilingCondition, StalledCondition, AcceptedCondition, CertificateServedCondition, MonitoredCondition,
	RoutedCondition, RestoredCondition, ArchiveFoundCondition, BackupsVerifiedCondition, PointOfNoReturnCondition, HeldCondition, SuspendedCondition}

// Reasons of the conditions above. A reason is stable and for machines; the
// message beside it says what to do.
const (
	// ReasonReady: all is as asked.
	ReasonReady = "Ready"
	// ReasonAccepted: the inputs are usable.
	ReasonAccepted = "Accepted"
	// ReasonProgressing: the engine is at work.
	ReasonProgressing = "Progressing"
	// ReasonCancelled: somebody asked for that.
	ReasonCancelled = "Cancelled"
	// ReasonBackupRefused: the instance cannot be backed up in this way, or the repository is not as it says.
	ReasonBackupRefused = "BackupRefused"
	// ReasonBackupQueued: other Backups of the repository run or come before it.
	ReasonBackupQueued = "BackupQueued"
	// ReasonNoBackupSource: there is no pod at present that the data can be taken from.
	ReasonNoBackupSource = "NoBackupSource"
	// ReasonBackupLate: a Backup was not whole in time.
	ReasonBackupLate = "BackupLate"
	// ReasonMoverLost: the Job that carried a backup is gone, or ended without saying what came of it.
	ReasonMoverLost = "MoverLost"
	// ReasonFreezeFailed: the source of a Backup did not keep still until the snapshot was made.
	ReasonFreezeFailed = "FreezeFailed"
	// ReasonMoverNotStarted: the pod of a mover did not start in time; the message says why.
	ReasonMoverNotStarted = "MoverNotStarted"
	// ReasonBackupFailed: there is no backup; the message says why.
	ReasonBackupFailed = "BackupFailed"
	// ReasonBackupDataMissing: a Backup was whole, and what was kept is not in its repository any more.
	ReasonBackupDataMissing = "DataMissing"
	// ReasonBackupNotRemoved: what is kept of a Backup that is deleted cannot be removed from its repository.
	ReasonBackupNotRemoved = "BackupNotRemoved"
	// ReasonBackupNotFound: there is no Backup of the name that an instance is to be restored from.
	ReasonBackupNotFound = "BackupNotFound"
	// ReasonBackupNotCompleted: the Backup that an instance is to be restored from is not whole yet.
	ReasonBackupNotCompleted = "BackupNotCompleted"
	// ReasonRestoreRefused: the instance cannot begin with the data of the Backup.
	ReasonRestoreRefused = "RestoreRefused"
	// ReasonRestoring: the data of a Backup is on its way, and no pod is made before it is there.
	ReasonRestoring = "Restoring"
	// ReasonRestoreFailed: it did not get there; the message says why, and whether it is tried again.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonTargetOutOfRange: the logs that are kept do not lead from the Backup to the point in time that is asked for, or not yet.
	ReasonTargetOutOfRange = "TargetOutOfRange"
	// ReasonRestored: it is there.
	ReasonRestored = "Restored"
	// ReasonRepositoryNotFound: the BackupRepository that the spec names is absent, or is being deleted.
	ReasonRepositoryNotFound = "RepositoryNotFound"
	// ReasonClaimNotFound: the claim of the volume that a BackupRepository is on is absent, or is being deleted.
	ReasonClaimNotFound = "ClaimNotFound"
	// ReasonArchiveRefused: the instance cannot keep its archive in the BackupRepository that it names.
	ReasonArchiveRefused = "ArchiveRefused"
	// ReasonArchiveFound: it is there.
	ReasonArchiveFound = "ArchiveFound"
	// ReasonVerified: an instance began with the data of a Backup in a restore drill, and it was good.
	ReasonVerified = "Verified"
	// ReasonVerificationFailed: the data of a Backup could not be restored in a drill, or was not good.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonDrillUnfinished: a restore drill came to no end, so that nobody knows whether the data is good.
	ReasonDrillUnfinished = "DrillUnfinished"
	// ReasonNotPossible: an instance does not have what it takes.
	ReasonNotPossible = "NotPossible"
	// ReasonPluginNotFound: no loaded bundle has this plugin name and version.
	ReasonPluginNotFound = "PluginNotFound"
	// ReasonPluginInvalid: a bundle is there and was refused.
	ReasonPluginInvalid = "PluginInvalid"
	// ReasonPluginMissing: a bundle that a running instance uses is gone; its pods are left alone.
	ReasonPluginMissing = "PluginMissing"
	// ReasonPluginChanged: the bundle has another digest than the one pinned.
	ReasonPluginChanged = "PluginChanged"
	// ReasonUpgradeNotAllowed: the plugin's version does not take over from the one that the instance is made from.
	ReasonUpgradeNotAllowed = "UpgradeNotAllowed"
	// ReasonVersionNotSupported: the plugin does not support this version of the middleware.
	ReasonVersionNotSupported = "VersionNotSupported"
	// ReasonTopologyNotFound: the plugin has no such topology.
	ReasonTopologyNotFound = "TopologyNotFound"
	// ReasonComponentNotFound: the topology has no such component.
	ReasonComponentNotFound = "ComponentNotFound"
	// ReasonInvalidParameters: a parameter is unknown or its value is not allowed.
	ReasonInvalidParameters = "InvalidParameters"
	// ReasonInvalidSpec: a field has a value that the plugin does not allow.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonPasswordHeld: no password is taken over, since the one that processes log in at each other with is in no Secret any more.
	ReasonPasswordHeld = "PasswordHeld"
	// ReasonSecretNotFound: a Secret or key that the spec names is absent.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: what a Secret that the spec names has under a key cannot be a password or key.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonCertManagerNotFound: TLS is asked for, and cert-manager is not installed.
	ReasonCertManagerNotFound = "CertManagerNotFound"
	// ReasonIssuerNotReady: the issuer that the spec names is absent or cannot issue.
	ReasonIssuerNotReady = "IssuerNotReady"
	// ReasonCertificateCurrent: every pod serves the present certificate.
	ReasonCertificateCurrent = "CertificateCurrent"
	// ReasonCertificateOutdated: some pods serve a certificate from before.
	ReasonCertificateOutdated = "CertificateOutdated"
	// ReasonCertificateNotReady: the certificate of a component is not issued.
	ReasonCertificateNotReady = "CertificateNotReady"
	// ReasonPodMonitorApplied: the PodMonitor is there.
	ReasonPodMonitorApplied = "PodMonitorApplied"
	// ReasonPodMonitorNotFound: metrics are wanted, and the cluster has no PodMonitors.
	ReasonPodMonitorNotFound = "PodMonitorNotFound"
	// ReasonPodMonitorRefused: the API server takes the PodMonitor not.
	ReasonPodMonitorRefused = "PodMonitorRefused"
	// ReasonRoutesApplied: the objects by which clients outside of the cluster reach a Component are there.
	ReasonRoutesApplied = "RoutesApplied"
	// ReasonHTTPRouteNotFound: an HTTPRoute is wanted, and the cluster has no such kind.
	ReasonHTTPRouteNotFound = "HTTPRouteNotFound"
	// ReasonRouteRefused: the API server rejects such an object, or somebody else's has its name.
	ReasonRouteRefused = "RouteRefused"
	// ReasonStorageClassNotFound: the StorageClass that the spec names, or a default one, is absent.
	ReasonStorageClassNotFound = "StorageClassNotFound"
	// ReasonVolumeShrinkRefused: a volume can only grow.
	ReasonVolumeShrinkRefused = "VolumeShrinkRefused"
	// ReasonVolumeExpansionUnsupported: a volume cannot grow, since its class, its storage, its node or a quota does not allow it.
	ReasonVolumeExpansionUnsupported = "VolumeExpansionUnsupported"
	// ReasonVolumeClassRefused: a volume keeps its StorageClass.
	ReasonVolumeClassRefused = "VolumeClassRefused"
	// ReasonRetainedVolumesExist: volumes of an earlier Application with this name are still there.
	ReasonRetainedVolumesExist = "RetainedVolumesExist"
	// ReasonNameTaken: an object that is not ours has the name that we need.
	ReasonNameTaken = "NameTaken"
	// ReasonPodsNotReady: pods are being made, updated or healed.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonPodUnschedulable: the scheduler finds no node for a pod.
	ReasonPodUnschedulable = "PodUnschedulable"
	// ReasonVolumeUnavailable: a volume of a pod is not provisioned, is lost, or is not mounted on the node of the pod.
	ReasonVolumeUnavailable = "VolumeUnavailable"
	// ReasonQuotaExceeded: a ResourceQuota of the namespace does not allow an object to be created.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonNodeUnreachable: nobody reaches the node of a pod, so that nobody knows whether the pod runs.
	ReasonNodeUnreachable = "NodeUnreachable"
	// ReasonImageUnavailable: a node cannot get an image.
	ReasonImageUnavailable = "ImageUnavailable"
	// ReasonProcessFailing: the middleware's process does not stay up.
	ReasonProcessFailing = "ProcessFailing"
	// ReasonTooManyClients: the middleware is alive, and clients have all of its connections.
	ReasonTooManyClients = "TooManyClients"
	// ReasonConfigurationPending: the running process does not yet have the wanted configuration.
	ReasonConfigurationPending = "ConfigurationPending"
	// ReasonAddressPending: a pod has no address for clients outside of the cluster yet.
	ReasonAddressPending = "AddressPending"
	// ReasonNeedNotReady: a component waits for another one, to start or to stop.
	ReasonNeedNotReady = "NeedNotReady"
	// ReasonTargetNotFound: the object that an Operation names is absent.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTemplateNotFound: the plugin has no Operation template of this name.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonDeleting: the object is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonStopped: the pods are gone since running is false; the volumes are kept.
	ReasonStopped = "Stopped"
	// ReasonSuspended: the engine does nothing since suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonOperationAtWork: an Operation works through the pods, and what an edited spec changes of those that serve waits for that.
	ReasonOperationAtWork = "OperationAtWork"
	// ReasonWaitingForMaintenance: all pods serve, and some are to be restarted or replaced in the next maintenance window.
	ReasonWaitingForMaintenance = "WaitingForMaintenance"
	// ReasonWindowOpen: what waited for a maintenance window goes on.
	ReasonWindowOpen = "WindowOpen"
	// ReasonPassed: there is no way back.
	ReasonPassed = "Passed"
	// ReasonNotPassed: there still is.
	ReasonNotPassed = "NotPassed"
	// ReasonAdoptionRefused: a retained volume that adoptVolumes names does not fit.
	ReasonAdoptionRefused = "AdoptionRefused"
	// ReasonSnapshotFailed: there is no VolumeSnapshot of a volume that is to be deleted once there is one, or none that has the data of a Backup.
	ReasonSnapshotFailed = "SnapshotFailed"
	// ReasonFailoverPending: nobody writes, or the pod that writes is down, and another one is to take over.
	ReasonFailoverPending = "FailoverPending"
	// ReasonSwitchoverPending: a pod that takes writes is to hand over before it is taken out.
	ReasonSwitchoverPending = "SwitchoverPending"
	// ReasonSwitchoverFailed: it does not, and nothing is done to it.
	ReasonSwitchoverFailed = "SwitchoverFailed"
	// ReasonMembersPending: pods are being brought to be members of one cluster, or to leave it.
	ReasonMembersPending = "MembersPending"
	// ReasonMembersRefused: they cannot be, until somebody does what the message says.
	ReasonMembersRefused = "MembersRefused"
	// ReasonApplicationNotFound: the Application that an Entity names is absent.
	ReasonApplicationNotFound = "ApplicationNotFound"
	// ReasonReferenceNotFound: an object that the spec names does not exist in the namespace.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonReferenceDeleting: an object that the spec names is being deleted.
	ReasonReferenceDeleting = "ReferenceDeleting"
	// ReasonReferenceNotAllowed: the spec names an object in another namespace.
	ReasonReferenceNotAllowed = "ReferenceNotAllowed"
	// ReasonKindNotInstalled: the cluster has no objects of a kind that is needed.
	ReasonKindNotInstalled = "KindNotInstalled"
	// ReasonForbidden: the API server does not let the operator read or write an object that is needed.
	ReasonForbidden = "Forbidden"
	// ReasonOperationFailed: an Operation that an object declares failed.
	ReasonOperationFailed = "OperationFailed"
	// ReasonTypeNotFound: the plugin has no entities of this type.
	ReasonTypeNotFound = "TypeNotFound"
	// ReasonAlreadyExists: the middleware has an object of the name that is not the Entity's.
	ReasonAlreadyExists = "AlreadyExists"
	// ReasonMiddlewareNotReady: no pod can be asked about an Entity now.
	ReasonMiddlewareNotReady = "MiddlewareNotReady"
	// ReasonRefusedByMiddleware: the middleware does not do what an Entity asks for.
	ReasonRefusedByMiddleware = "RefusedByMiddleware"
	// ReasonResizePending: a node has not yet given a pod its new resources.
	ReasonResizePending = "ResizePending"
	// ReasonResizeInfeasible: no node has room for the new resources of a pod.
	ReasonResizeInfeasible = "ResizeInfeasible"
)

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

// Phase is one word for a person who lists objects; programs read the conditions.
type Phase string

// Phases of Application, Component, WorkloadSet and every typed kind.
const (
	PhasePending   Phase = "Pending"
	PhaseCreating  Phase = "Creating"
	PhaseUpdating  Phase = "Updating"
	PhaseReady     Phase = "Ready"
	PhaseDegraded  Phase = "Degraded"
	PhaseStalled   Phase = "Stalled"
	PhaseStopped   Phase = "Stopped"
	PhaseSuspended Phase = "Suspended"
	PhaseDeleting  Phase = "Deleting"
)
