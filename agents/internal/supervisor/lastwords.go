// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/zeroinfra/agents/internal/reaper"
)

// maxWords bounds the last words of a process in a message, in bytes: they go as far as the status of its object.
const maxWords = 512

// killers are the signals of which a process has nothing to say: somebody else ended it.
var killers = []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}

// lastWords are why a process ended by itself, in its own words and without secrets; empty for none. As long as nothing
// but numbers in them changes, such as the time of day, they are those of the first time: a process that ends again and
// again for one reason is no news each time.
func (s *Supervisor) lastWords(ended Process, exit reaper.Exit) string {
	said := ""
	if !slices.Contains(killers, exit.Signal) {
		// Redacted before it is cut, so that no half of a secret is left.
		said = s.dirs.Redact(s.prepared.Redact(ended.LastWords()))
	}
	if len(said) > maxWords {
		said = strings.ToValidUTF8(said[:maxWords], "") + "…"
	}
	if withoutNumbers(said) != withoutNumbers(s.said) {
		s.said = said
	}
	return s.said
}

// numbers are such in texts, and addresses of memory.
var numbers = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

func withoutNumbers(text string) string { return numbers.ReplaceAllString(text, "") }
