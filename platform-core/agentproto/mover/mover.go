// SPDX-License-Identifier: Apache-2.0

// Package mover is what an operator tells the pods that carry backups, and what those tell in return. A mover reads its
// Plan from a file, does one verb, and writes its Result as JSON into the termination message of its container. It has
// no right in the API.
//
// A backup is a folder <prefix>/<Backup.Key> of a repository: the data as data-00001, data-00002 … (a tar or any other
// stream of the middleware's own tool, compressed, and then encrypted where there is a key, cut into parts),
// metadata.json (Plan.Backup.Metadata as it is), and last manifest.json, a Manifest. What has no manifest is no backup.
// Data and metadata are in a folder of their attempt, <run>/, so that two attempts never write under one name;
// Part.Name is <run>/data-00001. attempt.json says which attempt is the latest, a Mark.
//
// A backup of several sets, each of which has a part of the data, has a Stream for each: a stream of its own, in parts
// that no other has any of.
package mover

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

const (
	// PlanPath is where a mover finds its plan.
	PlanPath = "/zeroinfra/mover/plan.json"
	// CredentialsPath is the folder with the files accessKey, secretKey and ca.crt of an S3 repository, each if there is
	// one.
	CredentialsPath = "/zeroinfra/repository/credentials"
	// KeyPath is the file with the passphrase of an encrypted repository.
	KeyPath = "/zeroinfra/repository/key/passphrase"
	// User is the user and the group of all movers, and the group that shares the volume of a repository with them.
	User = 65532
	// VolumePath is where a repository that is a volume is mounted.
	VolumePath = "/zeroinfra/repository/volume"
	// FormatVersion of Manifest is the highest that is written; a reader refuses a higher one.
	FormatVersion = FilesFormatVersion
	// StreamsFormatVersion is that of a Manifest with streams.
	StreamsFormatVersion = 2
	// PlainFormatVersion is that of a Manifest with neither streams nor objects, so that older readers know it.
	PlainFormatVersion = 1
	// MinPassphrase is how many bytes the passphrase of an encrypted repository has at least: its key is derived at a cost
	// that fits into a pod.
	MinPassphrase = 16
	// MaxResult is how many bytes a termination message may have.
	MaxResult = 4096
)

// Verb is what a mover does.
type Verb string

const (
	// VerbCheck writes, reads and deletes a small object, and looks how much room there is.
	VerbCheck Verb = "check"
	// VerbBackup runs a command and keeps what that writes to its standard output.
	VerbBackup Verb = "backup"
	// VerbRestore reads a backup, checks it against its manifest, and gives it to a command's standard input.
	VerbRestore Verb = "restore"
	// VerbAdopt runs a command in the folder of a volume that was made of a snapshot, which takes out what was of the
	// former member alone.
	VerbAdopt Verb = "adopt"
	// VerbInspect reads the manifest, and with Verify all of the data, and says whether it is as it was written.
	VerbInspect Verb = "inspect"
	// VerbDelete removes a backup: the manifest first. One that is not there counts as removed.
	VerbDelete Verb = "delete"
	// VerbList names the backups that are there, and what is left of those that have no manifest.
	VerbList Verb = "list"
	// VerbRecall reads the manifests and metadata of backups that the Catalogue does not know: a Recall.
	VerbRecall Verb = "recall"
)

// Plan is what a mover is to do.
type Plan struct {
	Verb       Verb       `json:"verb"`
	Repository Repository `json:"repository"`
	Backup     *Backup    `json:"backup,omitempty"`
	// Command is that of VerbBackup, VerbRestore or VerbAdopt; its environment is that of the container.
	Command []string `json:"command,omitempty"`
	// Facts is run after Command of a backup has ended well: lines "key=value" of its standard output become Result.Facts,
	// such as the timeline and the position in the log.
	Facts []string `json:"facts,omitempty"`
	// Streams of VerbBackup are what Command is run for, one after the other, and Facts after each; without them Command
	// is run once.
	Streams []Stream `json:"streams,omitempty"`
	// Steady, of VerbBackup with Streams, is run before the first and after the last of them. It refuses by an exit code
	// that is not 0, and what it writes must be the same both times: lines "key=value" or "key.<name of a stream>=value",
	// which become facts of the backup or of that stream.
	Steady []string `json:"steady,omitempty"`
	// Objects has VerbBackup and VerbRestore carry the objects of a storage; there is no Command then.
	Objects *Objects `json:"objects,omitempty"`
	// Files has VerbBackup and VerbRestore carry files by restic, and VerbDelete remove them; there is no Command then.
	Files *Files `json:"files,omitempty"`
	// Artifacts are for VerbKeep, VerbFetch and VerbDiscard.
	Artifacts *Artifacts `json:"artifacts,omitempty"`
	// Volume is the one that VerbRestore fills, or that VerbAdopt works on; without it the command alone knows where the
	// data goes.
	Volume *TargetVolume `json:"volume,omitempty"`
	// Known are the facts of the backup, for VerbAdopt: a snapshot has no manifest.
	Known map[string]string `json:"known,omitempty"`
	// Verify has VerbInspect read all of the data.
	Verify bool `json:"verify,omitempty"`
	// Catalogue is what VerbList and VerbRecall compare what is there with; without it everything is told.
	Catalogue *Catalogue `json:"catalogue,omitempty"`
	// BytesPerSecond bounds what is sent or read; 0 is no bound.
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
}

// Stream is one of several that a backup is made of.
type Stream struct {
	// Name of it, unique in the backup: letters, digits and dashes.
	Name string `json:"name"`
	// Env are variables of Command and Facts beside those of the container, as NAME=value.
	Env []string `json:"env,omitempty"`
}

// FactPrefix begins the names of the variables by which the command of VerbRestore or VerbAdopt is told the facts of
// the backup, those of its stream above all. What in the name of a fact is no letter and no digit is an underscore
// there.
const FactPrefix = "FACT_"

// OwnPrefix begins the names of what agents keep on a volume beside the data: who the member is, what it promised, and
// that it was restored.
const OwnPrefix = ".zeroinfra."

// TargetVolume is a volume that is filled once. The command runs in an empty folder on it, and all that it leaves there
// is moved into Folder when it has ended well and the data was what the manifest says; RestoredName comes last.
type TargetVolume struct {
	// Folder where the volume is mounted. Beside what file systems have by themselves and earlier attempts left it has to
	// be empty.
	Folder string `json:"folder"`
	// ID of what is to be there. A volume that has it already is left as it is.
	ID string `json:"id"`
}

// RestoredName is the file in TargetVolume.Folder that has the ID of what was put there, once all of it is.
const RestoredName = ".zeroinfra.restored"

// Catalogue is what is known of a folder of a repository, each key as KeyDigest has it: a plan has room for a quarter
// of a MiB.
type Catalogue struct {
	// Folder that is looked at, and nothing beside it.
	Folder string `json:"folder"`
	// Whole are the backups that have to be there, and Others what may be there, whole or not.
	Whole  []string `json:"whole,omitempty"`
	Others []string `json:"others,omitempty"`
	// After is the key after which VerbRecall goes on; empty for the first one.
	After string `json:"after,omitempty"`
}

// MaxCatalogue is how many keys a Catalogue may have.
const MaxCatalogue = 12000

// KeyDigest stands for the key of a backup in a Catalogue: 12 hexadecimal digits.
func KeyDigest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}

// Repository is a place where backups are kept.
type Repository struct {
	// Type is S3 or Volume; NFS is a Volume to a mover.
	Type string `json:"type"`
	// Prefix is the folder within the bucket or the volume.
	Prefix string `json:"prefix,omitempty"`
	// Endpoint is the URL of an S3 server, with its scheme.
	Endpoint   string `json:"endpoint,omitempty"`
	Bucket     string `json:"bucket,omitempty"`
	Region     string `json:"region,omitempty"`
	Addressing string `json:"addressing,omitempty"` // Path or VirtualHost; empty is Path
	Encrypted  bool   `json:"encrypted,omitempty"`
}

// The types of repositories.
const (
	TypeS3     = "S3"
	TypeVolume = "Volume"
)

// Backup is one restorable point.
type Backup struct {
	// Key is its folder, <namespace>/<application>/<name of the Backup>-<first eight characters of its UID>: nobody else
	// ever writes there.
	Key string `json:"key"`
	// Attempt is unique to a mover's pod. What an earlier attempt left is removed, and one that finds a later one's mark
	// ends.
	Attempt string `json:"attempt,omitempty"`
	// Compression is Zstd, Gzip or None.
	Compression string `json:"compression,omitempty"`
	// Metadata is kept beside the data; it has no secrets.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Digest, of VerbRestore and VerbInspect, is what the manifest's own must be; empty takes any.
	Digest string `json:"digest,omitempty"`
	// Stream, of VerbRestore, is the one that is given to the command; empty where the backup has none.
	Stream string `json:"stream,omitempty"`
}

// The compressions.
const (
	CompressionZstd = "Zstd"
	CompressionGzip = "Gzip"
	CompressionNone = "None"
)

// EncryptionAge is what Manifest.Encryption says of data that is a file of age (age-encryption.org/v1) for a
// passphrase.
const EncryptionAge = "Age"

// Names of the files of a backup that are not data.
const (
	ManifestName = "manifest.json"
	MetadataName = "metadata.json"
	MarkName     = "attempt.json"
)

// Mark is of the attempt that began last. One that finds another's, or none, has been superseded.
type Mark struct {
	Attempt string `json:"attempt"`
	// Run is the folder of the attempt: 16 hexadecimal digits.
	Run string `json:"run"`
}

// Manifest is the last file of a backup.
type Manifest struct {
	FormatVersion int       `json:"formatVersion"`
	Key           string    `json:"key"`
	Compression   string    `json:"compression"`
	Encryption    string    `json:"encryption,omitempty"`
	Parts         []Part    `json:"parts"`
	StartTime     time.Time `json:"startTime"`
	EndTime       time.Time `json:"endTime"`
	// RawSize is how many bytes the command wrote, and RawSHA256 their hash, in hex; with Streams RawSize is of all of
	// them, and there is no hash.
	RawSize   int64             `json:"rawSize"`
	RawSHA256 string            `json:"rawSha256,omitempty"`
	Metadata  Part              `json:"metadata"`
	Facts     map[string]string `json:"facts,omitempty"`
	// Streams in the order in which they were taken, which is that of their parts; none where the data is one stream.
	Streams []StreamManifest `json:"streams,omitempty"`
	// Objects is there where the data is a listing of objects; RawSize and RawSHA256 are of the listing then.
	Objects *ObjectsManifest `json:"objects,omitempty"`
	// Files is there where the data is files, which are in a repository of restic; there are no parts then, and RawSize is
	// that of all files.
	Files *FilesManifest `json:"files,omitempty"`
}

// StreamManifest is what one stream is.
type StreamManifest struct {
	Name string `json:"name"`
	// RawSize is how many bytes the command wrote, and RawSHA256 their hash, in hex.
	RawSize   int64             `json:"rawSize"`
	RawSHA256 string            `json:"rawSha256"`
	StartTime time.Time         `json:"startTime"`
	EndTime   time.Time         `json:"endTime"`
	Facts     map[string]string `json:"facts,omitempty"`
}

// Part is one file of a backup.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Stream that it is of; empty where there are none.
	Stream string `json:"stream,omitempty"`
}

// Result is what came of it.
type Result struct {
	// Reason is empty when all went well, else one of the Reasons; Message is a sentence for a person.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Digest is the SHA-256 of the manifest, as sha256:<hex>. Size is how many bytes are kept, and RawSize how many the
	// command wrote; of objects they are what this backup has added, and the size of all that it has.
	Digest  string `json:"digest,omitempty"`
	Size    int64  `json:"size,omitempty"`
	RawSize int64  `json:"rawSize,omitempty"`
	// Facts of the backup, and those of its streams as <key>.<stream>; none where those of so many streams do not fit.
	Facts map[string]string `json:"facts,omitempty"`
	// Streams are how many bytes the command wrote for each.
	Streams map[string]int64 `json:"streams,omitempty"`
	// FreeBytes of a volume, for VerbCheck; nil for S3.
	FreeBytes *int64 `json:"freeBytes,omitempty"`
	// Backups are the keys that VerbList found, and Leftovers the folders without a manifest; as many of each as fit.
	// Count tells how many backups there are. With a Catalogue neither has what that knows: Backups are those that nobody
	// speaks of then, Unknown is how many, and Unfinished is how many Leftovers.
	Backups   []string `json:"backups,omitempty"`
	Leftovers []string `json:"leftovers,omitempty"`
	Count     int      `json:"count,omitempty"`
	// KeptBytes is the size of all files of what VerbList found.
	KeptBytes  int64 `json:"keptBytes,omitempty"`
	Unknown    int   `json:"unknown,omitempty"`
	Unfinished int   `json:"unfinished,omitempty"`
	// Missing are the digests of the first of Catalogue.Whole that are not there, and Lost is how many.
	Missing []string `json:"missing,omitempty"`
	Lost    int      `json:"lost,omitempty"`
	// Artifacts that VerbKeep has kept, and Location, the URL of their folder.
	Artifacts []KeptArtifact `json:"artifacts,omitempty"`
	Location  string         `json:"location,omitempty"`
	// Recall is a page of VerbRecall, packed.
	Recall []byte `json:"recall,omitempty"`
}

// Reasons of movers. Backup, BackupRepository and WorkloadSet have them in their status or in a message: the Job
// that carries the data ended with them.
const (
	// ReasonRefused: the repository refuses the credentials, or the bucket or a right is missing. A restore is tried
	// again, and a Backup fails. Correct the credentials, the bucket or the rights.
	ReasonRefused = "RepositoryRefused"
	// ReasonUnreachable: the repository does not answer, or has a fault of its own. A restore is tried again,
	// and a Backup fails. Look at the log of the store, and at the network policies between the namespace and it.
	ReasonUnreachable = "RepositoryUnreachable"
	// ReasonNoRoom: the repository has no room left. The Backup fails. Delete other Backups, or make the store
	// larger.
	ReasonNoRoom = "RepositoryFull"
	// ReasonCommandFailed: the command of the middleware ended with an error, or wrote nothing. A restore is tried
	// again, and a Backup fails. Remove the cause that the end of the message, its last lines of output, names.
	ReasonCommandFailed = "CommandFailed"
	// ReasonUnsteady: something that must not change during a Backup changes or has changed, for example the slots
	// of a cluster. Create another Backup once it is at rest.
	ReasonUnsteady = "Unsteady"
	// ReasonNotFound: the repository has no backup of this key, or the backup has no manifest. Look for it with an
	// inventory or an import, or restore another Backup.
	ReasonNotFound = "BackupNotFound"
	// ReasonDamaged: the data is not what the manifest says: a file is missing or differs. Restore another Backup,
	// and find out who changed the store.
	ReasonDamaged = "BackupDamaged"
	// ReasonSuperseded: a later attempt works on the same backup, or it was deleted. This attempt ends and keeps
	// nothing. Nothing to do.
	ReasonSuperseded = "Superseded"
	// ReasonBadPlan: the plan, the credentials or the passphrase cannot be read, or there is more data than the
	// format has room for. Do what the message says.
	ReasonBadPlan = "BadPlan"
	// ReasonTargetNotEmpty: the volume that the data is to be written to is not empty. The mover does not
	// overwrite it. Use an empty volume.
	ReasonTargetNotEmpty = "TargetNotEmpty"
	// ReasonTargetFailed: the volume that the data is to be written to cannot be written, or has no room. The
	// operator tries again. Make the volume larger, or look at the events of its claim.
	ReasonTargetFailed = "TargetFailed"
	// ReasonWrongPassphrase: the backup was encrypted with another passphrase. Give the repository the passphrase
	// of that time.
	ReasonWrongPassphrase = "WrongPassphrase"
	// ReasonUnsupported: the backup has a newer format than the mover knows. Use a newer operator.
	ReasonUnsupported = "FormatUnsupported"
	// ReasonArtifactRefused: an artifact is missing, is no regular file, cannot be read or is too large. The attempt
	// of the task fails. Have the task write it as the message says, or raise the limit.
	ReasonArtifactRefused = "ArtifactRefused"
	// ReasonArtifactDamaged: an artifact that a task reads is missing in the repository, or its digest is not the
	// recorded one. The attempt of the task fails before its container starts. Run the Workflow again.
	ReasonArtifactDamaged = "ArtifactDamaged"
	// ReasonTerminated: the mover was stopped (SIGTERM) before it was done. Another attempt follows where one is
	// left. Nothing to do.
	ReasonTerminated = "Terminated"
)
