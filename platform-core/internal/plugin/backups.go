// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
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

// Fits says whether a pod with this role and these attributes is of the choice.
func (s BackupSource) Fits(role string, attributes map[string]string) (bool, error) {
	if s.Role != role || s.When == "" {
		return s.Role == role, nil
	}
	return IsInSync(s.When, role, attributes)
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

// BackupMethodsOf returns the methods of the components of an instance, in order, each with its component.
func (b *Bundle) BackupMethodsOf(components []string) (methods []BackupMethod, of []*Component) {
	for _, name := range components {
		c, ok := b.Component(name)
		if !ok {
			continue
		}
		for _, method := range c.Backups {
			methods, of = append(methods, method), append(of, c)
		}
	}
	return methods, of
}

// ofBackup says whether a path leads to a text of components[i].backups that may hold placeholders.
func ofBackup(path document.Path) bool {
	if len(path) < 6 || path[0] != "components" || path[2] != "backups" {
		return false
	}
	return path[4] == "command" || path[4] == "facts" || path[4] == "steady" || path[4] == "env" &&
		path[len(path)-1] == "value" || ofRestore(path)
}

// ofRestore says whether a path of a method of backups leads to such a text of the way back.
func ofRestore(path document.Path) bool {
	return len(path) > 6 && path[4] == "restore" &&
		(path[5] == "command" || path[5] == "env" && path[len(path)-1] == "value")
}

// checkBackupText checks a text, which is filled in when the source is known, or the instance that is to have the data.
func checkBackupText(path document.Path, text string) error {
	if !placeholder.In(text) {
		return nil
	}
	scope := placeholder.Backup
	if ofRestore(path) {
		scope = placeholder.Rules
	}
	template, err := placeholder.Compile(text, scope)
	if err != nil {
		return err
	}
	if template.Kind() == placeholder.List {
		return fmt.Errorf("the placeholder gives a list of texts: it must give one")
	}
	return nil
}

// checkParts: one set after the other is asked by the same words, and what has one set alone is steady.
func (l *loader) checkParts(path document.Path, c *Component, m *BackupMethod) {
	if m.Objects != "" {
		return
	}
	if c.Single() {
		if len(m.Steady) > 0 {
			l.wrong(path.With("steady"), "is for a component that can have several sets")
		}
		return
	}
	for key, words := range map[string][]string{"command": m.Command, "facts": m.Facts, "steady": m.Steady} {
		for i, text := range words {
			if template, err := placeholder.Compile(text, placeholder.Backup); err == nil && template.UsesSource() {
				l.wrong(path.With(key).Index(i), "uses source, which is another pod for each set: give it to the command by a "+
					"variable in env")
			}
		}
	}
}

// commandsNothing refuses what goes with a command beside a method that does something else.
func (l *loader) commandsNothing(path document.Path, m *BackupMethod, does string) {
	for key, has := range map[string]bool{"facts": len(m.Facts) > 0, "steady": len(m.Steady) > 0, "env": len(m.Env) > 0} {
		if has {
			l.wrong(path.With(key), "is of a command, and the method %s: take it out", does)
		}
	}
}

// checkSnapshot: what a snapshot is of is one volume, all of the data, and the files of one version.
func (l *loader) checkSnapshot(path document.Path, c *Component, m *BackupMethod) {
	if m.Snapshot == nil {
		return
	}
	at := path.With("snapshot")
	l.commandsNothing(path, m, "makes a snapshot")
	if !c.Single() {
		l.wrong(at, "is for a component with one set: those of several are of different moments")
	}
	if len(c.Volumes) != 1 {
		l.wrong(at, "is for a component with one volume, and this one has %d: snapshots of several are of different moments",
			len(c.Volumes))
	}
	if m.Snapshot.Thaw != "" && m.Snapshot.Freeze == "" {
		l.wrong(at.With("thaw"), "ends what freeze begins: name that, too")
	}
	for key, name := range map[string]string{"freeze": m.Snapshot.Freeze, "thaw": m.Snapshot.Thaw} {
		i := slices.IndexFunc(c.Actions, func(a plan.Action) bool { return a.Name == name })
		switch {
		case name == "":
		case i < 0:
			l.oneOf(at.With(key), name, "action of this component",
				names(c.Actions, func(a plan.Action) string { return a.Name }))
		case len(c.Actions[i].Parameters) > 0:
			l.wrong(at.With(key), "names %q, which takes parameters: nobody gives them", name)
		}
	}
	if m.Restore != nil && (m.Restore.Target != nil || m.Restore.Versions == VersionsLater) {
		l.wrong(path.With("restore"), "has target, or versions: Later: the files of a snapshot are of its own moment and "+
			"major version")
	}
}

// checkFilesCarried: what is carried is of one volume, and nobody is asked for it.
func (l *loader) checkFilesCarried(path document.Path, c *Component, m *BackupMethod) {
	if m.Files == nil {
		return
	}
	l.commandsNothing(path, m, "carries files")
	if !c.Single() || len(c.Volumes) != 1 {
		l.wrong(path.With("files"), "is for a component with one set and one volume")
	}
}

func (l *loader) checkBackups(path document.Path, c *Component) {
	unique(l, path, c.Backups, func(m BackupMethod) string { return m.Name })
	var attributes []string
	for name := range c.Probe.Attributes {
		attributes = append(attributes, name)
	}
	for i := range c.Backups {
		m, at := &c.Backups[i], path.Index(i)
		for j, from := range m.From {
			l.oneOf(at.With("from").Index(j).With("role"), from.Role, "role",
				names(c.Roles, func(r Role) string { return r.Name }))
			if from.When != "" {
				l.checkFormula(at.With("from").Index(j).With("when"), from.When, cel.BoolType, "true or false", attributes)
			}
		}
		unique(l, at.With("env"), m.Env, func(e optemplate.JobEnv) string { return e.Name })
		for j, env := range m.Env {
			if env.Value != "" && env.Secret != nil {
				l.wrong(at.With("env").Index(j), "has a value and a secret: it can have one of them")
			}
			l.checkSecret(at.With("env").Index(j).With("secret"), c, env.Secret)
		}
		l.checkCarried(at, m)
		l.checkParts(at, c, m)
		l.checkSnapshot(at, c, m)
		l.checkFilesCarried(at, c, m)
		if m.Restore != nil {
			l.checkRestore(at.With("restore"), c, m)
		}
		if m.Verify != nil {
			l.checkVerify(at.With("verify"), c, m)
		}
	}
}

// checkCarried: what is carried is what a command writes, or objects.
func (l *loader) checkCarried(path document.Path, m *BackupMethod) {
	ways := 0
	for _, is := range []bool{len(m.Command) > 0, m.Snapshot != nil, m.Objects != "", m.Files != nil} {
		if is {
			ways++
		}
	}
	switch {
	case ways != 1:
		l.wrong(path, "must have one of command, snapshot, objects and files")
	case m.Objects == "" && m.Files == nil && len(m.From) == 0:
		l.wrong(path, "has no from: name the roles of the pods that the data can be taken from")
	case m.Objects != "" && (len(m.Facts) > 0 || len(m.Steady) > 0):
		l.wrong(path, "has objects, and facts or steady beside it: take these out")
	}
	if m.Objects == "" {
		return
	}
	for _, needed := range []string{mover.ObjectsEndpoint, mover.ObjectsAccessKey, mover.ObjectsSecretKey} {
		if !slices.ContainsFunc(m.Env, func(e optemplate.JobEnv) bool { return e.Name == needed }) {
			l.wrong(path, "has objects, and no variable %s in env: it says where they are, and who asks", needed)
		}
		if m.Restore != nil && !slices.ContainsFunc(m.Restore.Env,
			func(e platformv1.RestoreVariable) bool { return e.Name == needed }) {
			l.wrong(path.With("restore"), "is of objects, and has no variable %s in env: it says where they go, and who puts "+
				"them there", needed)
		}
	}
}

// checkRestore: what is not on a volume would be gone with the pod that made it.
func (l *loader) checkRestore(path document.Path, c *Component, of *BackupMethod) {
	m, objects := of.Restore, of.Objects
	switch {
	case objects != "" && (m.Folder != "" || len(m.Command) > 0 || m.Target != nil):
		l.wrong(path, "is of objects, and has folder, command or target: take these out")
	case of.Files != nil && (m.Folder != of.Files.Folder || len(m.Command) > 0 || len(m.Env) > 0 || m.Target != nil):
		l.wrong(path, "is of files, and has another folder than they are from, or command, env or target: take these out")
	case objects == "" && of.Files == nil && (m.Folder == "" || len(m.Command) == 0):
		l.wrong(path, "has no folder or no command: say where the volume is, and what makes the files on it")
	case objects == "" && len(c.Volumes) == 0:
		l.wrong(path.With("folder"), "is of a volume, and the component has none")
	}
	unique(l, path.With("env"), m.Env, func(e platformv1.RestoreVariable) string { return e.Name })
	for i, e := range m.Env {
		if e.Name == mover.TargetEnv {
			l.wrong(path.With("env").Index(i).With("name"), "is taken by the engine: name it otherwise")
		}
		if e.Credential == "" {
			continue
		}
		at := path.With("env").Index(i)
		if objects == "" || e.Value != "" {
			l.wrong(at, "has a credential: that is for objects, and has no value beside it")
		}
		l.checkSecret(at, c, &plan.SecretRef{Credential: e.Credential, Key: e.Key})
	}
	l.checkTarget(path.With("target"), m.Target)
}

// checkBackupNames: a user names a method, and not the component that it is of.
func (l *loader) checkBackupNames() {
	for _, t := range l.components.Topologies {
		first, defaults := map[string]string{}, ""
		for i, c := range l.components.Components.Components {
			if !t.has(c.Name) {
				continue
			}
			for j, m := range c.Backups {
				path := componentPath(i, "backups").Index(j)
				if other, taken := first[m.Name]; taken && other != c.Name {
					l.wrong(path.With("name"), "is %q, which component %q has as well, and topology %q has both: name it otherwise",
						m.Name, other, t.Name)
				}
				first[m.Name] = c.Name
				if m.Default && defaults != "" {
					l.wrong(path.With("default"), "is true, and %q is the default of topology %q already: there can be one", defaults,
						t.Name)
				}
				if m.Default {
					defaults = m.Name
				}
			}
		}
		if len(first) > 1 && defaults == "" {
			l.wrong(document.Path{"components"},
				"have %d methods of backups in topology %q, and none is the default: set default of one", len(first), t.Name)
		}
	}
}
