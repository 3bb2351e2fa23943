// SPDX-License-Identifier: Apache-2.0

package v1

// Labels and annotations that the engine puts on what it owns.
const (
	// DomainLabel names the operator that an object belongs to: storage,
	// database, message, model, common or batch. Immutable once set.
	DomainLabel = "platform.zeroinfra.github.com/domain"
	// ApplicationLabel names the Application that an object is part of.
	ApplicationLabel = "platform.zeroinfra.github.com/application"
	// ApplicationUIDLabel carries the UID of that Application. It tells a
	// volume of this Application from one that an earlier one left behind.
	ApplicationUIDLabel = "platform.zeroinfra.github.com/application-uid"
	// ComponentLabel names the component, as the plugin calls it.
	ComponentLabel = "platform.zeroinfra.github.com/component"
	// SetLabel names the set within the component.
	SetLabel = "platform.zeroinfra.github.com/set"
	// OrdinalLabel is the number of a pod within its set, from 0.
	OrdinalLabel = "platform.zeroinfra.github.com/ordinal"
	// RoleLabel is the role of a pod. Only the engine writes it; Services select on it.
	RoleLabel = "platform.zeroinfra.github.com/role"
	// RevisionLabel is the revision of the pod template that a pod was made from.
	RevisionLabel = "platform.zeroinfra.github.com/revision"
	// TriggerLabel says who caused an Operation that no person created: one of the triggers. An admission policy lets only
	// the engine set it.
	TriggerLabel = "platform.zeroinfra.github.com/trigger"
	// OperationLabel and StepLabel name the Operation, and its step, that a pod runs for.
	OperationLabel = "platform.zeroinfra.github.com/operation"
	StepLabel      = "platform.zeroinfra.github.com/step"
	// ScheduleLabel names the schedule of the Application that an Operation was made by.
	ScheduleLabel = "platform.zeroinfra.github.com/schedule"
	// ArchiveLabel is on pods that mount the volume of the BackupRepository that it names, for as long as they live:
	// movers go where they are.
	ArchiveLabel = "platform.zeroinfra.github.com/archive"
	// DeclaredAsLabel is on an Application that its declaring object took over from another one, and so is not called
	// after it: the name that it would have, by ApplicationNameFor.
	DeclaredAsLabel = "platform.zeroinfra.github.com/declared-as"
	// PluginLabel marks a ConfigMap as a part of the plugin that it names.
	PluginLabel = "platform.zeroinfra.github.com/plugin"
	// PublisherAnnotation is on a Plugin: the namespace of the operator that publishes it.
	PublisherAnnotation = "platform.zeroinfra.github.com/publisher"

	// RotateAnnotation on the Secret of the agents' CA, with any value, has another CA follow now and not only after 2/3
	// of its life. It is taken off as that begins.
	RotateAnnotation = "platform.zeroinfra.github.com/rotate"

	// ReportAnnotation is where the status agent of a pod writes its report
	// (agentproto/v1.Report as JSON), only when something changes.
	ReportAnnotation = "platform.zeroinfra.github.com/report"
	// SwitchPrimaryAnnotation asks a WorkloadSet to have the pod that takes writes hand over: "<pod>" names the one that
	// is to stop writing, "<pod>/<other>" the one that is to take over, too. It does nothing while that pod takes no
	// writes. What an Operation asks for ends with "#<name>/<UID>" of that, and is taken back when it is gone.
	SwitchPrimaryAnnotation = "platform.zeroinfra.github.com/switch-primary"
	// RecordedTermAnnotation is the latest term of a WorkloadSet whose failover is on record as an Operation.
	RecordedTermAnnotation = "platform.zeroinfra.github.com/recorded-term"
	// PasswordFromAnnotation is on the Secret of a credential whose password the user supplies, and names where that is:
	// "<Secret>/<key>".
	PasswordFromAnnotation = "platform.zeroinfra.github.com/password-from"
	// SchedulesAnnotation is where the engine keeps how far each schedule of an Application is.
	SchedulesAnnotation = "platform.zeroinfra.github.com/schedules"
	// ScheduledForAnnotation is the time of its schedule that an Operation was made for, in the zone of that.
	ScheduledForAnnotation = "platform.zeroinfra.github.com/scheduled-for"
	// ChangesAnnotation is on an Operation with trigger Spec and says what changed in the spec that it has take effect: in
	// each line the generation and, in words, one change.
	ChangesAnnotation = "platform.zeroinfra.github.com/changes"
	// PreemptsAnnotation is on an Operation with trigger Spec that stops the instance.
	PreemptsAnnotation = "platform.zeroinfra.github.com/preempts"
	// PluginVersionAnnotation is on a typed object whose kind has no field for the version of the plugin, and names the
	// one that an Operation brought its instance to. An admission policy lets only the engine change it.
	PluginVersionAnnotation = "platform.zeroinfra.github.com/plugin-version"
	// AdoptedByAnnotation is on a typed object that hands its instance over, and names the object that takes it over:
	// "<kind>/<name>/<UID>".
	AdoptedByAnnotation = "platform.zeroinfra.github.com/adopted-by"
	// MadeByAnnotation is the UID of the Operation that made an object.
	MadeByAnnotation = "platform.zeroinfra.github.com/made-by"
	// RotatedAnnotation is on the Secret of a credential whose password was made anew, and tells for which step of which
	// Operation; and RotatedFromAnnotation the revision of the password before.
	RotatedAnnotation     = "platform.zeroinfra.github.com/rotated"
	RotatedFromAnnotation = "platform.zeroinfra.github.com/rotated-from"
	// HandoverAnnotation is on the Secret of a credential that pods log in at each other with while one password takes the
	// place of another, and says how far that is: HandoverIntroduces or HandoverRetires.
	HandoverAnnotation = "platform.zeroinfra.github.com/handover"
	// AppliedAnnotation is the digest of what the engine last applied to an object.
	AppliedAnnotation = "platform.zeroinfra.github.com/applied"

	// ImagesAnnotation is on a pod whose containers got other images in place, and tells which containers have yet to
	// restart.
	ImagesAnnotation = "platform.zeroinfra.github.com/images"
	// PluginImagesAnnotation has the images of a pod's containers as the plugin names them, before the operator's registry
	// is put in front.
	PluginImagesAnnotation = "platform.zeroinfra.github.com/plugin-images"
	// ResourcesAnnotation names the resources that the engine gave to the containers of a pod; others came from elsewhere.
	ResourcesAnnotation = "platform.zeroinfra.github.com/resources"
	// ZoneAnnotation is on a pod whose agents ask for the zone of its node: that zone as a text of JSON, since an empty
	// one tells of a node that is in none.
	ZoneAnnotation = "platform.zeroinfra.github.com/zone"
	// DataAnnotation says whose data is on a volume: the plugin, the version of the middleware and the topology, as
	// "redis/7.2/replication". Volumes of before topologies were noted have none.
	DataAnnotation = "platform.zeroinfra.github.com/data"

	// GenerationLabel is on a claim that its set was not made with: the generation of the volumes of the set that it is
	// of.
	GenerationLabel = "platform.zeroinfra.github.com/data-generation"
	// PreparedAnnotation is on a claim of a generation that no pod has had yet, and is the UID of the Operation that
	// prepares it.
	PreparedAnnotation = "platform.zeroinfra.github.com/prepared-by"
	// RestoredAnnotation is on a claim whose volume was filled with the data of a Backup, and is the UID of that.
	RestoredAnnotation = "platform.zeroinfra.github.com/restored"

	// ClaimAnnotation is on a VolumeSnapshot and names the claim whose volume it is of; ClaimUIDAnnotation tells that from
	// a later one of this name, and DriverAnnotation names the CSI driver that has the data.
	ClaimAnnotation    = "platform.zeroinfra.github.com/claim"
	ClaimUIDAnnotation = "platform.zeroinfra.github.com/claim-uid"
	DriverAnnotation   = "platform.zeroinfra.github.com/driver"
	// AwaitedAnnotation says on a VolumeSnapshot since when its claim waits for the snapshot controller to let go of it,
	// and on a pod which plan its agent waits for Secrets of. A change of it has that controller, or the kubelet, look
	// again.
	AwaitedAnnotation = "platform.zeroinfra.github.com/awaited"

	// VolumesFinalizer is on a WorkloadSet whose volumes are to be deleted with it.
	VolumesFinalizer = "platform.zeroinfra.github.com/volumes"

	// EntityFinalizer is on an Entity whose object is to be removed with it.
	EntityFinalizer = "platform.zeroinfra.github.com/entity"

	// BackupLabel is on the Job of a mover and on its pod, and is the UID of the Backup, or the BackupRepository, that it
	// works for; and on a VolumeSnapshot that has the data of a Backup.
	BackupLabel = "platform.zeroinfra.github.com/backup"
	// DrillLabel is on an Application that a restore drill made and removes, and names the one whose Backup it begins
	// with.
	DrillLabel = "platform.zeroinfra.github.com/drill-of"
	// FollowsAnnotation is on a Job that checks a repository or takes its inventory: the time of the check or inventory
	// before it, in RFC 3339; empty where there was none.
	FollowsAnnotation = "platform.zeroinfra.github.com/follows"
	// MoverPlanAnnotation has what a mover is to do; the kubelet gives it to the container as a file.
	MoverPlanAnnotation = "platform.zeroinfra.github.com/mover-plan"
	// FetchPlanAnnotation has what a mover is to fetch for the container of a task in the same pod.
	FetchPlanAnnotation = "platform.zeroinfra.github.com/fetch-plan"
	// GivenUpAnnotation is on a Job whose pod did not start in time, and says why it did not.
	GivenUpAnnotation = "platform.zeroinfra.github.com/given-up"
	// ShareFinalizer is on a BackupRepository on NFS, whose PersistentVolume is to go with it.
	ShareFinalizer = "platform.zeroinfra.github.com/nfs"
	// BackupFinalizer is on a Backup whose data is to be removed from its repository with it.
	BackupFinalizer = "platform.zeroinfra.github.com/backup"

	// ArtifactsFinalizer is on an Operation whose artifacts are to be removed from their repository with it.
	ArtifactsFinalizer = "platform.zeroinfra.github.com/artifacts"

	// OutputLabel is on a Kubernetes object that an object of a typed kind declares, and names that kind in lower case.
	OutputLabel = "platform.zeroinfra.github.com/output-of"
	// CompiledAnnotation is on an Operation that an object of a typed kind declares, and is a digest of the spec that
	// it was created with.
	CompiledAnnotation = "platform.zeroinfra.github.com/compiled"

	// ManagedBy is the value of the label app.kubernetes.io/managed-by on all that the engine owns.
	ManagedBy = "zeroinfra"
)

// Well-known labels of Kubernetes that the engine sets.
const (
	// ManagedByLabel names the tool that manages an object.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// InstanceLabel names the Application.
	InstanceLabel = "app.kubernetes.io/instance"
	// NameLabel names the middleware, that is the plugin.
	NameLabel = "app.kubernetes.io/name"
)

// Values of HandoverAnnotation.
const (
	// HandoverIntroduces: processes go on showing the password from before, and are to accept the new one as well.
	HandoverIntroduces = "Introduces"
	// HandoverRetires: all processes accept both, and are to show the new one.
	HandoverRetires = "Retires"
)
