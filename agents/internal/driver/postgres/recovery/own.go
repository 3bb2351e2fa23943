// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
)

// former are files of the server that was copied alone: whom it followed, in which terms it wrote, which passwords it
// had set, and what it was upgraded from.
var former = []string{"standby.signal", "recovery.signal", "postmaster.pid", "zeroinfra.conf", "zeroinfra.timelines",
	"zeroinfra.upgrade",
	".zeroinfra.password", ".zeroinfra.replication", ".zeroinfra.pooler", ".zeroinfra.app"}

// Own makes the data that of a server of its own, which archives in a folder of its own. That begins with the histories
// of the timelines that the data has: without them nobody knew which one its log is of.
func Own(data string) error {
	for _, name := range former {
		if err := atomicfile.Remove(filepath.Join(data, name)); err != nil {
			return err
		}
	}
	if err := wantHistories(filepath.Join(data, "pg_wal")); err != nil {
		return fmt.Errorf("cannot have the histories of timelines archived: %w", err)
	}
	number := make([]byte, 8)
	if _, err := rand.Read(number); err != nil {
		return err
	}
	text := []byte(hex.EncodeToString(number) + "\n")
	for _, name := range []string{wal.ArchiveFile, wal.RestoredFile} {
		if err := atomicfile.Write(filepath.Join(data, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func wantHistories(log string) error {
	entries, err := os.ReadDir(log)
	if err != nil {
		return err
	}
	status := filepath.Join(log, "archive_status")
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".history") {
			continue
		}
		if err := os.MkdirAll(status, 0o700); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(status, entry.Name()+".done")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := atomicfile.Write(filepath.Join(status, entry.Name()+".ready"), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}
