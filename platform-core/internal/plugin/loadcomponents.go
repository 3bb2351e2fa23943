// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// componentsKey is the only key of the components part.
const componentsKey = "components.yaml"

// componentsFile is components.yaml as it was read.
type componentsFile struct {
	schema.Components
	document *document.Document
	// tree has the templates of process, files and probe of each component.
	tree *tree
}

func (l *loader) loadComponents() {
	if _, ok := l.sources[PartComponents]; !ok {
		return
	}
	data := l.part(PartComponents)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != componentsKey {
			l.fail(PartComponents, key, 0, "the key is not known: this part has the one key %s", componentsKey)
		}
	}
	text, ok := data[componentsKey]
	if !ok {
		l.fail(PartComponents, componentsKey, 0, "the key is missing: it holds the components")
		return
	}
	doc := l.parse(PartComponents, componentsKey, text)
	if doc == nil {
		return
	}
	doc, problems := expandConstants(doc)
	for _, p := range problems {
		l.fail(PartComponents, componentsKey, p.Line, "%s", p.Message)
	}
	if doc == nil {
		return
	}
	templates := newTree()
	templates.value = doc.Value()
	var components schema.Components
	leaf := func(path document.Path, text string, kind reflect.Kind) (bool, error) {
		switch {
		case ofSwitchover(path):
			return false, checkSwitchoverText(text)
		case ofBackup(path):
			return false, checkBackupText(path, text)
		case ofMembership(path):
			return false, checkMembershipText(text)
		case ofWritingArgs(path):
			return false, checkWritingArg(path, text)
		case !inPlan(path):
			return false, placeholder.Refuse(text)
		case standsForParameter(path, text):
			return false, nil
		}
		if path[len(path)-1] == whenKey && conditional(path[:len(path)-1]) {
			return true, templates.compileCondition(path, text)
		}
		later, err := templates.compile(path, text, kind, scopeOf(path))
		if err == nil && later && !perPod(path) && templates.templates[path.Key()].Late() {
			return false, errors.New("a placeholder that uses pod is not allowed here: the agents fill it in in commands, " +
				"dir, values of env and args of entries")
		}
		return later, err
	}
	if l.decode(PartComponents, componentsKey, doc, "#Components", &components, leaf) {
		l.components = componentsFile{Components: components, document: doc, tree: templates}
	}
}

// inPlan says whether a path leads to a text of the agent plan that may hold
// placeholders: components[i].process, .files, .tls, .probe and .actions but their expressions, the
// environment of .monitoring, and the texts of .routes.
func inPlan(path document.Path) bool {
	if len(path) < 4 || path[0] != "components" {
		return false
	}
	switch path[2] {
	case "process", "files", "tls":
		return true
	case "probe":
		return path[3] == "command" || path[3] == "reserved" || path[3] == "env" || ofRequest(path)
	case "actions":
		return len(path) > 5 && (path[4] == "command" || path[4] == "env" || path[4] == "query" && path[5] == "arguments")
	case "monitoring":
		return path[3] == "env"
	case "routes":
		return ofRoute(path)
	}
	return false
}

// ofRequest says whether a path leads to a text of probe.http that may hold placeholders.
func ofRequest(path document.Path) bool {
	return len(path) == 5 && path[3] == "http" && slices.Contains([]string{"path", "interval", "timeout"}, path[4])
}

// scopeOf says what the placeholders of a text see. An exporter's environment is part of the pod: it must not change
// with the number of pods.
func scopeOf(path document.Path) placeholder.Scope {
	switch path[2] {
	case "monitoring":
		return placeholder.PodTemplate
	case "routes":
		return placeholder.Objects
	}
	return placeholder.Plan
}

// perPod says whether the agents expand the text at a path of components.yaml for their pod, as plan.Rewrite does.
func perPod(path document.Path) bool {
	if !inPlan(path) {
		return false
	}
	at := path[3:]
	switch path[2] {
	case "files":
		// files[i].entries[j].args[k]
		return len(at) == 5 && at[1] == "entries" && at[3] == "args"
	case "process":
		if len(at) == 1 {
			return at[0] == "dir"
		}
		switch at[0] {
		case "reload":
			at = at[1:]
		case "hooks":
			at = at[min(2, len(at)):]
		}
	case "tls":
		if at[0] != "reload" {
			return false
		}
		at = at[1:]
	case "actions":
		at = at[1:]
	case "probe":
	default:
		return false
	}
	switch {
	case len(at) == 2:
		return at[0] == "command" || at[0] == "each" || at[0] == "reserved" && path[2] == "probe"
	case len(at) == 3:
		return at[0] == "env" && at[2] == "value" || at[0] == "query" && at[1] == "arguments"
	}
	return false
}

// componentPath is the path of a component in components.yaml.
func componentPath(index int, keys ...string) document.Path {
	return append(document.Path{"components"}.Index(index), keys...)
}
