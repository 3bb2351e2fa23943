// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// BackupMethodsOf returns the methods of the components of an instance, in order, each with its component.
func (b *Bundle) BackupMethodsOf(components []string) (methods []schema.BackupMethod, of []*schema.Component) {
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
func (l *loader) checkParts(path document.Path, c *schema.Component, m *schema.BackupMethod) {
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
func (l *loader) commandsNothing(path document.Path, m *schema.BackupMethod, does string) {
	for key, has := range map[string]bool{"facts": len(m.Facts) > 0, "steady": len(m.Steady) > 0, "env": len(m.Env) > 0} {
		if has {
			l.wrong(path.With(key), "is of a command, and the method %s: take it out", does)
		}
	}
}

// checkSnapshot: what a snapshot is of is one volume, all of the data, and the files of one version.
func (l *loader) checkSnapshot(path document.Path, c *schema.Component, m *schema.BackupMethod) {
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
	if m.Restore != nil && (m.Restore.Target != nil || m.Restore.Versions == schema.VersionsLater) {
		l.wrong(path.With("restore"), "has target, or versions: Later: the files of a snapshot are of its own moment and "+
			"major version")
	}
}

// checkFilesCarried: what is carried is of one volume, and nobody is asked for it.
func (l *loader) checkFilesCarried(path document.Path, c *schema.Component, m *schema.BackupMethod) {
	if m.Files == nil {
		return
	}
	l.commandsNothing(path, m, "carries files")
	if !c.Single() || len(c.Volumes) != 1 {
		l.wrong(path.With("files"), "is for a component with one set and one volume")
	}
}

func (l *loader) checkBackups(path document.Path, c *schema.Component) {
	unique(l, path, c.Backups, func(m schema.BackupMethod) string { return m.Name })
	var attributes []string
	for name := range c.Probe.Attributes {
		attributes = append(attributes, name)
	}
	for i := range c.Backups {
		m, at := &c.Backups[i], path.Index(i)
		for j, from := range m.From {
			l.oneOf(at.With("from").Index(j).With("role"), from.Role, "role",
				names(c.Roles, func(r schema.Role) string { return r.Name }))
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
func (l *loader) checkCarried(path document.Path, m *schema.BackupMethod) {
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
func (l *loader) checkRestore(path document.Path, c *schema.Component, of *schema.BackupMethod) {
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
			if !t.Has(c.Name) {
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
