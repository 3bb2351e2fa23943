// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// upgradeFile is in data that took the place of other data: after an upgrade to another major version, or on the way
// back from one. It has lines NAME=VALUE, and goes where the data goes.
const upgradeFile = "zeroinfra.upgrade"

// Upgrade is what upgradeFile says.
type Upgrade struct {
	// System is the number of the data that the file is of, and Replaces those of the data that it took the place of.
	System   string
	Replaces []string
}

// ParseUpgrade reads the file. What it does not say is empty.
func ParseUpgrade(text string) Upgrade {
	var u Upgrade
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name {
		case "system":
			u.System = value
		case "replaces":
			u.Replaces = strings.Fields(value)
		}
	}
	return u
}

// replaced says whether data of a system was taken the place of by the primary's. A file that is not of the primary's
// own data says nothing.
func (l Lineage) replaced(system string) bool {
	return system != "" && l.Upgrade.System == l.System && slices.Contains(l.Upgrade.Replaces, system)
}

var programVersion = regexp.MustCompile(`\) ([0-9]+)`)

// unreadable says whether there is data that the programs cannot read.
func (s *Server) unreadable(ctx context.Context) (bool, error) {
	if !exists(s.data()) {
		return false, nil
	}
	return s.otherVersion(ctx)
}

// otherVersion says whether the data is of another major version than the programs, which cannot read it then.
func (s *Server) otherVersion(ctx context.Context) (bool, error) {
	is, err := os.ReadFile(s.data("PG_VERSION"))
	if err != nil {
		return false, err
	}
	said, err := exec.CommandContext(ctx, filepath.Join(s.Programs, "postgres"), "--version").Output()
	if err != nil {
		return false, fmt.Errorf("cannot ask for the version of the programs: %w", err)
	}
	version := programVersion.FindSubmatch(said)
	if version == nil {
		return false, fmt.Errorf("the programs are of version %q", strings.TrimSpace(string(said)))
	}
	return strings.TrimSpace(string(is)) != string(version[1]), nil
}

// system is the number of the data: what its control file begins with, in every version.
func (s *Server) system() (string, error) {
	file, err := os.Open(s.data("global", "pg_control"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	var number uint64
	if err := binary.Read(file, binary.NativeEndian, &number); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", file.Name(), err)
	}
	return strconv.FormatUint(number, 10), nil
}

// mayReplace refuses to throw away data of another major version, but for what the primary's took the place of.
func (s *Server) mayReplace(ctx context.Context, upstream *pgconn.PgConn) error {
	own, err := s.system()
	if err != nil {
		return err
	}
	theirs, err := lineageOf(ctx, upstream)
	if err != nil {
		return fmt.Errorf("cannot read the lineage of the primary's data: %w", err)
	}
	if verdict, why := Decide(Lineage{System: own}, theirs); verdict != Copies {
		return errors.New(why)
	}
	s.Log.Info("the data is of another major version, and the primary's replaced it", "system", own)
	return nil
}
