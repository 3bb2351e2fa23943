// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Load parses and checks a bundle. It returns the bundle, or every error that it
// finds; never both. The same sources always give the same errors in the same order. What is wrong and was taken before
// there was a check for it is among the errors of a bundle that has others, and else in its Warnings: instances may be
// made from it.
func Load(sources map[Part]Source) (*Bundle, []LoadError) {
	l := &loader{
		sources:    sources,
		templates:  map[string]*podTemplate{},
		parameters: map[string]*parameterFile{},
		operations: map[string]operationFile{},
	}
	l.checkSources()
	l.loadManifest()
	l.loadComponents()
	l.loadPodTemplates()
	l.loadParameters()
	l.loadOperations()
	if l.components.document != nil {
		l.checkReferences()
	}
	if len(l.errs) > 0 {
		return nil, l.sorted()
	}
	b := l.bundle()
	// What each version and topology renders to is the last check: it needs all parts to be right.
	l.checkRendering(b)
	if len(l.errs) > 0 {
		return nil, l.sorted()
	}
	b.Warnings = l.sorted()
	return b, nil
}

// sorted are the errors, and then the warnings.
func (l *loader) sorted() []LoadError { return append(sortErrors(l.errs), sortErrors(l.warnings)...) }

// loader collects what the parts hold, and every error.
type loader struct {
	sources    map[Part]Source
	manifest   Manifest
	components componentsFile
	templates  map[string]*podTemplate
	parameters map[string]*parameterFile
	operations map[string]operationFile
	errs       []LoadError
	warnings   []LoadError
}

func (l *loader) fail(part Part, key string, line int, format string, args ...any) {
	l.errs = append(l.errs, l.failure(part, key, line, format, args...))
}

// failAll is fail for each problem of a document.
func (l *loader) failAll(part Part, key string, problems []document.Problem) {
	for _, p := range problems {
		l.fail(part, key, p.Line, "%s", p.Message)
	}
}

// warn is for a check that came when there were plugins already: one that it would refuse loads all the same.
func (l *loader) warn(part Part, key string, line int, format string, args ...any) {
	l.warnings = append(l.warnings, l.failure(part, key, line, format, args...))
}

func (l *loader) failure(part Part, key string, line int, format string, args ...any) LoadError {
	file := l.sourceName(part)
	if key != "" {
		file += "/" + key
	}
	return LoadError{File: file, Line: line, Message: fmt.Sprintf(format, args...)}
}

// part returns the data of a part; nil when it is absent.
func (l *loader) part(part Part) map[string]string { return l.sources[part].Data }

// identity returns the name and version that the ConfigMaps carry: the manifest's, else any other's.
func (l *loader) identity() (name, version string) {
	for _, part := range Parts() {
		if source, ok := l.sources[part]; ok {
			return source.Plugin, source.Version
		}
	}
	return "", ""
}

func (l *loader) sourceName(part Part) string {
	if source, ok := l.sources[part]; ok {
		return source.Name
	}
	name, version := l.identity()
	return SourceName(name, part, version)
}

func (l *loader) checkSources() {
	name, version := l.identity()
	for _, part := range Parts() {
		source, ok := l.sources[part]
		if !ok {
			l.errs = append(l.errs, LoadError{
				File: l.sourceName(part), Missing: part,
				Message: fmt.Sprintf("the %s part is missing: add the ConfigMap %q", part, l.sourceName(part)),
			})
			continue
		}
		if source.Plugin != name || source.Version != version || source.Part != part {
			l.fail(part, "", 0, "it is the %s part of %s %s: the bundle is %s %s", source.Part, source.Plugin, source.Version,
				name, version)
		}
		if source.Duplicate != "" {
			l.fail(part, "", 0, "the ConfigMap %q holds the %s part of %s %s as well: delete one of them", source.Duplicate,
				part, name, version)
		}
		if !source.Immutable {
			l.fail(part, "", 0, "the ConfigMap is not immutable: set immutable: true")
		}
	}
}

// parse reads a YAML key of a part. It returns nil when it is wrong.
func (l *loader) parse(part Part, key, text string) *document.Document {
	doc, problems := document.Parse(text)
	l.failAll(part, key, problems)
	return doc
}

// decode checks a document against a Go type and our schema, and fills target. It says whether all is right.
func (l *loader) decode(part Part, key string, doc *document.Document, definition string, target any,
	leaf document.Leaf) bool {
	problems := constraint.Decode(doc, definition, target, leaf)
	l.failAll(part, key, problems)
	return len(problems) == 0
}

func (l *loader) bundle() *Bundle {
	b := &Bundle{
		Manifest:   l.manifest,
		Components: l.components.Components,
		Operations: map[string]optemplate.Template{},
		Digest:     digest(l.sources),
		plans:      l.components.tree,
		templates:  l.templates,
		parameters: l.parameters,
	}
	for name, file := range l.operations {
		b.Operations[name] = file.Template
	}
	b.makeViews()
	return b
}

// digest is over the data of all parts, in order of part and key.
func digest(sources map[Part]Source) string {
	data := map[Part]map[string]string{}
	for part, source := range sources {
		data[part] = nil
		if len(source.Data) > 0 {
			// A ConfigMap with nothing in it comes back without data, and is the same part.
			data[part] = source.Data
		}
	}
	// encoding/json writes maps in order of their keys.
	canonical, err := json.Marshal(data)
	if err != nil {
		// Maps of text can always be written.
		panic(err)
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}
