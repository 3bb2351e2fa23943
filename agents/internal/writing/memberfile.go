// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// identityBytes is the length of an identity.
const identityBytes = 16

// fileMode lets the next pod read the file: it may have another user, but has the group of the volume.
const fileMode = 0o660

var identityForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ErrMemberFile says that the member file is missing or invalid. It is never replaced: a new file would be a new
// member, and would lose the promises.
var ErrMemberFile = errors.New("the file of the member cannot be used")

// memberFile is the content of plan.MemberFile in the data directory.
type memberFile struct {
	// Identity of the data.
	Identity string `json:"identity"`
	// State has the promised term.
	State permission.State `json:"state,omitzero"`
	// Record is the record of the highest known term.
	Record permission.Record `json:"record,omitzero"`
	// LastPrimary is the member that was named last, as far as this member knows.
	LastPrimary permission.Member `json:"writer,omitzero"`
	// Wrote says that a process ran as the primary here, and has not rejoined as a replica since.
	Wrote bool `json:"wrote,omitempty"`
	// WroteIn is the last term in which a process ran as the primary here.
	WroteIn int64 `json:"wroteIn,omitempty"`
}

// loadMemberFile reads the member file, or creates one with a new identity if there is none.
func loadMemberFile(dir string) (memberFile, error) {
	path := filepath.Join(dir, plan.MemberFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createMemberFile(path)
	}
	if err != nil {
		return memberFile{}, fmt.Errorf("%w: %w", ErrMemberFile, err)
	}
	var m memberFile
	if err := json.Unmarshal(data, &m); err != nil {
		return memberFile{}, fmt.Errorf("%w: %q: %w; restore it, or rebuild the member on an empty volume",
			ErrMemberFile, path, err)
	}
	if !identityForm.MatchString(m.Identity) {
		return memberFile{}, fmt.Errorf("%w: %q has no identity of %d hexadecimal digits; restore it, or rebuild the member "+
			"on an empty volume",
			ErrMemberFile, path, 2*identityBytes)
	}
	return m, nil
}

func createMemberFile(path string) (memberFile, error) {
	identity := make([]byte, identityBytes)
	_, _ = rand.Read(identity) // never fails, says its documentation
	m := memberFile{Identity: hex.EncodeToString(identity)}
	return m, m.write(path)
}

// save writes the file. It fails if the file is gone or has another identity: then the promises do not belong to this
// data.
func (m memberFile) save(dir string) error {
	if err := m.checkIdentity(dir); err != nil {
		return err
	}
	return m.write(filepath.Join(dir, plan.MemberFile))
}

// checkIdentity checks that the directory still has the identity.
func (m memberFile) checkIdentity(dir string) error {
	path := filepath.Join(dir, plan.MemberFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMemberFile, err)
	}
	var there memberFile
	if err := json.Unmarshal(data, &there); err != nil || there.Identity != m.Identity {
		return fmt.Errorf("%w: %q is no longer that of the member %s: the folder was emptied or replaced while the pod ran",
			ErrMemberFile, path, m.Identity)
	}
	return nil
}

func (m memberFile) write(path string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMemberFile, err)
	}
	if err := atomicfile.Write(path, data, fileMode); err != nil {
		return fmt.Errorf("%w: %w", ErrMemberFile, err)
	}
	return nil
}
