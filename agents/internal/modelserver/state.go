// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zeroinfra/agents/internal/atomicfile"
)

// Phase is how far a start is.
type Phase string

// Phases of a start, in their order.
const (
	// Downloading: the file is on its way.
	Downloading Phase = "Downloading"
	// Verifying: a file that somebody else keeps is read for its digest.
	Verifying Phase = "Verifying"
	// Serving: the server was started.
	Serving Phase = "Serving"
	// Failed: the server cannot be started, such as where the file is not to be had. Another attempt follows.
	Failed Phase = "Failed"
)

// State is what the starter tells the probe.
type State struct {
	Phase Phase `json:"phase"`
	// Percent of the file that is there.
	Percent int `json:"percent,omitempty"`
	// Adapter that the file is, from 1 on; 0 for the model.
	Adapter int `json:"adapter,omitempty"`
	// Adapters that there are to be.
	Adapters int `json:"adapters,omitempty"`
	// Reason of Failed.
	Reason string `json:"reason,omitempty"`
	// Version of the server.
	Version string `json:"version,omitempty"`
}

// files are those of the shared folder.
type files struct{ folder string }

func (f files) state() string { return filepath.Join(f.folder, "state.json") }

// verified says which files have the right digests.
func (f files) verified() string { return filepath.Join(f.folder, "verified.json") }

// vain says which files were downloaded in vain.
func (f files) vain() string { return filepath.Join(f.folder, "vain.json") }

// write replaces one of the files.
func (f files) write(path string, content any) error {
	if err := os.MkdirAll(f.folder, 0o775); err != nil {
		return err
	}
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data, 0o664)
}

// read one of the files.
func (f files) read(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
