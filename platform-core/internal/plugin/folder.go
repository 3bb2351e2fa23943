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

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/layer"
)

// manifestFile is the manifest in the folder form of a plugin.
const manifestFile = "manifest.yaml"

// manifestDocument is manifest.yaml: the keys of the manifest part but the references, which are added, and what a
// version says of the one that it extends, which is no part of the bundle.
type manifestDocument struct {
	Version            string   `json:"version"`
	Domain             string   `json:"domain"`
	SupportedVersions  string   `json:"supported-versions"`
	AllowedUpgradeFrom string   `json:"allowed-upgrade-from"`
	Extends            string   `json:"extends"`
	Without            []string `json:"without"`
}

// folders of the parts that have one.
var folders = map[string]Part{"podtemplates": PartPodTemplates, "params": PartParams, "operations": PartOperations}

// Folder is a version of a plugin as it was read from its folder, and from those of the versions that it extends.
type Folder struct {
	// Sources are the parts that its ConfigMaps would hold. They are whole: nothing in them tells of a version that was
	// extended.
	Sources map[Part]Source
	files   map[string]layer.File
}

// LoadFolder reads the folder form of a plugin into the parts that its ConfigMaps
// would hold: manifest.yaml, components.yaml, podtemplates/, params/ and operations/. The folder
// testdata is left out; anything else is refused. So is a version that extends another one: see LoadVersion.
func LoadFolder(folder fs.FS, name string) (map[Part]Source, []LoadError) {
	read, errs := readFolder(folder)
	if len(errs) == 0 && read.manifest.Extends != "" {
		errs = []LoadError{{File: manifestFile, Line: read.line("extends"),
			Message: "the folders of other versions are not at hand here"}}
	}
	if len(errs) > 0 {
		return nil, sortErrors(errs)
	}
	return read.sources(name), nil
}

// LoadVersion reads the folder of a version, which is one of those in versions, and puts it over that of the version
// that it extends. Errors name files as they are seen from the version's folder: components.yaml, or
// ../1.0.0/components.yaml.
func LoadVersion(versions fs.FS, name, version string) (*Folder, []LoadError) {
	read, errs := readVersion(versions, version, nil)
	if len(errs) > 0 {
		return nil, sortErrors(errs)
	}
	return &Folder{Sources: read.sources(name), files: read.files}, nil
}

// Locate has an error of Load, which is about a part of the bundle, name the file and the line that this is from.
func (f *Folder) Locate(err LoadError) LoadError {
	source, key, _ := strings.Cut(err.File, "/")
	err.File = FolderFile(err.File)
	file, ok := f.files[err.File]
	if !ok {
		return err
	}
	line := err.Line
	if err.File == manifestFile && strings.Contains(source, "-"+string(PartManifest)+"-") {
		line = manifestLine(file.Text, key)
	}
	at := file.Place(line)
	err.File, err.Line = at.File, at.Line
	return err
}

// manifestLine is the line of a key of manifest.yaml, and 0 where there is no such key.
func manifestLine(text, key string) int {
	if doc, _ := document.Parse(text); doc != nil && doc.Has(document.Path{key}) {
		return doc.Line(document.Path{key})
	}
	return 0
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

// folderFiles is what a folder holds, or what it comes to over the one that it extends.
type folderFiles struct {
	manifest manifestDocument
	// files by path within the folder.
	files map[string]layer.File
}

// line of a key of the manifest.
func (f *folderFiles) line(key string) int { return manifestLine(f.files[manifestFile].Text, key) }

// sources are the parts of the bundle.
func (f *folderFiles) sources(name string) map[Part]Source {
	parts := map[Part]map[string]string{}
	for _, part := range Parts() {
		parts[part] = map[string]string{}
	}
	for file, content := range f.files {
		if folder, key := path.Split(file); folder != "" {
			parts[folders[path.Clean(folder)]][key] = content.Text
		}
	}
	if content, ok := f.files[componentsKey]; ok {
		parts[PartComponents][componentsKey] = content.Text
	}
	version := platformv1.CanonicalPluginVersion(f.manifest.Version)
	parts[PartManifest] = map[string]string{
		keyVersion: f.manifest.Version, keySupportedVersions: f.manifest.SupportedVersions,
		keyAllowedUpgradeFrom: f.manifest.AllowedUpgradeFrom,
	}
	if f.manifest.Domain != "" {
		parts[PartManifest][keyDomain] = f.manifest.Domain
	}
	sources := map[Part]Source{}
	for _, part := range Parts() {
		if part != PartManifest {
			parts[PartManifest][refKey(part)] = SourceName(name, part, version)
		}
		sources[part] = Source{
			Name: SourceName(name, part, version), Part: part, Plugin: name, Version: version, Immutable: true,
			Data: parts[part],
		}
	}
	return sources
}

// readFolder reads the files of one folder.
func readFolder(folder fs.FS) (*folderFiles, []LoadError) {
	r := folderReader{folder: folder, read: folderFiles{files: map[string]layer.File{}}}
	r.readManifest()
	r.readFolders()
	if _, ok := r.read.files[componentsKey]; !ok && r.read.manifest.Extends == "" {
		r.fail(componentsKey, 0, "the file is missing: add it")
	}
	return &r.read, r.errs
}

type folderReader struct {
	folder fs.FS
	read   folderFiles
	errs   []LoadError
}

func (r *folderReader) fail(file string, line int, format string, args ...any) {
	r.errs = append(r.errs, LoadError{File: file, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (r *folderReader) readFile(file string) (string, bool) {
	data, err := fs.ReadFile(r.folder, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail(file, 0, "the file is missing: add it")
	case err != nil:
		r.fail(file, 0, "the file cannot be read: %v", err)
	default:
		r.read.files[file] = layer.New(file, string(data))
	}
	return string(data), err == nil
}

func (r *folderReader) readManifest() {
	text, ok := r.readFile(manifestFile)
	if !ok {
		return
	}
	doc, problems := document.Parse(text)
	if doc != nil {
		problems = doc.Check(reflect.TypeFor[manifestDocument](), nil)
	}
	for _, p := range problems {
		r.fail(manifestFile, p.Line, "%s", p.Message)
	}
	if len(problems) > 0 {
		return
	}
	manifest := &r.read.manifest
	if err := doc.Decode(manifest); err != nil {
		r.fail(manifestFile, 1, "cannot be read: %v", err)
	}
	if manifest.Version == "" {
		r.fail(manifestFile, 1, "version is missing: it is a semantic version such as 1.0.0")
	}
	if len(manifest.Without) > 0 && manifest.Extends == "" {
		r.fail(manifestFile, doc.Line(document.Path{"without"}),
			"without is for a version that extends another one: say extends, or take it out")
	}
}

func (r *folderReader) readFolders() {
	entries, err := fs.ReadDir(r.folder, ".")
	if err != nil {
		r.fail(".", 0, "the folder cannot be read: %v", err)
	}
	for _, entry := range entries {
		_, isPart := folders[entry.Name()]
		switch {
		case isPart:
			r.readPart(entry.Name())
		case entry.Name() == componentsKey:
			r.readFile(componentsKey)
		case !slices.Contains([]string{manifestFile, "testdata", "README.md"}, entry.Name()):
			r.fail(entry.Name(), 0, "the file is not known: a plugin has manifest.yaml, components.yaml, podtemplates/, "+
				"params/, operations/ and testdata/")
		}
	}
}

func (r *folderReader) readPart(name string) {
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
		r.readFile(file)
	}
}
