// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/layer"
)

// readVersion reads the folder of a version and puts it over what it extends. below are the versions that extend it,
// the first one first. Errors and lines are those of files as seen from a folder beside.
func readVersion(versions fs.FS, version string, below []string) (*folderFiles, []LoadError) {
	folder, err := fs.Sub(versions, version)
	if err != nil {
		return nil, []LoadError{{File: version, Message: "the folder cannot be read: " + err.Error()}}
	}
	own, errs := readFolder(folder)
	if len(errs) > 0 || own.manifest.Extends == "" {
		return own, errs
	}
	e := extension{own: own, versions: versions, trail: append(slices.Clip(below), version)}
	base := e.base()
	if len(e.errs) > 0 {
		return nil, e.errs
	}
	merged := e.over(base)
	return merged, e.errs
}

// extension is a version that extends another one.
type extension struct {
	own      *folderFiles
	versions fs.FS
	// trail are the versions that were read to get here, this one last.
	trail []string
	errs  []LoadError
}

// fail is about a key of the version's manifest.
func (e *extension) fail(key, message string) {
	e.errs = append(e.errs, LoadError{File: manifestFile, Line: e.own.line(key), Message: message})
}

// base reads the version that is extended, whose files are named as they are seen from here.
func (e *extension) base() *folderFiles {
	from := e.own.manifest.Extends
	if !pluginVersion.MatchString(from) {
		e.fail("extends", "extends is \""+from+"\": it must be another version of this plugin, such as 1.0.0")
		return nil
	}
	if from = e.folder(from); slices.Contains(e.trail, from) {
		e.fail("extends", "extends goes round in a circle: "+strings.Join(append(e.trail, from), " extends "))
		return nil
	}
	if _, err := fs.Stat(e.versions, path.Join(from, manifestFile)); errors.Is(err, fs.ErrNotExist) {
		e.fail("extends", "extends names version "+from+", which is not there: no folder ../"+from+" has a manifest.yaml")
		return nil
	}
	e.own.manifest.Extends = from
	base, errs := readVersion(e.versions, from, e.trail)
	for _, err := range errs {
		err.File = beside(from, err.File)
		e.errs = append(e.errs, err)
	}
	if len(errs) == 0 &&
		platformv1.CanonicalPluginVersion(base.manifest.Version) != platformv1.CanonicalPluginVersion(from) {
		e.errs = append(e.errs, LoadError{File: beside(from, manifestFile), Line: base.line("version"),
			Message: "version is \"" + base.manifest.Version + "\" and the folder is called \"" + from +
				"\": they must be the same"})
	}
	return base
}

// folder is that of a version, whose name may write it with or without a v; the version as it is written when there is
// none.
func (e *extension) folder(version string) string {
	plain := platformv1.CanonicalPluginVersion(version)
	for _, name := range []string{version, plain, "v" + plain} {
		if _, err := fs.Stat(e.versions, path.Join(name, manifestFile)); err == nil {
			return name
		}
	}
	return version
}

// beside names a file of the folder of another version.
func beside(version, file string) string { return path.Join("..", version, file) }

// over puts the version's own files over those of the base.
func (e *extension) over(base *folderFiles) *folderFiles {
	merged := &folderFiles{manifest: e.own.manifest, files: map[string]layer.File{manifestFile: e.own.files[manifestFile]}}
	if merged.manifest.Domain == "" {
		merged.manifest.Domain = base.manifest.Domain
	}
	if merged.manifest.SupportedVersions == "" {
		merged.manifest.SupportedVersions = base.manifest.SupportedVersions
	}
	for _, file := range e.own.manifest.Without {
		if _, ok := base.files[file]; !ok || file == manifestFile {
			e.fail("without", "without names "+file+", which version "+e.own.manifest.Extends+
				" does not have: there is nothing to take away")
		}
	}
	for _, file := range slices.Sorted(maps.Keys(base.files)) {
		if file != manifestFile && !slices.Contains(e.own.manifest.Without, file) {
			merged.files[file] = base.files[file].Beside(e.own.manifest.Extends)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(e.own.files)) {
		under, both := merged.files[file]
		switch {
		case file == manifestFile:
		case !both:
			merged.files[file] = e.own.files[file]
		case path.Ext(file) == ".cue":
			merged.files[file] = layer.Append(under, e.own.files[file])
		default:
			merged.files[file] = e.merge(under, e.own.files[file])
		}
	}
	return merged
}

func (e *extension) merge(base, change layer.File) layer.File {
	merged, problems := layer.Merge(base, change)
	for _, p := range problems {
		e.errs = append(e.errs, LoadError{File: p.File, Line: p.Line, Message: p.Message})
	}
	return merged
}
