// SPDX-License-Identifier: Apache-2.0

package v1

// A reason is stable and for programs; the message beside it is for people. The comment of each reason is its row
// in docs/conditions.md, which hack/generate writes: what is wrong and what the operator does about it, then, as the
// last sentence, what the user can do. Blocks with the same first sentence are one table.

// Reasons of every object. All kinds of the suite have them.
const (
	// ReasonReady: the object does what its spec asks, at its observed generation. Nothing to do.
	ReasonReady = "Ready"
	// ReasonProgressing: the operator works on the object, and the message says on what. Each further step follows
	// by itself. Wait, and look at what the message names when it stays the same for long.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: the operator does nothing to the object, because its spec has suspend: true. Set suspend to
	// false to have it go on.
	ReasonSuspended = "Suspended"
	// ReasonDeleting: the object, or one that it needs, is being deleted. The operator removes what belongs to it,
	// and the message says what is left. Wait, and look at what the message names when it stays the same for long.
	ReasonDeleting = "Deleting"
	// ReasonCancelled: the run was cancelled by a user, or by a run that comes before it. The operator stops it at
	// a safe point and keeps its record. Create another one to have it done after all.
	ReasonCancelled = "Cancelled"
	// ReasonNameTaken: an object that the suite did not create has the name that the operator needs. The operator
	// does not touch that object. Delete or rename the object that the message names, or give yours another name.
	ReasonNameTaken = "NameTaken"
	// ReasonQuotaExceeded: a ResourceQuota of the namespace does not allow an object to be created. The operator
	// tries again. Raise the quota, or ask for less.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonForbidden: the API server does not let the operator read or write an object that is needed. The
	// operator tries again. Give the operator's ServiceAccount the right that the message names.
	ReasonForbidden = "Forbidden"
	// ReasonKindNotInstalled: the cluster does not have a kind that is needed. The operator looks for it again.
	// Install what defines the kind that the message names.
	ReasonKindNotInstalled = "KindNotInstalled"
)

// Reasons of plugins. Plugin, Application, Component, Operation and typed kinds have them.
const (
	// ReasonAccepted: the inputs are usable: the plugin, its version, parameters and references. Nothing to do.
	ReasonAccepted = "Accepted"
	// ReasonPluginNotFound: no bundle with this plugin name and version is loaded. The operator goes on as soon as
	// one is. Install the plugin, or name one that kubectl get plugins lists.
	ReasonPluginNotFound = "PluginNotFound"
	// ReasonPluginInvalid: a bundle of this name and version exists and was refused. Instances that run are not
	// touched. Correct the bundle as kubectl describe plugin says, and publish it under a new version.
	ReasonPluginInvalid = "PluginInvalid"
	// ReasonPluginMissing: the bundle that a running instance uses was removed. The operator leaves its pods alone
	// until the bundle is back. Install the same version of the plugin again.
	ReasonPluginMissing = "PluginMissing"
	// ReasonPluginChanged: the loaded bundle has another digest than the one that the instance is pinned to. The
	// operator leaves the pods alone. Install the original bundle again, and publish changes under a new version.
	ReasonPluginChanged = "PluginChanged"
	// ReasonUpgradeNotAllowed: the wanted version of the plugin does not support an upgrade from the version that
	// the instance has. The instance keeps the present one. Upgrade to one of the versions in between, or set
	// pluginVersion back.
	ReasonUpgradeNotAllowed = "UpgradeNotAllowed"
)

// Reasons of a spec. Application, Component, WorkloadSet, Entity, Operation and typed kinds have them; what runs
// is not touched.
const (
	// ReasonInvalidSpec: a field has a value that is not allowed, or the API server rejects what follows from it.
	// The operator keeps the state of the spec before. Correct the field that the message names.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonInvalidParameters: a parameter is unknown, or its value is not allowed. The operator keeps the values
	// of before. Correct the parameter as the message says.
	ReasonInvalidParameters = "InvalidParameters"
	// ReasonVersionNotSupported: the plugin does not support this version of the middleware. The operator keeps
	// the present one. Choose one of the versions that the message lists.
	ReasonVersionNotSupported = "VersionNotSupported"
	// ReasonTopologyNotFound: the plugin does not have this topology. The operator changes nothing. Choose one of
	// the topologies that the message lists.
	ReasonTopologyNotFound = "TopologyNotFound"
	// ReasonComponentNotFound: the topology does not have this component. The operator changes nothing. Remove the
	// component, or correct its name.
	ReasonComponentNotFound = "ComponentNotFound"
	// ReasonReferenceNotFound: an object that the spec names does not exist in the namespace. The operator goes on
	// as soon as it does. Create the object, or name another one.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonReferenceDeleting: an object that the spec names is being deleted. The operator waits for one that
	// stays. Create the object again once it is gone, or name another one.
	ReasonReferenceDeleting = "ReferenceDeleting"
	// ReasonReferenceNotAllowed: the spec names an object in another namespace. The operator does not read it.
	// Name an object in the namespace of this one.
	ReasonReferenceNotAllowed = "ReferenceNotAllowed"
	// ReasonReferenceNotReady: an object that the spec names lacks something itself, such as a Model that it requires.
	// What runs goes on. Give that object what the message says, or name another one.
	ReasonReferenceNotReady = "ReferenceNotReady"
	// ReasonApplicationNotFound: the Application that an Entity names does not exist. The operator goes on as soon
	// as it does. Create the Application, or name another one.
	ReasonApplicationNotFound = "ApplicationNotFound"
)

// Reasons of Secrets and certificates. Application, Component, Entity, BackupRepository and typed kinds have
// them.
const (
	// ReasonSecretNotFound: a Secret, or a key of it, that the spec names does not exist. The operator goes on as
	// soon as it does. Create the Secret with that key.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: the value of a key in a Secret cannot be used as password or key, for example because
	// it ends with a newline. The operator keeps the value of before. Write the value anew, with printf '%s' in
	// place of echo.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonPasswordHeld: pods log in at each other with a password that no Secret has any more, so the operator
	// cannot replace it without an outage. Put the former password back, or set running to false and, once the
	// pods are gone, to true.
	ReasonPasswordHeld = "PasswordHeld"
	// ReasonCertManagerNotFound: TLS is asked for, and cert-manager is not installed. The operator looks for it
	// again. Install cert-manager, or turn tls off.
	ReasonCertManagerNotFound = "CertManagerNotFound"
	// ReasonIssuerNotReady: the issuer that the spec names does not exist or is not ready. The operator waits for
	// it. Correct the issuer, or name another one.
	ReasonIssuerNotReady = "IssuerNotReady"
	// ReasonCertificateNotReady: cert-manager has not issued the certificate of a component yet. The operator
	// waits for it. Look at the Certificate that the message names when it stays the same for long.
	ReasonCertificateNotReady = "CertificateNotReady"
	// ReasonCertificateCurrent: every pod serves the present certificate. Nothing to do.
	ReasonCertificateCurrent = "CertificateCurrent"
	// ReasonCertificateOutdated: some pods still serve the certificate of before. The operator has them load the
	// present one. Wait, and look at the pods that the message names when it stays the same for long.
	ReasonCertificateOutdated = "CertificateOutdated"
)

// Reasons of metrics and routes. Application and Component have them in Monitored and Routed; the instance is
// ready all the same.
const (
	// ReasonPodMonitorApplied: the PodMonitor by which a Prometheus finds the metrics exists. Nothing to do.
	ReasonPodMonitorApplied = "PodMonitorApplied"
	// ReasonPodMonitorNotFound: metrics are asked for, and the cluster does not have the kind PodMonitor. The
	// operator looks for it again. Install the Prometheus operator, or collect the metrics in another way.
	ReasonPodMonitorNotFound = "PodMonitorNotFound"
	// ReasonPodMonitorRefused: the PodMonitor was rejected by the API server. The operator tries again. Do what
	// the message says, for example give the operator the right to write it.
	ReasonPodMonitorRefused = "PodMonitorRefused"
	// ReasonRoutesApplied: the Ingresses and HTTPRoutes by which clients outside of the cluster reach a Component
	// exist. Nothing to do.
	ReasonRoutesApplied = "RoutesApplied"
	// ReasonHTTPRouteNotFound: an HTTPRoute is asked for, and the cluster does not have that kind. The operator
	// looks for it again. Install the Gateway API, or remove the HTTPRoute from the spec.
	ReasonHTTPRouteNotFound = "HTTPRouteNotFound"
	// ReasonRouteRefused: an Ingress or HTTPRoute was rejected by the API server, or a foreign object has its
	// name. The operator tries again. Do what the message says.
	ReasonRouteRefused = "RouteRefused"
	// ReasonAddressPending: a pod does not have an address for clients outside of the cluster yet. The operator
	// creates the pod once it has one. Wait, and look at the Service that the message names when it stays the same
	// for long.
	ReasonAddressPending = "AddressPending"
)

// Reasons of autoscalers. Application, Component and typed kinds have them in Autoscaled; the instance is ready all the
// same.
const (
	// ReasonAutoscalerActive: the HorizontalPodAutoscalers have the metrics that they go by. Nothing to do.
	ReasonAutoscalerActive = "AutoscalerActive"
	// ReasonMetricsUnavailable: a HorizontalPodAutoscaler has no values of the metrics that it goes by, and leaves the
	// number of pods as it is. It asks again by itself. Install what serves the metrics, as the message says, or wait for
	// pods that have just begun.
	ReasonMetricsUnavailable = "MetricsUnavailable"
	// ReasonAutoscalerInactive: a HorizontalPodAutoscaler cannot scale, for another reason than its metrics. It tries
	// again by itself. Read the message, which is that of the autoscaler.
	ReasonAutoscalerInactive = "AutoscalerInactive"
)

// Reasons of volumes. WorkloadSet, Component, Application and typed kinds have them.
const (
	// ReasonStorageClassNotFound: the StorageClass that the spec names, or a default one, does not exist. The
	// operator goes on as soon as it does. Create the StorageClass, or name another one.
	ReasonStorageClassNotFound = "StorageClassNotFound"
	// ReasonVolumeShrinkRefused: the spec asks for a smaller volume than there is, and a volume can only grow. The
	// operator changes no volume. Set the size that the message names.
	ReasonVolumeShrinkRefused = "VolumeShrinkRefused"
	// ReasonVolumeExpansionUnsupported: a volume cannot grow, because its class, its storage, its node or a quota
	// does not allow it. Pods run with what they have. Make room where the message says, or set the former size.
	ReasonVolumeExpansionUnsupported = "VolumeExpansionUnsupported"
	// ReasonVolumeClassRefused: the spec asks for another StorageClass, and a volume keeps its own. The operator
	// changes no volume. Set the StorageClass that the message names.
	ReasonVolumeClassRefused = "VolumeClassRefused"
	// ReasonVolumeUnavailable: a volume of a pod is not provisioned, is lost, or is not mounted on the node of the
	// pod. The operator waits for it and deletes no data. Look at the claim and the events that the message names.
	ReasonVolumeUnavailable = "VolumeUnavailable"
	// ReasonRetainedVolumesExist: volumes of a deleted Application with this name still exist. The operator
	// creates no pod, so that no data is used by accident. Set adoptVolumes to the UID that the message names,
	// delete the claims, or take another name.
	ReasonRetainedVolumesExist = "RetainedVolumesExist"
	// ReasonAdoptionRefused: a retained volume or VolumeSnapshot that adoptVolumes names does not fit the spec.
	// The operator does not touch it. Change the spec as the message says, or remove adoptVolumes.
	ReasonAdoptionRefused = "AdoptionRefused"
	// ReasonSnapshotFailed: a VolumeSnapshot was not made: that of a volume which is to be deleted once it exists,
	// or that of a Backup. A volume is kept until then, and a Backup fails. Look at the snapshot controller and
	// the CSI driver, or set another deletionPolicy.
	ReasonSnapshotFailed = "SnapshotFailed"
)

// Reasons of pods. WorkloadSet, Component, Application, Operation, CronJob and typed kinds have them.
const (
	// ReasonPodsNotReady: pods are created, updated or replaced, and the message says which. Wait, and look at the
	// pod that the message names when it stays the same for long.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonPodUnschedulable: the scheduler finds no node for a pod. The operator waits until it does. Add a node,
	// ask for less, or change the placement, as the message says.
	ReasonPodUnschedulable = "PodUnschedulable"
	// ReasonNodeUnreachable: the node of a pod does not answer, so it is not known whether the pod runs. The
	// operator does not replace the pod before it is known to be stopped. Repair the node, or set the taint
	// node.kubernetes.io/out-of-service on it once it is off.
	ReasonNodeUnreachable = "NodeUnreachable"
	// ReasonImageUnavailable: a node cannot pull an image. The node tries again. Correct the image, the registry
	// or the pull Secret.
	ReasonImageUnavailable = "ImageUnavailable"
	// ReasonProcessFailing: the process of a container does not start or does not stay up. It is started again
	// with increasing pauses. Read the log of the pod that the message names.
	ReasonProcessFailing = "ProcessFailing"
	// ReasonTooManyClients: the middleware is alive, and clients use all of its connections. The operator restarts
	// nothing and elects no other primary. Close connections, use a pool, or raise the limit in the parameters.
	ReasonTooManyClients = "TooManyClients"
	// ReasonConfigurationPending: the running process does not have the wanted configuration yet. The operator
	// reloads or restarts it in its turn. Wait, and look at the pod that the message names when it stays the same
	// for long.
	ReasonConfigurationPending = "ConfigurationPending"
	// ReasonNeedNotReady: a component waits for another one to start, or to stop first. The operator goes on as
	// soon as that has happened. Look at the component that the message names.
	ReasonNeedNotReady = "NeedNotReady"
	// ReasonResizePending: a node has not given a pod its new resources yet. The pod runs with those that it has.
	// Wait, free resources on the node, or take the change back.
	ReasonResizePending = "ResizePending"
	// ReasonResizeInfeasible: no node that the pod may run on has room for its new resources. The pod runs with
	// those that it has. Add a larger node, or ask for less.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonStopped: the pods are deleted, because the spec has running: false. Volumes, Services and Secrets are
	// kept. Set running to true to start it again.
	ReasonStopped = "Stopped"
)

// Reasons of changes that wait. WorkloadSet, Component, Application, Operation and typed kinds have them.
const (
	// ReasonOperationAtWork: an Operation works on the pods, and a change of the spec waits until it has ended.
	// Wait, or cancel the Operation that the message names.
	ReasonOperationAtWork = "OperationAtWork"
	// ReasonUpdateOrder: a change of the pods waits until a component that is updated before this one has its own. A
	// pod that is missing or broken does not wait. Wait, mend the component that the message names, or delete a pod,
	// which comes back with its change at once.
	ReasonUpdateOrder = "UpdateOrder"
	// ReasonWaitingForMaintenance: All pods serve, and some are to be restarted or replaced in the next
	// maintenance window. Wait for the window that the message names, or change the windows.
	ReasonWaitingForMaintenance = "WaitingForMaintenance"
	// ReasonWindowOpen: what waited for a maintenance window has begun. Nothing to do.
	ReasonWindowOpen = "WindowOpen"
)

// Reasons of a primary and of members. WorkloadSet, Component, Application and typed kinds have them.
const (
	// ReasonFailoverPending: There is no primary, or its pod is down. The operator promotes a candidate as soon as
	// one is safe. Wait, or, when the message says why no pod is a candidate, do what it says.
	ReasonFailoverPending = "FailoverPending"
	// ReasonSwitchoverPending: a primary is to hand over to another pod before it is restarted or deleted. The
	// operator asks it to. Wait, and look at the pod that the message names when it stays the same for long.
	ReasonSwitchoverPending = "SwitchoverPending"
	// ReasonSwitchoverFailed: a primary did not hand over in several tries. The operator does not restart or
	// delete it. Remove the cause and change the spec or run a Switchover, or delete the pod to go on without one.
	ReasonSwitchoverFailed = "SwitchoverFailed"
	// ReasonMembersPending: pods join the cluster of the middleware, or leave it. The operator runs the actions of
	// the plugin for that. Wait, and look at the pod that the message names when it stays the same for long.
	ReasonMembersPending = "MembersPending"
	// ReasonMembersRefused: pods cannot join or leave the cluster of the middleware. The operator tries again and
	// deletes no data. Do what the message says.
	ReasonMembersRefused = "MembersRefused"
	// ReasonQuorumLost: so few members of a middleware answer that nobody takes writes. The operator waits for the
	// others, and gives up none of them by itself. Bring them back, or run the Operation that the message names.
	ReasonQuorumLost = "QuorumLost"
	// ReasonMembersDiverged: members have data that the others do not have. The operator keeps them out of the cluster
	// of the middleware and overwrites nothing. Save what counts of it, then run RebuildMember.
	ReasonMembersDiverged = "MembersDiverged"
)

// Reasons of Operations. Operation has them.
const (
	// ReasonTargetNotFound: the object that the Operation names does not exist, or was deleted. The Operation
	// fails. Create another Operation that names an object that exists.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTemplateNotFound: neither the plugin nor the engine has an Operation template of this name. The
	// Operation fails. Create another Operation with one of the templates that the message lists.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonOperationFailed: an Operation that the object declares has failed. The operator keeps its record. Read
	// status.error of the Operation that the message names, and remove the cause.
	ReasonOperationFailed = "OperationFailed"
	// ReasonPassed: the Operation has passed its point of no return: it cannot be cancelled any more. Wait until
	// it has ended.
	ReasonPassed = "Passed"
	// ReasonNotPassed: the Operation has not passed its point of no return. Cancel it now when it is not wanted.
	ReasonNotPassed = "NotPassed"
)

// Reasons of Entities. Entity, and typed kinds that declare Entities, have them.
const (
	// ReasonTypeNotFound: the plugin does not have Entities of this type. The operator changes nothing. Choose one
	// of the types that the message lists.
	ReasonTypeNotFound = "TypeNotFound"
	// ReasonAlreadyExists: the middleware has an object of this name that the Entity did not create, or the object
	// that an Operation is to create exists. The operator does not touch it. Set adopt of the Entity to true to
	// take it over, or take another name.
	ReasonAlreadyExists = "AlreadyExists"
	// ReasonMiddlewareNotReady: no pod of the instance answers at present. The operator asks again. Look at the
	// conditions of the Application.
	ReasonMiddlewareNotReady = "MiddlewareNotReady"
	// ReasonRefusedByMiddleware: the middleware refuses what the Entity asks for. The operator asks again with
	// increasing pauses. Correct what the message, which is that of the middleware, names.
	ReasonRefusedByMiddleware = "RefusedByMiddleware"
)

// Reasons of Backups. Backup has them, and the objects that look at it.
const (
	// ReasonBackupRefused: the instance cannot be backed up in this way, or the repository has changed. The Backup
	// fails. Create another Backup that differs as the message says.
	ReasonBackupRefused = "BackupRefused"
	// ReasonBackupQueued: other Backups of the repository run, or come first. The Backup begins by itself. Wait, or
	// cancel the Operations of those that are not needed.
	ReasonBackupQueued = "BackupQueued"
	// ReasonNoBackupSource: no pod can provide the data at present. The Backup begins as soon as one can. Look at
	// the conditions of the instance.
	ReasonNoBackupSource = "NoBackupSource"
	// ReasonBackupLate: the Backup was not complete within its timeout. The operator removes what was written.
	// Remove the cause that the message names, or set a longer timeout.
	ReasonBackupLate = "BackupLate"
	// ReasonMoverLost: the Job that carried the Backup was deleted, did not end, or ended without a result. The
	// Backup fails. Look at the node of its pod, and create another Backup.
	ReasonMoverLost = "MoverLost"
	// ReasonMoverNotStarted: the pod of a Job that carries data did not start in time. The operator ends the Job.
	// Remove what the message names: a taint, an image, a quota.
	ReasonMoverNotStarted = "MoverNotStarted"
	// ReasonFreezeFailed: the source of a Backup did not stop writing until the snapshot was made, so the snapshot
	// counts for nothing. The Backup fails. Look at the pod that the message names, and create another Backup.
	ReasonFreezeFailed = "FreezeFailed"
	// ReasonBackupFailed: the Backup failed, and its repository has no data of it to restore. The operator keeps the
	// record. Remove the cause that the message names, and create another Backup.
	ReasonBackupFailed = "BackupFailed"
	// ReasonBackupDataMissing: the Backup was complete, and its data is not in the repository any more. The
	// operator looks again with each inventory. Put the data back where it was, or delete the Backup.
	ReasonBackupDataMissing = "DataMissing"
	// ReasonBackupNotRemoved: the data of a deleted Backup cannot be removed from its repository. The operator
	// tries again. Make the repository reachable and writable, as the message says.
	ReasonBackupNotRemoved = "BackupNotRemoved"
)

// Reasons of restores. Application, Component, WorkloadSet and typed kinds have them in Restored and Ready.
const (
	// ReasonBackupNotFound: the Backup that the instance is to be restored from does not exist. The operator goes
	// on as soon as it does. Create the Backup, for example by an import, or delete the object.
	ReasonBackupNotFound = "BackupNotFound"
	// ReasonBackupNotCompleted: the Backup that the instance is to be restored from is not complete yet. The
	// operator goes on as soon as it is. Wait, or name a Backup that is complete.
	ReasonBackupNotCompleted = "BackupNotCompleted"
	// ReasonRestoreRefused: the instance cannot begin with the data of the Backup. The operator creates no pod.
	// Change the spec as the message says, or name another Backup.
	ReasonRestoreRefused = "RestoreRefused"
	// ReasonRestoring: the data of a Backup is written, and no pod is created before it is complete. Wait, and look
	// at the Jobs of the namespace when it stays the same for long.
	ReasonRestoring = "Restoring"
	// ReasonRestoreFailed: the data of a Backup could not be written. The message says why, and whether the
	// operator tries again. Remove the cause that the message names, or create the object anew from another
	// Backup.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonTargetOutOfRange: the logs that are kept do not lead from the Backup to the wanted point in time, or
	// not yet. The operator tries again. Wait until the log is archived, or create the object anew with another
	// time or Backup.
	ReasonTargetOutOfRange = "TargetOutOfRange"
	// ReasonRestored: the data of the Backup is complete on the volumes. Nothing to do.
	ReasonRestored = "Restored"
)

// Reasons of archives and repositories. Application, BackupRepository and typed kinds have them.
const (
	// ReasonRepositoryNotFound: the BackupRepository that the spec names does not exist, or is being deleted. The
	// operator goes on as soon as it does. Create the BackupRepository, or name another one.
	ReasonRepositoryNotFound = "RepositoryNotFound"
	// ReasonRepositoryNotReady: the BackupRepository that a run keeps artifacts in is not ready. The step begins as soon
	// as it is. Read what the repository says in its status, and correct that.
	ReasonRepositoryNotReady = "RepositoryNotReady"
	// ReasonClaimNotFound: the claim of the volume that a BackupRepository is on does not exist, or is being
	// deleted. The operator goes on as soon as it does. Create the claim, or name another one.
	ReasonClaimNotFound = "ClaimNotFound"
	// ReasonArchiveRefused: the instance cannot keep its archive in the BackupRepository that it names, for
	// example because that is encrypted. The operator keeps the archive where it was. Name another
	// BackupRepository.
	ReasonArchiveRefused = "ArchiveRefused"
	// ReasonArchiveFound: the BackupRepository that the instance keeps its archive in exists and can be used.
	// Nothing to do.
	ReasonArchiveFound = "ArchiveFound"
)

// Reasons of restore drills. Application, BackupPolicy and typed kinds have them in BackupsVerified.
const (
	// ReasonVerified: a restore drill restored a Backup, and its data was good. Nothing to do.
	ReasonVerified = "Verified"
	// ReasonVerificationFailed: the data of a Backup could not be restored in a drill, or was not good. The Backup
	// is kept. Create another Backup and drill it, and find out what damaged the first.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonDrillUnfinished: a restore drill did not end, so it is not known whether the data is good. Read the
	// Operation that the message names, and run the drill again.
	ReasonDrillUnfinished = "DrillUnfinished"
	// ReasonNotPossible: the instance does not have what a scheduled Operation needs. The times of the schedule
	// pass without one. Change the instance as the message says, or remove the schedule.
	ReasonNotPossible = "NotPossible"
)
