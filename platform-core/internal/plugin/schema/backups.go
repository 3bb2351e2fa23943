// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/reportexpr"
)

// BackupMethod is a way to back up the data of a component: a command that writes all of it to its standard output, in
// a pod of its own, or a snapshot of the volume of a pod. Of a component that can have several sets each has a part of
// the data: there the command is run for each set, one after the other, in the one pod. Or it is the objects of a
// storage, which the pod reads by S3 itself: any pod of the component gives all of them, whatever sets there are.
type BackupMethod struct {
	// Name of it; no other component of a topology has one of the same name.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Default says that it is the one where nobody names one. One that is alone needs not say so.
	Default bool `json:"default,omitempty"`
	// From are the pods that the data can be taken from, in order of preference. Where none is there, it is waited for
	// one. Of objects any pod that serves will do when it is left out.
	From []BackupSource `json:"from,omitempty"`
	// Command and arguments, with placeholders over app and source; never through a shell. It writes to its standard
	// output and ends with 0 when that is all.
	Command []string `json:"command,omitempty"`
	// Snapshot has the data kept as a VolumeSnapshot, in place of Command.
	Snapshot *SnapshotMethod `json:"snapshot,omitempty"`
	// Objects has the objects of a storage carried in place of what a command writes, all of them or what is not in the
	// latest backup. Env says where they are: S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY, and if need be S3_REGION,
	// S3_ADDRESSING and S3_CA_FILE.
	Objects mover.ObjectsMode `json:"objects,omitempty"`
	// Files has the files of the component's volume carried in place of what a command writes.
	Files *FilesMethod `json:"files,omitempty"`
	// Facts is a command that is run after it, in the same container: lines "key=value" of its standard output are kept
	// with the backup.
	Facts []string `json:"facts,omitempty"`
	// Steady is for a component that can have several sets: a command that is run before the first and after the last of
	// them. An exit code that is not 0 refuses, with the reason on its standard error; what it writes must be the same
	// both times. Its lines "key=value" are kept with the backup, and "key.set=value" with what is of that set.
	Steady []string `json:"steady,omitempty"`
	// Env of all of them. Where there can be several sets, its values alone may say which pod is the source.
	Env []optemplate.JobEnv `json:"env,omitempty"`
	// Restore is the way back; without it no instance can begin with such a backup.
	Restore *RestoreMethod `json:"restore,omitempty"`
	// Verify says how a restore drill finds out whether the data is good; without it there are none.
	Verify *VerifyMethod `json:"verify,omitempty"`
}

// FilesMethod says which files are carried, by restic: those that the repository has from an earlier backup of the
// instance are not sent again. They are read while the source goes on, each by itself: it is for data of which each
// file makes sense alone.
type FilesMethod struct {
	// Folder where the container of the component has the volume.
	Folder string `json:"folder"`
	// Exclude are patterns of restic for what is left out.
	Exclude []string `json:"exclude,omitempty"`
}

// SnapshotMethod says what has a snapshot of the component's only volume be one that an instance can begin with.
type SnapshotMethod struct {
	// Freeze is the action that has the source keep still before the snapshot is made; its outputs are facts of the
	// backup. Without it the snapshot is made of a server that goes on.
	Freeze string `json:"freeze,omitempty"`
	// Thaw is the action that ends that: the agent runs it in any case, whoever dies, until it succeeds. Without it Freeze
	// leaves nothing that has to be undone.
	Thaw string `json:"thaw,omitempty"`
	// HoldSeconds is how long the source keeps still at most; 0 is DefaultHoldSeconds.
	HoldSeconds int32 `json:"holdSeconds,omitempty"`
}

// DefaultHoldSeconds is how long a source keeps still at most, where the plugin does not say.
const DefaultHoldSeconds = 60

// Longest is how long the source keeps still at most.
func (m *SnapshotMethod) Longest() time.Duration {
	return time.Duration(cmp.Or(m.HoldSeconds, DefaultHoldSeconds)) * time.Second
}

// Type is how the method keeps the data, as a Backup says it: one that is a stream need not say so.
func (m BackupMethod) Type() platformv1.BackupType {
	switch {
	case m.Snapshot != nil:
		return platformv1.BackupSnapshot
	case m.Files != nil:
		return platformv1.BackupFiles
	}
	return ""
}

// RestoreMethod makes of what a BackupMethod wrote the files that the middleware starts with.
type RestoreMethod struct {
	// Folder where the container of the component has the volume. Objects have neither folder nor command: they are put
	// into the servers when these run.
	Folder string `json:"folder,omitempty"`
	// Command and arguments, with placeholders over app, component, set and params; never through a shell. It reads the
	// data from its standard input, to the end, and leaves in the folder that it runs in what Folder is to have. It runs
	// as the middleware does, and has no network of it. Where the data is a snapshot, it reads nothing, runs in Folder
	// itself, which has all that the source had, and takes out what was of that alone. It may be run again after it was
	// killed half-way. The facts of the backup are variables of its environment: FACT_timeline.
	Command []string `json:"command,omitempty"`
	// Env of it: values with placeholders, and of objects credentials.
	Env []platformv1.RestoreVariable `json:"env,omitempty"`
	// Versions of the middleware that the instance can have; empty is VersionsSame.
	Versions RestoreVersions `json:"versions,omitempty"`
	// Target says what Command takes to go on from the data to a point in time; without it none can be asked for.
	Target *TargetMethod `json:"target,omitempty"`
}

// RestoreVersions says which versions of the middleware can have the data of a backup. An older one than was backed up
// never can.
type RestoreVersions string

// Values of RestoreVersions.
const (
	// VersionsSame are those of the same major version.
	VersionsSame RestoreVersions = "Same"
	// VersionsLater are those of later major versions, too.
	VersionsLater RestoreVersions = "Later"
)

// Expand returns the method with its placeholders filled in.
func (m RestoreMethod) Expand(values placeholder.Values) (RestoreMethod, error) {
	filled := m
	filled.Command, filled.Env = slices.Clone(m.Command), slices.Clone(m.Env)
	var texts []*string
	for i := range filled.Command {
		texts = append(texts, &filled.Command[i])
	}
	for i := range filled.Env {
		texts = append(texts, &filled.Env[i].Value)
	}
	for _, text := range texts {
		expanded, err := placeholder.ExpandRestore(*text, values)
		if err != nil {
			return RestoreMethod{}, err
		}
		*text = expanded
	}
	return filled, nil
}

// BackupMethod returns the method of a component by name.
func (c *Component) BackupMethod(name string) (BackupMethod, bool) {
	i := slices.IndexFunc(c.Backups, func(m BackupMethod) bool { return m.Name == name })
	if i < 0 {
		return BackupMethod{}, false
	}
	return c.Backups[i], true
}

// BackupSource is a choice of pods.
type BackupSource struct {
	// Role that the pod reports.
	Role string `json:"role"`
	// When is an expression over role and attributes, as the probe reports them: only a pod that it gives true for is a
	// source.
	When string `json:"when,omitempty"`
}

// Fits says whether a pod with this role and these attributes is one of the choice.
func (s BackupSource) Fits(role string, attributes map[string]string) (bool, error) {
	if s.Role != role || s.When == "" {
		return s.Role == role, nil
	}
	return reportexpr.Truth(s.When, role, attributes)
}

// Expand returns the method with its placeholders filled in.
func (m BackupMethod) Expand(o placeholder.Origin) (BackupMethod, error) {
	filled := m
	filled.Command, filled.Facts, filled.Steady, filled.Env = slices.Clone(m.Command), slices.Clone(m.Facts),
		slices.Clone(m.Steady), slices.Clone(m.Env)
	var texts []*string
	for _, words := range [][]string{filled.Command, filled.Facts, filled.Steady} {
		for i := range words {
			texts = append(texts, &words[i])
		}
	}
	for i := range filled.Env {
		texts = append(texts, &filled.Env[i].Value)
	}
	for _, text := range texts {
		expanded, err := placeholder.ExpandBackup(*text, o)
		if err != nil {
			return BackupMethod{}, fmt.Errorf("method %q: %w", m.Name, err)
		}
		*text = expanded
	}
	return filled, nil
}
