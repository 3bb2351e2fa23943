// SPDX-License-Identifier: Apache-2.0

package action

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Secrets are those that the process was started with. The pod may mount a changed password for a while before the
// process is restarted with it, and an action that came with the new one would not be let in. It is safe for concurrent
// use.
type Secrets struct {
	dirs planfile.Dirs

	mu sync.Mutex
	// starts of the process in this pod, the digest of what it took over last, and what was mounted when these were first
	// seen. A later one may have the same number as a process.
	starts int64
	config string
	used   map[plan.SecretRef]string
}

// NewSecrets returns those that the folders mount, until a process is seen.
func NewSecrets(dirs planfile.Dirs) *Secrets { return &Secrets{dirs: dirs} }

// Follow takes note of each process that is started, and of each reload by which it takes over something else, until
// the channel is closed.
func (s *Secrets) Follow(statuses <-chan *agentv1.ProcessStatus) {
	for status := range statuses {
		if status.GetPid() != 0 {
			s.started(status.GetStarts(), status.GetConfigDigest())
		}
	}
}

func (s *Secrets) started(starts int64, config string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starts == starts && s.config == config {
		return
	}
	s.starts, s.config, s.used = starts, config, map[plan.SecretRef]string{}
	// What cannot be read now is looked up when it is asked for, and its error told then.
	files, _ := filepath.Glob(filepath.Join(s.dirs.Secrets, "*", "*"))
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			s.used[plan.SecretRef{Credential: filepath.Base(filepath.Dir(file)), Key: filepath.Base(file)}] = string(data)
		}
	}
}

// Lookup is a configfile.Lookup.
func (s *Secrets) Lookup(ref plan.SecretRef) (string, error) {
	s.mu.Lock()
	value, known := s.used[ref]
	s.mu.Unlock()
	if known {
		return value, nil
	}
	return s.dirs.Secret(ref)
}
