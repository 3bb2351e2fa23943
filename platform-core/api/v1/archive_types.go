// SPDX-License-Identifier: Apache-2.0

package v1

// Archive has an instance keep the log of what is written to it, so that another one can begin at any time after a
// Backup.
type Archive struct {
	// repositoryRef names the BackupRepository, in the same namespace, that it is kept in: in the folder
	// _archive/<namespace>/<name of the Application> below its prefix, beside the Backups. Of a repository on a volume or
	// on NFS the pods mount the volume; with more than one pod it has to be one that several nodes can mount
	// (ReadWriteMany). One that is encrypted is refused.
	// +required
	RepositoryRef RepositoryReference `json:"repositoryRef"`
}

// ComponentArchive is where the pods of a component keep what they archive, or where a restore finds what others did:
// what the BackupRepository said when it was last there.
type ComponentArchive struct {
	// repository by name.
	// +required
	Repository string `json:"repository"`
	// folder in it that has the archive and nothing else, with the prefix of the repository.
	// +required
	Folder string `json:"folder"`
	// claim of the volume that it is on; empty for a bucket.
	// +optional
	Claim string `json:"claim,omitempty"`
	// bucket that it is in; absent for a volume.
	// +optional
	Bucket *ArchiveBucket `json:"bucket,omitempty"`
}

// ArchiveBucket is a bucket of an S3 store, and who opens it.
type ArchiveBucket struct {
	// endpoint is the URL of the store.
	// +required
	Endpoint string `json:"endpoint"`
	// name of the bucket.
	// +required
	Name string `json:"name"`
	// region that requests are signed for; us-east-1 when left out.
	// +optional
	Region string `json:"region,omitempty"`
	// addressingStyle says where a request names the bucket.
	// +optional
	AddressingStyle AddressingStyle `json:"addressingStyle,omitempty"`
	// credentialsSecretRef names the Secret with the keys accessKey and secretKey.
	// +required
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef"`
	// caSecretRef names the key of a Secret that has the authority of the store's certificate.
	// +optional
	CASecretRef *AuthorityReference `json:"caSecretRef,omitempty"`
}

// ArchiveFolderFor returns the folder of a BackupRepository with a prefix that has the archive of an Application. No
// namespace is called like the first of what follows the prefix, so that no Backup is kept there, and nobody takes it
// for one.
func ArchiveFolderFor(prefix RepositoryPrefix, namespace, application string) string {
	folder := "_archive/" + namespace + "/" + application
	if prefix == "" {
		return folder
	}
	return string(prefix) + "/" + folder
}

// Keys of the Secret that an S3 repository names in credentialsSecretRef.
const (
	StoreAccessKey = "accessKey"
	StoreSecretKey = "secretKey"
)

// Prefix is the folder of the bucket or the volume that a repository has.
func (r *BackupRepositorySpec) Prefix() RepositoryPrefix {
	switch {
	case r.S3 != nil:
		return r.S3.Prefix
	case r.NFS != nil:
		return r.NFS.Prefix
	case r.PersistentVolumeClaim != nil:
		return r.PersistentVolumeClaim.Prefix
	}
	return ""
}

// ClaimName is that of the volume that the pods mount which use a repository; empty for a bucket.
func (r *BackupRepository) ClaimName() string {
	switch {
	case r.Spec.NFS != nil:
		return ShareClaimNameFor(r)
	case r.Spec.PersistentVolumeClaim != nil:
		return r.Spec.PersistentVolumeClaim.ClaimName
	}
	return ""
}
