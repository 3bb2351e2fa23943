// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/checksum"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// maxManifest and maxMetadata are how many bytes these have at most.
	maxManifest = 16 << 20
	maxMetadata = 1 << 20
	// maxManifestOfObjects is how many bytes a manifest has at most that names packs. In memory it takes as many again,
	// once it is read.
	maxManifestOfObjects = 40 << 20
	// maxAttempt is how long the name of an attempt is at most.
	maxAttempt = 253
)

var (
	partForm     = regexp.MustCompile(`^([0-9a-f]{16})/data-([0-9]{5,7})$`)
	idForm       = regexp.MustCompile(`^[0-9A-Za-z-]{1,63}$`)
	metadataForm = regexp.MustCompile(`^([0-9a-f]{16})/metadata\.json$`)
)

// ReadPlan reads a plan. One that has what is not known is refused: it would not be done.
func ReadPlan(text []byte) (*mover.Plan, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var plan mover.Plan
	if err := decoder.Decode(&plan); err != nil {
		return nil, fmt.Errorf("the plan cannot be read: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the plan has something after its end")
	}
	err := errors.Join(checkVerb(&plan), checkFilesOf(&plan), checkArtifacts(&plan), checkRepository(&plan))
	if err != nil {
		return nil, err
	}
	return &plan, nil
}

// objectsModes are those that objects can have with a verb.
var objectsModes = map[mover.Verb][]mover.ObjectsMode{mover.VerbBackup: {mover.ObjectsIncremental, mover.ObjectsFull},
	mover.VerbRestore: {""}}

// checkVerb says whether a plan has what its verb needs, and nothing else.
func checkVerb(plan *mover.Plan) error {
	adopts := plan.Verb == mover.VerbAdopt
	runs := plan.Verb == mover.VerbBackup || plan.Verb == mover.VerbRestore || adopts
	alone := plan.Objects != nil || plan.Files != nil
	all := []mover.Verb{mover.VerbCheck, mover.VerbBackup, mover.VerbRestore, mover.VerbAdopt, mover.VerbInspect,
		mover.VerbDelete, mover.VerbList, mover.VerbRecall, mover.VerbKeep, mover.VerbFetch, mover.VerbDiscard}
	surveys := plan.Verb == mover.VerbList || plan.Verb == mover.VerbRecall
	switch {
	case !slices.Contains(all, plan.Verb):
		return fmt.Errorf("the verb %q is none of %v", plan.Verb, all)
	case plan.Objects != nil && (!runs || len(plan.Command) > 0 || len(plan.Facts) > 0 || len(plan.Streams) > 0 ||
		plan.Volume != nil):
		return fmt.Errorf("the verb %s has objects, and something else to carry", plan.Verb)
	case plan.Objects != nil && !slices.Contains(objectsModes[plan.Verb], plan.Objects.Mode):
		return fmt.Errorf("the verb %s has objects with the mode %q", plan.Verb, plan.Objects.Mode)
	case plan.Objects != nil && plan.Backup != nil && !strings.Contains(plan.Backup.Key, "/"):
		return errDetached
	case runs && alone == (len(plan.Command) > 0) || !runs && len(plan.Command) > 0:
		return fmt.Errorf("the verb %s has a command of %d words", plan.Verb, len(plan.Command))
	case len(plan.Facts) > 0 && plan.Verb != mover.VerbBackup:
		return fmt.Errorf("the verb %s has no facts", plan.Verb)
	case (len(plan.Streams) > 0 || len(plan.Steady) > 0) && plan.Verb != mover.VerbBackup:
		return fmt.Errorf("the verb %s takes no streams", plan.Verb)
	case len(plan.Known) > 0 && !adopts:
		return fmt.Errorf("the verb %s is told no facts", plan.Verb)
	case plan.Volume == nil && adopts:
		return fmt.Errorf("the verb %s needs a volume", plan.Verb)
	case plan.Volume != nil && plan.Verb != mover.VerbRestore && !adopts:
		return fmt.Errorf("the verb %s fills no volume", plan.Verb)
	case plan.Volume != nil && (!filepath.IsAbs(plan.Volume.Folder) ||
		filepath.Clean(plan.Volume.Folder) != plan.Volume.Folder || !idForm.MatchString(plan.Volume.ID)):
		return fmt.Errorf("%q is no folder of a volume, or %q no ID of what is to be there", plan.Volume.Folder,
			plan.Volume.ID)
	case plan.Verify && plan.Verb != mover.VerbInspect:
		return fmt.Errorf("the verb %s does not verify", plan.Verb)
	case plan.BytesPerSecond < 0:
		return fmt.Errorf("%d bytes for each second are none", plan.BytesPerSecond)
	case plan.Catalogue != nil && !surveys:
		return fmt.Errorf("the verb %s has no catalogue", plan.Verb)
	case plan.Catalogue != nil && !store.IsName(plan.Catalogue.Folder):
		return fmt.Errorf("the folder %q of the catalogue is no path of a folder", plan.Catalogue.Folder)
	case plan.Catalogue != nil && plan.Catalogue.After != "" && plan.Verb != mover.VerbRecall:
		return fmt.Errorf("the verb %s begins at the beginning", plan.Verb)
	case plan.Verb == mover.VerbCheck || surveys || adopts || onArtifacts(plan.Verb):
		if plan.Backup != nil {
			return fmt.Errorf("the verb %s is not for one backup", plan.Verb)
		}
		return nil
	case plan.Backup == nil:
		return fmt.Errorf("the verb %s needs a backup", plan.Verb)
	}
	return errors.Join(checkBackup(plan.Verb, plan.Backup), checkStreams(plan))
}

// checkBackup says whether a backup can be named. What only VerbBackup goes by may be there for every verb: it is of
// the backup.
func checkBackup(verb mover.Verb, b *mover.Backup) error {
	switch {
	case !store.IsName(b.Key):
		return fmt.Errorf("the key %q is no path of a folder", b.Key)
	case verb == mover.VerbBackup && b.Attempt == "" || len(b.Attempt) > maxAttempt:
		return fmt.Errorf("the verb %s has the attempt %q", verb, b.Attempt)
	case b.Compression != "" && !slices.Contains(compressions, b.Compression):
		return fmt.Errorf("the compression %q is none of %v", b.Compression, compressions)
	case b.Stream != "" && (verb != mover.VerbRestore || !streamForm.MatchString(b.Stream)):
		return fmt.Errorf("the verb %s has the stream %q", verb, b.Stream)
	case len(b.Metadata) > maxMetadata:
		return fmt.Errorf("the metadata has %d bytes, more than %d", len(b.Metadata), maxMetadata)
	case b.Digest != "" && !checksum.IsDigest(b.Digest):
		return fmt.Errorf("the digest %q is none", b.Digest)
	}
	return nil
}

func checkRepository(plan *mover.Plan) error {
	r := &plan.Repository
	if plan.Verb == mover.VerbAdopt {
		if *r != (mover.Repository{}) {
			return fmt.Errorf("the verb %s has no repository", plan.Verb)
		}
		return nil
	}
	addressings := []string{"", addressingPath, addressingVirtualHost}
	switch {
	case r.Prefix != "" && !store.IsName(strings.Trim(r.Prefix, "/")):
		return fmt.Errorf("the prefix %q is no path of a folder", r.Prefix)
	case r.Type == mover.TypeVolume:
		if r.Endpoint != "" || r.Bucket != "" || r.Region != "" || r.Addressing != "" {
			return errors.New("a volume has no endpoint, bucket, region and addressing")
		}
	case r.Type != mover.TypeS3:
		return fmt.Errorf("the type %q of the repository is none of %s and %s", r.Type, mover.TypeS3, mover.TypeVolume)
	case r.Endpoint == "" || r.Bucket == "":
		return errors.New("the repository has no endpoint or no bucket")
	case !slices.Contains(addressings, r.Addressing):
		return fmt.Errorf("the addressing %q is none of Path and VirtualHost", r.Addressing)
	}
	return nil
}

// readManifest reads that of a backup with a key. The error is a failure.
func readManifest(text []byte, key string) (*mover.Manifest, error) {
	var version struct {
		FormatVersion int `json:"formatVersion"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, damaged("the manifest cannot be read: %v", err)
	}
	if version.FormatVersion > mover.FormatVersion {
		return nil, fail(mover.ReasonUnsupported,
			"the backup has the format version %d, and this mover knows those up to %d: use a newer one", version.FormatVersion,
			mover.FormatVersion)
	}
	var manifest mover.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, damaged("the manifest cannot be read: %v", err)
	}
	switch limit := longest(&manifest); {
	case len(text) > limit:
		return nil, damaged("the manifest has more than %d bytes", limit)
	case manifest.FormatVersion < 1:
		return nil, damaged("the manifest has the format version %d", manifest.FormatVersion)
	case manifest.Key != key:
		return nil, damaged("the manifest is of the backup %q", manifest.Key)
	case !slices.Contains(compressions, manifest.Compression):
		return nil, damaged("the manifest has the compression %q", manifest.Compression)
	case manifest.Encryption != "" && manifest.Encryption != mover.EncryptionAge:
		return nil, damaged("the manifest has the encryption %q", manifest.Encryption)
	case manifest.RawSize < 1 && manifest.Files == nil:
		return nil, damaged("the manifest has no size of the data")
	}
	if err := errors.Join(checkFiles(&manifest), checkParts(&manifest), checkObjects(&manifest)); err != nil {
		return &manifest, err
	}
	return &manifest, checkManifestStreams(&manifest)
}

// longest is how many bytes the text of a manifest has at most.
func longest(manifest *mover.Manifest) int {
	if manifest.Objects != nil {
		return maxManifestOfObjects
	}
	return maxManifest
}

// checkParts says whether the parts are those of one attempt, in their order and without a gap.
func checkParts(manifest *mover.Manifest) error {
	found := metadataForm.FindStringSubmatch(manifest.Metadata.Name)
	if found == nil || manifest.Metadata.Size < 0 || manifest.Metadata.Size > maxMetadata ||
		!isSum(manifest.Metadata.SHA256) {
		return damaged("the manifest names no metadata")
	}
	if len(manifest.Parts) == 0 && manifest.Files == nil {
		return damaged("the manifest names no data")
	}
	for i, part := range manifest.Parts {
		if part.Name != partName(found[1], i+1) || !partForm.MatchString(part.Name) || part.Size < 1 || !isSum(part.SHA256) {
			return damaged("the manifest has %q as part %d", part.Name, i+1)
		}
	}
	return nil
}

// partName is relative to the folder of the backup; the first has number 1.
func partName(run string, number int) string { return fmt.Sprintf("%s/data-%05d", run, number) }

func isSum(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == 32
}
