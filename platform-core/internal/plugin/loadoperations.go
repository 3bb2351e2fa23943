// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// operationFile is a "<Name>.yaml" of the operations part as it was read.
type operationFile struct {
	optemplate.Template
	key      string
	document *document.Document
}

func (l *loader) loadOperations() {
	data := l.part(PartOperations)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name, ok := strings.CutSuffix(key, ".yaml")
		if !ok {
			l.fail(PartOperations, key, 0, "the key is not known: this part has keys <Name>.yaml")
			continue
		}
		doc := l.parse(PartOperations, key, data[key])
		if doc == nil {
			continue
		}
		template, problems := optemplate.Decode(doc)
		if len(problems) > 0 {
			l.failAll(PartOperations, key, problems)
			continue
		}
		if template.Name != name {
			l.fail(PartOperations, key, doc.Line(document.Path{"name"}), "name is %q: it must be %q as in the key",
				template.Name, name)
		}
		l.operations[name] = operationFile{Template: template, key: key, document: doc}
	}
}

func (l *loader) checkOperations() {
	scope := l.operationScope()
	for _, name := range slices.Sorted(maps.Keys(l.operations)) {
		file := l.operations[name]
		l.failAll(PartOperations, file.key, file.Check(file.document, scope))
		l.operations[name] = file
	}
	for _, name := range slices.Sorted(maps.Keys(l.operations)) {
		file := l.operations[name]
		if circle := l.circle(name, nil); circle != "" {
			l.fail(PartOperations, file.key, file.document.Line(document.Path{"steps"}), "runs itself: %s", circle)
		}
	}
}

// operationScope returns what templates can refer to.
func (l *loader) operationScope() optemplate.Scope {
	scope := optemplate.Scope{Topologies: names(l.components.Topologies, func(t schema.Topology) string { return t.Name })}
	for _, c := range l.components.Credentials {
		if c.Supplied {
			scope.Supplied = append(scope.Supplied, c.Name)
		}
	}
	for _, c := range l.components.Components.Components {
		scope.Components = append(scope.Components, optemplate.Component{
			Name:              c.Name,
			Actions:           c.Actions,
			Reloads:           c.Process.Reload != nil,
			PrimaryHasVolumes: c.Failover != nil && len(c.Volumes) > 0,
			Mounts:            singleMounts(c.Mounts),
			Credentials:       c.Credentials,
		})
	}
	return scope
}

// circle says which templates run each other in a circle.
func (l *loader) circle(name string, above []string) string {
	above = append(slices.Clone(above), name)
	for _, step := range l.operations[name].Steps {
		switch {
		case step.Operation == nil:
		case step.Operation.TemplateRef == above[0]:
			return strings.Join(append(above, above[0]), " runs ")
		case !slices.Contains(above, step.Operation.TemplateRef):
			if circle := l.circle(step.Operation.TemplateRef, above); circle != "" {
				return circle
			}
		}
	}
	return ""
}
