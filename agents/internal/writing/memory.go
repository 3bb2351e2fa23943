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

// identityBytes is how long an identity is.
const identityBytes = 16

// fileMode lets the next pod read the file, which may have another user but has the volume's group.
const fileMode = 0o660

var identityForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ErrMemory says that the file cannot be relied on. Making another one would make another member of the pod, and forget
// what was promised.
var ErrMemory = errors.New("the file of the member cannot be used")

// memory is the content of plan.MemberFile in the folder with the data.
type memory struct {
	// Identity of the data.
	Identity string `json:"identity"`
	// State is what was promised.
	State permission.State `json:"state,omitzero"`
	// Record is the one of the highest term that was learned.
	Record permission.Record `json:"record,omitzero"`
	// Writer is the member that was named last, as far as is known.
	Writer permission.Member `json:"writer,omitzero"`
	// Wrote says that a process ran as the writer here, and none has rejoined as a follower since.
	Wrote bool `json:"wrote,omitempty"`
	// WroteIn is the last term in which a process ran as the writer here.
	WroteIn int64 `json:"wroteIn,omitempty"`
}

// recall reads the file of the folder, or makes one with a new identity when there is none.
func recall(dir string) (memory, error) {
	path := filepath.Join(dir, plan.MemberFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return begin(path)
	}
	if err != nil {
		return memory{}, fmt.Errorf("%w: %w", ErrMemory, err)
	}
	var m memory
	if err := json.Unmarshal(data, &m); err != nil {
		return memory{}, fmt.Errorf("%w: %q: %w; restore it, or rebuild the member on an empty volume", ErrMemory, path, err)
	}
	if !identityForm.MatchString(m.Identity) {
		return memory{}, fmt.Errorf("%w: %q has no identity of %d hexadecimal digits; restore it, or rebuild the member on "+
			"an empty volume",
			ErrMemory, path, 2*identityBytes)
	}
	return m, nil
}

func begin(path string) (memory, error) {
	identity := make([]byte, identityBytes)
	_, _ = rand.Read(identity) // never fails, says its documentation
	m := memory{Identity: hex.EncodeToString(identity)}
	return m, m.write(path)
}

// keep writes the file. Where it is gone, or is another member's, the data are no longer those that were promised for.
func (m memory) keep(dir string) error {
	if err := m.isThere(dir); err != nil {
		return err
	}
	return m.write(filepath.Join(dir, plan.MemberFile))
}

// isThere looks whether the folder still has the identity.
func (m memory) isThere(dir string) error {
	path := filepath.Join(dir, plan.MemberFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMemory, err)
	}
	var there memory
	if err := json.Unmarshal(data, &there); err != nil || there.Identity != m.Identity {
		return fmt.Errorf("%w: %q is no longer that of the member %s: the folder was emptied or replaced while the pod ran",
			ErrMemory, path, m.Identity)
	}
	return nil
}

func (m memory) write(path string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMemory, err)
	}
	if err := atomicfile.Write(path, data, fileMode); err != nil {
		return fmt.Errorf("%w: %w", ErrMemory, err)
	}
	return nil
}
