// SPDX-License-Identifier: Apache-2.0

package mover

import "time"

// Objects has VerbBackup and VerbRestore carry the objects of a storage that speaks S3 in place of what a command
// writes: the mover reads and writes them itself, at the place that the variables of its environment name.
//
// What it keeps is a listing, which is the data of the backup (data-00001 …), and packs, <run>/pack-00001 …, which have
// the contents. A listing has a line of JSON for each bucket and each object, a Line, and names the packs that an
// object is in: those of this backup, or of former ones of the same instance. So a backup needs packs in the folders of
// others, and says in its Manifest which; what is removed of a backup leaves those that others need.
//
// A pack is a tar, compressed and encrypted as the data is: 000001 is the content of an object, or a piece of a large
// one, and 000001.json, for all but pieces, its Entry without Pieces.
type Objects struct {
	// Mode of VerbBackup; empty for VerbRestore.
	Mode ObjectsMode `json:"mode,omitempty"`
}

// ObjectsMode says what of a storage is read.
type ObjectsMode string

// The modes.
const (
	// ObjectsIncremental reads what is not in the latest backup of the instance as it is now, and names the packs of that
	// for all else.
	ObjectsIncremental ObjectsMode = "Incremental"
	// ObjectsFull reads everything, and names packs of its own alone.
	ObjectsFull ObjectsMode = "Full"
)

// Variables that say where the objects are, and who asks for them.
const (
	// ObjectsEndpoint is the URL of the storage.
	ObjectsEndpoint = "S3_ENDPOINT"
	// ObjectsRegion that requests are signed for; the usual one when empty.
	ObjectsRegion = "S3_REGION"
	// ObjectsAddressing is path, the default, or virtual.
	ObjectsAddressing = "S3_ADDRESSING"
	// ObjectsAccessKey and ObjectsSecretKey are those of an account.
	ObjectsAccessKey = "S3_ACCESS_KEY"
	ObjectsSecretKey = "S3_SECRET_KEY"
	// ObjectsCAFile is a file with the authority of the storage's certificate; those that everybody knows when empty.
	ObjectsCAFile = "S3_CA_FILE"
)

// ObjectsFormatVersion is that of a Manifest with Objects.
const ObjectsFormatVersion = 3

// ObjectsManifest is what a Manifest says of objects.
type ObjectsManifest struct {
	// Packs that the listing names, in the order of their names, which are relative to the folder that has the backups of
	// the instance: <name of a Backup and its UID>/<run>/pack-00001.
	Packs []Part `json:"packs,omitempty"`
	// Base is the folder of the backup whose packs are named as well; empty where all was read.
	Base string `json:"base,omitempty"`
	// Buckets and Count are how many buckets and objects there are, and Size how many bytes these have.
	Buckets int   `json:"buckets"`
	Count   int64 `json:"count"`
	Size    int64 `json:"size"`
	// Read and ReadBytes are how many of them were read for this backup.
	Read      int64 `json:"read"`
	ReadBytes int64 `json:"readBytes"`
}

// Line is one of a listing: the first one has Listing alone.
type Line struct {
	// Listing is the version of the form.
	Listing int     `json:"listing,omitempty"`
	Bucket  *Bucket `json:"bucket,omitempty"`
	Object  *Entry  `json:"object,omitempty"`
}

// ListingVersion is the version of a listing that is written; a reader refuses a higher one.
const ListingVersion = 1

// Bucket is one of a storage.
type Bucket struct {
	Name string `json:"name"`
	// Versioning is Enabled, Suspended, or empty for off.
	Versioning string `json:"versioning,omitempty"`
	// Lock says that objects in it can be kept from being removed, which is decided when a bucket is made.
	Lock bool `json:"lock,omitempty"`
}

// Entry is an object, as it was.
type Entry struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	// ETag, Version, Size and Modified, with Tags, are what it is known again by.
	ETag     string    `json:"etag"`
	Version  string    `json:"version,omitempty"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	// SHA256 of the content, in hex.
	SHA256      string            `json:"sha256"`
	ContentType string            `json:"contentType,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	// Pieces are where the content is, in order.
	Pieces []Piece `json:"pieces,omitempty"`
}

// Piece is a part of the content of an object.
type Piece struct {
	// Pack by name.
	Pack string `json:"pack"`
	// Number of it in the pack, from 1.
	Number int `json:"number"`
}
