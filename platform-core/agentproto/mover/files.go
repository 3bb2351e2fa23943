// SPDX-License-Identifier: Apache-2.0

package mover

// Files has VerbBackup and VerbRestore carry the files of a folder by restic in place of what a command writes, and
// VerbDelete remove them. restic keeps them in a repository of its own, <folder of the instance>/_files, which the
// backups of an instance share: what is in one already is not sent again. The folder of a backup has its metadata and
// manifest as any other, and the latter names the snapshot in that repository.
//
// The repository has the passphrase of the BackupRepository, and is in the folder _files-encrypted then. restic alone
// reads it: https://restic.readthedocs.io/en/stable/100_references.html.
type Files struct {
	// Folder of VerbBackup: all that is below it on the same file system is kept.
	Folder string `json:"folder,omitempty"`
	// Exclude are patterns of restic for what is left out.
	Exclude []string `json:"exclude,omitempty"`
}

const (
	// FilesFolder is the folder of the repository of restic, beside those of the backups of an instance.
	FilesFolder = "_files"
	// FilesFolderEncrypted is that where it has the passphrase of the BackupRepository.
	FilesFolderEncrypted = "_files-encrypted"
	// FilesFormatVersion is that of a Manifest with Files.
	FilesFormatVersion = 4
)

// FilesManifest is what a Manifest says of files.
type FilesManifest struct {
	// Repository is the folder of the repository of restic, beside that of the backup.
	Repository string `json:"repository"`
	// Snapshot is the ID of restic's snapshot: a SHA-256 that all it has follows from.
	Snapshot string `json:"snapshot"`
	// Folder that it is of.
	Folder string `json:"folder"`
	// Count and Size are how many files there are, and how many bytes they have; Added is how many bytes were new to the
	// repository.
	Count int64 `json:"count"`
	Size  int64 `json:"size"`
	Added int64 `json:"added"`
}
