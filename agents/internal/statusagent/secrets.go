// SPDX-License-Identifier: Apache-2.0

package statusagent

import (
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// secrets are those that the probe uses. The pod may mount a changed password for a while before the process is
// restarted with it. So a process is probed with what worked before; where that fails, with what is mounted, and so on
// in turns. One goroutine uses it at a time.
type secrets struct {
	mounted configfile.Lookup
	// pid of the process that is probed.
	pid int64
	// worked are those of the last probe that succeeded; used are those of the present one.
	worked, used map[plan.SecretRef]string
	// anew says that the present probe uses what is mounted.
	anew bool
}

// begin is called before each probe. Another process may have been started with another password: it has what is
// mounted.
func (s *secrets) begin(pid int64) {
	if pid != s.pid {
		s.pid, s.anew = pid, true
	}
	s.used = map[plan.SecretRef]string{}
}

// lookup gives the value for the present probe.
func (s *secrets) lookup(ref plan.SecretRef) (string, error) {
	value, known := s.worked[ref]
	if s.anew || !known {
		var err error
		if value, err = s.mounted(ref); err != nil {
			return "", err
		}
	}
	s.used[ref] = value
	return value, nil
}

// succeeded is called after a probe that was told what it wanted to know.
func (s *secrets) succeeded() { s.worked, s.anew = s.used, false }

// failed is called after any other.
func (s *secrets) failed() { s.anew = !s.anew }
