// SPDX-License-Identifier: Apache-2.0

package maven

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// zipMark ends the coordinates of an artifact whose type is zip.
const zipMark = "@zip"

// Artifact is a jar, or a zip, of a repository.
type Artifact struct {
	// Coordinates are group:artifact:version, or group:artifact:version:classifier. Those of a zip end with @zip.
	Coordinates string
	// SHA256 of the file, in hex.
	SHA256 string
}

// IsZip reports whether the artifact is a zip, and not a jar.
func (a Artifact) IsZip() bool { return strings.HasSuffix(a.Coordinates, zipMark) }

func (a Artifact) parts() []string {
	return strings.Split(strings.TrimSuffix(a.Coordinates, zipMark), ":")
}

// Name is group:artifact.
func (a Artifact) Name() string { return strings.Join(a.parts()[:2], ":") }

// Version of the artifact.
func (a Artifact) Version() string { return a.parts()[2] }

// FileName is artifact-version.jar, or artifact-version-classifier.jar; or the same with .zip.
func (a Artifact) FileName() string {
	extension := ".jar"
	if a.IsZip() {
		extension = ".zip"
	}
	return strings.Join(a.parts()[1:], "-") + extension
}

// file is the path of the artifact in a repository.
func (a Artifact) file() string {
	parts := a.parts()
	return path.Join(strings.ReplaceAll(parts[0], ".", "/"), parts[1], parts[2], a.FileName())
}

// coordinates returns those of the file at a path in a repository:
// group/of/it/artifact/version/artifact-version[-classifier].jar, or .zip.
func coordinates(file string) (string, error) {
	parts := strings.Split(file, "/")
	if len(parts) < 4 {
		return "", fmt.Errorf("%q is not the path of an artifact in a repository", file)
	}
	n := len(parts)
	group, artifact, version := strings.Join(parts[:n-3], "."), parts[n-3], parts[n-2]
	rest, found := strings.CutPrefix(parts[n-1], artifact+"-"+version)
	if !found {
		return "", fmt.Errorf("%q is not the path of an artifact in a repository", file)
	}
	rest, isJar := strings.CutSuffix(rest, ".jar")
	rest, isZip := strings.CutSuffix(rest, ".zip")
	if !isJar && !isZip {
		return "", fmt.Errorf("artifact %s:%s:%s is not a jar but %q", group, artifact, version, parts[n-1])
	}
	of := strings.TrimSuffix(group+":"+artifact+":"+version+":"+strings.TrimPrefix(rest, "-"), ":")
	if isZip {
		of += zipMark
	}
	return of, nil
}

// Lock is the committed list of what a project resolves to.
type Lock struct {
	// Project is the sum of the project that it was made from.
	Project string
	// Artifacts are sorted by their coordinates.
	Artifacts []Artifact
}

const projectPrefix = "project sha256:"

var (
	sumForm         = regexp.MustCompile(`^[0-9a-f]{64}$`)
	coordinatesForm = regexp.MustCompile(`^[\w.-]+(:[\w.-]+){2,3}(@zip)?$`)
)

// Format returns the text of a lock: a line for the project, and a line "coordinates sha256:digest" for each artifact.
func (l Lock) Format() []byte {
	var b strings.Builder
	b.WriteString("# Written by \"images lock\". A build refuses every other artifact.\n")
	fmt.Fprintf(&b, "%s%s\n", projectPrefix, l.Project)
	for _, a := range l.Artifacts {
		fmt.Fprintf(&b, "%s sha256:%s\n", a.Coordinates, a.SHA256)
	}
	return []byte(b.String())
}

// ParseLock reads the text of a lock. Errors begin with the number of the line.
func ParseLock(text []byte) (Lock, error) {
	var l Lock
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if sum, found := strings.CutPrefix(line, projectPrefix); found {
			if !sumForm.MatchString(sum) || l.Project != "" {
				return Lock{}, fmt.Errorf("line %d: %q is not the one digest of a project", number, line)
			}
			l.Project = sum
			continue
		}
		of, sum, _ := strings.Cut(line, " sha256:")
		if !coordinatesForm.MatchString(of) || !sumForm.MatchString(sum) {
			return Lock{}, fmt.Errorf("line %d: %q is not of the form group:artifact:version[:classifier][@zip] sha256:digest",
				number, line)
		}
		l.Artifacts = append(l.Artifacts, Artifact{Coordinates: of, SHA256: sum})
	}
	if l.Project == "" {
		return Lock{}, fmt.Errorf("line 1: there is no line %q", projectPrefix+"…")
	}
	slices.SortFunc(l.Artifacts, byCoordinates)
	return l, nil
}

func byCoordinates(a, b Artifact) int { return strings.Compare(a.Coordinates, b.Coordinates) }

// differences returns, sorted, a sentence for each artifact that only one of two lists has, or that has another
// digest.
func differences(locked, resolved []Artifact) []string {
	listed := map[string]string{}
	for _, a := range locked {
		listed[a.Coordinates] = a.SHA256
	}
	var found []string
	for _, a := range resolved {
		want, known := listed[a.Coordinates]
		delete(listed, a.Coordinates)
		switch {
		case !known:
			found = append(found, fmt.Sprintf("%s is resolved and not listed", a.Coordinates))
		case want != a.SHA256:
			found = append(found, fmt.Sprintf("%s has sha256 %s, and %s is listed", a.Coordinates, a.SHA256, want))
		}
	}
	for of := range listed {
		found = append(found, of+" is listed and not resolved")
	}
	slices.Sort(found)
	return found
}
