// SPDX-License-Identifier: Apache-2.0

package datasetfile

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/zeroinfra/platform-core/agentproto/transfer"
)

// Tracker knows how far a Fetcher is, and answers requests with that. The zero value has not begun.
type Tracker struct {
	lock sync.Mutex
	// sizes of the files; 0 where one is not known yet.
	sizes []int64
	now   transfer.Progress
}

// begin has a Tracker begin with the files of a manifest.
func (t *Tracker) begin(m Manifest) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.sizes, t.now = make([]int64, len(m)), transfer.Progress{Of: int64(len(m))}
	for i, file := range m {
		t.sizes[i] = file.Size
	}
}

// reading has so many bytes be there of the files before one, and of that one, whose size is 0 where it is not known.
func (t *Tracker) reading(file int, before, done, size int64) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.now.Files, t.now.Bytes = int64(file), before+done
	if size > 0 {
		t.sizes[file] = size
	}
}

// has has a file be there whole, and so many bytes of all.
func (t *Tracker) has(file int, bytes, size int64) {
	t.reading(file, bytes, 0, size)
	t.lock.Lock()
	defer t.lock.Unlock()
	t.now.Files++
}

// Progress is how far it is. The total is known once the size of each file is.
func (t *Tracker) Progress() transfer.Progress {
	t.lock.Lock()
	defer t.lock.Unlock()
	now := t.now
	for _, size := range t.sizes {
		if size == 0 {
			now.Total = 0
			return now
		}
		now.Total += size
	}
	return now
}

// ServeHTTP implements http.Handler.
func (t *Tracker) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(t.Progress()) // Who asked is gone.
}
