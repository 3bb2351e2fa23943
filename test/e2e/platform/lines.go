// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// lineLog keeps the lines that are written to it, and when each came. It is safe for concurrent use.
type lineLog struct {
	mu    sync.Mutex
	rest  []byte
	lines []string
	times []time.Time
}

// Write implements io.Writer.
func (l *lineLog) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, data...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(data), nil
		}
		l.lines, l.times = append(l.lines, string(line)), append(l.times, time.Now())
		l.rest = rest
	}
}

func (l *lineLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

func (l *lineLog) all() ([]string, []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines), slices.Clone(l.times)
}
