// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// manifestFile is the manifest in the folder form of a plugin.
const manifestFile = "manifest.yaml"

// manifestDocument is manifest.yaml: the keys of the manifest part but the references, which are added.
type manifestDocument struct {
	Version            string `json:"version"`
	Domain             string `json:"domain"`
	SupportedVersions  string `json:"supported-versions"`
	AllowedUpgradeFrom string `json:"allowed-upgrade-from"`
}

// folders of the parts that have one.
var folders = map[string]Part{"podtemplates": PartPodTemplates, "params": PartParams, "operations": PartOperations}

// LoadFolder reads the folder form of a plugin into the parts that its ConfigMaps
// would hold: manifest.yaml, components.yaml, podtemplates/, params/ and operations/. The folder
// testdata is left out; anything else is refused.
func LoadFolder(folder fs.FS, name string) (map[Part]Source, []LoadError) {
	r := folderReader{folder: folder, parts: map[Part]map[string]string{}}
	for _, part := range Parts() {
		r.parts[part] = map[string]string{}
	}
	manifest := r.readManifest()
	if text, ok := r.read(componentsKey); ok {
		r.parts[PartComponents][componentsKey] = text
	}
	r.readFolders()
	if len(r.errs) > 0 {
		return nil, sortErrors(r.errs)
	}
	r.parts[PartManifest] = map[string]string{
		keyVersion: manifest.Version, keyDomain: manifest.Domain,
		keySupportedVersions: manifest.SupportedVersions, keyAllowedUpgradeFrom: manifest.AllowedUpgradeFrom,
	}
	sources := map[Part]Source{}
	for _, part := range Parts() {
		if part != PartManifest {
			r.parts[PartManifest][refKey(part)] = SourceName(name, part, manifest.Version)
		}
		sources[part] = Source{
			Name: SourceName(name, part, manifest.Version), Part: part, Plugin: name, Version: manifest.Version,
			Immutable: true, Data: r.parts[part],
		}
	}
	return sources, nil
}

// FolderFile returns the file that an error of Load is about, in the folder form of the plugin.
func FolderFile(file string) string {
	source, key, _ := strings.Cut(file, "/")
	if strings.Contains(source, "-"+string(PartManifest)+"-") {
		return manifestFile
	}
	if key == componentsKey {
		return key
	}
	for folder, part := range folders {
		if strings.Contains(source, "-"+string(part)+"-") {
			return path.Join(folder, key)
		}
	}
	return file
}

type folderReader struct {
	folder fs.FS
	parts  map[Part]map[string]string
	errs   []LoadError
}

func (r *folderReader) fail(file string, line int, format string, args ...any) {
	r.errs = append(r.errs, LoadError{File: file, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (r *folderReader) read(file string) (string, bool) {
	data, err := fs.ReadFile(r.folder, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail(file, 0, "the file is missing: add it")
	case err != nil:
		r.fail(file, 0, "the file cannot be read: %v", err)
	}
	return string(data), err == nil
}

func (r *folderReader) readManifest() manifestDocument {
	var manifest manifestDocument
	text, ok := r.read(manifestFile)
	if !ok {
		return manifest
	}
	doc, problems := document.Parse(text)
	if doc != nil {
		problems = doc.Check(reflect.TypeFor[manifestDocument](), nil)
	}
	for _, p := range problems {
		r.fail(manifestFile, p.Line, "%s", p.Message)
	}
	if len(problems) > 0 {
		return manifest
	}
	if err := doc.Decode(&manifest); err != nil {
		r.fail(manifestFile, 1, "cannot be read: %v", err)
	}
	if manifest.Version == "" {
		r.fail(manifestFile, 1, "version is missing: it is a semantic version such as 1.0.0")
	}
	return manifest
}

func (r *folderReader) readFolders() {
	entries, err := fs.ReadDir(r.folder, ".")
	if err != nil {
		r.fail(".", 0, "the folder cannot be read: %v", err)
	}
	for _, entry := range entries {
		part, ok := folders[entry.Name()]
		known := ok || slices.Contains([]string{manifestFile, componentsKey, "testdata", "README.md"}, entry.Name())
		if !known {
			r.fail(entry.Name(), 0, "the file is not known: a plugin has manifest.yaml, components.yaml, podtemplates/, params/, operations/ and testdata/")
		}
		if ok {
			r.readFolder(entry.Name(), part)
		}
	}
}

func (r *folderReader) readFolder(name string, part Part) {
	entries, err := fs.ReadDir(r.folder, name)
	if err != nil {
		r.fail(name, 0, "the folder cannot be read: %v", err)
	}
	for _, entry := range entries {
		file := path.Join(name, entry.Name())
		if entry.IsDir() {
			r.fail(file, 0, "it is a folder: the parts are files")
			continue
		}
		if text, ok := r.read(file); ok {
			r.parts[part][entry.Name()] = text
		}
	}
}
