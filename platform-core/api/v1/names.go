// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"crypto/sha256"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
)

// Longest names that keep every derived name within 63 characters.
const (
	// MaxApplicationName is the longest name of an Application.
	MaxApplicationName = 38
	// MaxComponentName is the longest name of a component within its plugin.
	MaxComponentName = 12
	// MaxSetName is the longest name of a set within its component.
	MaxSetName = 6
	// MaxScheduleName is the longest name of a schedule.
	MaxScheduleName = 24
)

// Longest names of objects, see DerivedName.
const (
	// MaxObjectName is the longest name that most objects can have.
	MaxObjectName = 253
	// MaxLabelValue is the longest name of an object that is in a label as well, such as that of a Job in those of its
	// pods.
	MaxLabelValue = 63
)

// nameDigest is how many digits of a digest end a name that was cut.
const nameDigest = 8

// DerivedName returns the name of an object that follows from names of others: the parts, with hyphens between them.
// One of more than limit characters is cut, and ends with a digest of the whole, so that other parts give another name.
// The parts are names that Kubernetes allows, or ends of such; limit is MaxObjectName or MaxLabelValue.
func DerivedName(limit int, parts ...string) string {
	name := strings.Join(parts, "-")
	if len(name) <= limit {
		return name
	}
	// No part of a name may begin or end with these: what is cut off after one of them leaves it out, too.
	kept := strings.TrimRight(name[:limit-1-nameDigest], ".-")
	return kept + "-" + fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:nameDigest]
}

// DefaultSet is the name of the only set of a component that declares none.
const DefaultSet = "main"

// ApplicationNameFor returns the name of the Application that a typed object
// compiles to: "<kind>-<name>", the kind in lower case.
func ApplicationNameFor(kind, name string) string {
	return strings.ToLower(kind) + "-" + name
}

// ComponentNameFor returns the name of the Component object of one component.
func ComponentNameFor(application, component string) string {
	return application + "-" + component
}

// WorkloadSetNameFor returns the name of the WorkloadSet object of one set.
func WorkloadSetNameFor(application, component, set string) string {
	return application + "-" + component + "-" + set
}

// PodNameFor returns the name of the pod with the given ordinal of a WorkloadSet.
func PodNameFor(workloadSet string, ordinal int32) string {
	return fmt.Sprintf("%s-%d", workloadSet, ordinal)
}

// WorkloadSetNameOf returns the name of the WorkloadSet that a pod is of, by the pod's name as PodNameFor makes it.
func WorkloadSetNameOf(pod string) string { return pod[:max(0, strings.LastIndex(pod, "-"))] }

// ClaimNameFor returns the name of the PersistentVolumeClaim that holds one volume of a pod.
func ClaimNameFor(volume, pod string) string {
	return volume + "-" + pod
}

// ClaimNameIn is ClaimNameFor in a generation of the volumes; empty for those that a set was made with.
func ClaimNameIn(generation, volume, pod string) string {
	if generation == "" {
		return ClaimNameFor(volume, pod)
	}
	return ClaimNameFor(volume, pod) + "-" + generation
}

// AgentCertificateNameFor returns the name of the Secret with the server
// certificate of the agents of a pod.
func AgentCertificateNameFor(pod string) string {
	return pod + "-agent"
}

// PlanNameFor returns the name of the ConfigMap with the agent plan of a WorkloadSet.
func PlanNameFor(workloadSet string) string {
	return workloadSet + "-plan"
}

// CredentialNameFor returns the name of the Secret that the engine generates
// for a credential that the user did not supply.
func CredentialNameFor(application, credential string) string {
	return application + "-" + credential
}

// CertificateNameFor returns the name of the Certificate of a component, and of the Secret that it is issued to.
func CertificateNameFor(application, component string) string {
	return application + "-" + component + "-tls"
}

// AuthorityNameFor returns the name of the Issuer, the Certificate and the Secret of the CA that an Application has of
// its own.
func AuthorityNameFor(application string) string {
	return application + "-ca"
}

// TrustNameFor returns the name of the Secret with the certificates of all CAs that the members and clients of an
// Application are to trust.
func TrustNameFor(application string) string {
	return application + "-trust"
}

// SelfSignedNameFor returns the name of the Issuer of that CA.
func SelfSignedNameFor(application string) string {
	return application + "-selfsigned"
}

// BindingNameFor returns the name of the Secret that follows the Service
// Binding specification for an Application.
func BindingNameFor(application string) string {
	return application + "-binding"
}

// label is a name that can be part of another one as it is.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// EntityNameFor returns the name of the Entity that a typed object has for an object inside its middleware. A name that
// Kubernetes does not allow is in it as a digest, after a dot, which no other one has.
func EntityNameFor(application, entityType, name string) string {
	if label.MatchString(name) {
		return application + "-" + entityType + "-" + name
	}
	return fmt.Sprintf("%s-%s.%x", application, entityType, sha256.Sum256([]byte(name)))[:len(application)+len(entityType)+
		2+entityDigest]
}

// entityDigest is how many digits of a digest a name has.
const entityDigest = 16

// ScheduledOperationNameFor returns the name of the Operation that a schedule of an Application makes for a time. A
// schedule's name has no dot, so that no two schedules share one.
func ScheduledOperationNameFor(application, schedule string, at time.Time) string {
	return application + "." + schedule + "." + at.UTC().Format("20060102-1504")
}

// BackupKeyFor returns the folder of a Backup within its repository. Nobody else ever writes there.
func BackupKeyFor(b *Backup) string {
	if b.Spec.Imported != nil {
		return b.Spec.Imported.Key
	}
	return b.Namespace + "/" + b.Spec.ApplicationRef.Name + "/" + b.Name + "-" +
		string(b.UID)[:min(len(b.UID), backupIdentity)]
}

// BackupSnapshotNameFor returns the name of the VolumeSnapshot that has a volume of a Backup: it follows from the
// Backup, so that there is one whatever crashes.
func BackupSnapshotNameFor(b *Backup, volume string) string {
	return DerivedName(MaxObjectName, b.Name, string(b.UID)[:min(len(b.UID), backupIdentity)], volume)
}

// backupIdentity is how many characters of its UID are in the name of the folder of a Backup.
const backupIdentity = 8

// ImportedBackupNameFor returns the name of the Backup that is made of what is kept in a folder: that of the folder,
// which has the name and a part of the UID of the Backup of before.
func ImportedBackupNameFor(key string) string { return path.Base(key) }

// ShareNameFor returns the name of the PersistentVolume of a BackupRepository on NFS.
func ShareNameFor(r *BackupRepository) string { return "backups-" + string(r.UID) }

// ShareClaimNameFor returns the name of its PersistentVolumeClaim.
func ShareClaimNameFor(r *BackupRepository) string { return DerivedName(MaxObjectName, r.Name, "nfs") }
