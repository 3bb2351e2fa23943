// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

const (
	// DefaultArtifactSize is how many bytes an artifact has at most where the template says nothing.
	DefaultArtifactSize = int64(1) << 30
	// maxArtifactSize is the most that a template can say: a repository takes 10,000 pieces of 8 MiB.
	maxArtifactSize = int64(64) << 30
	// maxStepArtifacts is how many artifacts, and how many inputs, a step has at most.
	maxStepArtifacts = 8
	// maxArtifacts is how many artifacts the steps of a template have together: they are in one record.
	maxArtifacts = 100
)

// Artifacts says where an inline template keeps the files that its steps hand on.
type Artifacts struct {
	// Repository is the name of a BackupRepository with a bucket.
	Repository string `json:"repository"`
	// MaxSize of an artifact. Default 1Gi.
	MaxSize JobAmount `json:"maxSize,omitempty"`
}

// Bytes is how many bytes an artifact has at most.
func (a *Artifacts) Bytes() int64 {
	size, err := resource.ParseQuantity(string(a.MaxSize))
	if err != nil {
		return DefaultArtifactSize
	}
	return size.Value()
}

// StepArtifact is a file that the container of a step writes, and that is kept once it has ended well.
type StepArtifact struct {
	// Name by which other steps read it, as STEP.NAME.
	Name string `json:"name"`
	// Path of the file in the container.
	Path string `json:"path"`
}

// StepInput is an artifact of an earlier step, which is there before the container starts.
type StepInput struct {
	// From is STEP.ARTIFACT.
	From string `json:"from"`
	// Path of the file in the container.
	Path string `json:"path"`
}

// Source is the step that an input is of, and the name of its artifact.
func (i StepInput) Source() (step, artifact string) {
	step, artifact, _ = strings.Cut(i.From, ".")
	return step, artifact
}

// ArtifactFolders are the folders of the artifacts and inputs of a step, each a volume of its own.
func (s *Step) ArtifactFolders() []string {
	var folders []string
	add := func(file string) {
		if folder := path.Dir(file); !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	for _, one := range s.Artifacts {
		add(one.Path)
	}
	for _, one := range s.Inputs {
		add(one.Path)
	}
	return folders
}

// artifact is one of a step by name.
func (s *Step) artifact(name string) bool {
	return slices.ContainsFunc(s.Artifacts, func(a StepArtifact) bool { return a.Name == name })
}

// repository checks where artifacts are kept.
func (c checker) repository() {
	at, all := document.Path{"artifacts"}, 0
	for i := range c.template.Steps {
		all += len(c.template.Steps[i].Artifacts)
	}
	switch a := c.template.Artifacts; {
	case a == nil:
		return
	case c.origin != inline:
		c.fail(at, "are for an inline template: a template of a plugin hands on outputs alone")
	case all == 0:
		c.fail(at, "says where artifacts are kept, and nothing has any: leave it out")
	case all > maxArtifacts:
		c.fail(at, "are %d in all: at most %d are allowed; pack several files into one", all, maxArtifacts)
	case a.Bytes() < 1 || a.Bytes() > maxArtifactSize:
		c.fail(at.With("maxSize"), "is %s: it must be from 1 to 64Gi", a.MaxSize)
	}
}

// artifacts checks the files that a step hands on, and those that it takes.
func (c checker) artifacts(at document.Path, step *Step) {
	field := "artifacts"
	if len(step.Artifacts) == 0 {
		field = "inputs"
	}
	switch {
	case len(step.Artifacts)+len(step.Inputs) == 0:
		return
	case step.Task() == nil:
		c.fail(at.With(field), "are files of a container: only a container and a script have them")
		return
	case c.template.Artifacts == nil && len(step.Artifacts) > 0:
		c.fail(at.With(field), "need a BackupRepository where they are kept: name it in artifacts.repository of the template")
		return
	case step.ForEach != "" && len(step.Artifacts) > 0:
		c.fail(at.With(field), "are those of one pod: a forEach has one for each item")
	case len(step.Artifacts) > maxStepArtifacts || len(step.Inputs) > maxStepArtifacts:
		c.fail(at, "has %d artifacts and %d inputs: at most %d of each are allowed", len(step.Artifacts), len(step.Inputs),
			maxStepArtifacts)
	}
	files := artifactFiles{checker: c, step: step, taken: map[string]bool{}}
	for i, one := range step.Artifacts {
		where := at.With("artifacts").Index(i)
		if slices.ContainsFunc(step.Artifacts[:i], func(a StepArtifact) bool { return a.Name == one.Name }) {
			c.fail(where.With("name"), "is %q, which another one has", one.Name)
		}
		files.check(where.With("path"), one.Path)
	}
	for i, one := range step.Inputs {
		where := at.With("inputs").Index(i)
		c.source(where.With("from"), step, one)
		files.check(where.With("path"), one.Path)
	}
}

// source checks which artifact an input is.
func (c checker) source(at document.Path, step *Step, input StepInput) {
	name, artifact := input.Source()
	source, ok := c.template.Step(name)
	switch {
	case !ok:
		c.fail(at, "names an artifact of the step %q, which is not there", name)
	case !source.artifact(artifact):
		var known []string
		for _, one := range source.Artifacts {
			known = append(known, one.Name)
		}
		c.fail(at, "names the artifact %q, which step %q does not have: it has %s", artifact, name,
			cmp.Or(strings.Join(known, ", "), "none"))
	case !slices.Contains(c.template.Before(step.Name), name):
		c.fail(at, "names an artifact of step %q, which does not have to end before this one: have this one depend on it",
			name)
	}
}

// artifactFiles checks the paths of the files of one step.
type artifactFiles struct {
	checker
	step  *Step
	taken map[string]bool
}

// artifactParents are folders that no artifact can be in or below.
var artifactParents = []string{"/tmp", "/dev", "/proc", "/sys", "/var/run/secrets/kubernetes.io/serviceaccount"}

func (f artifactFiles) check(at document.Path, file string) {
	folder := path.Dir(file)
	mounted := func(place string) bool {
		return slices.ContainsFunc(f.step.Task().Mounts, func(m TaskMount) bool { return m.Path == place })
	}
	within := func(parent string) bool { return folder == parent || strings.HasPrefix(folder, parent+"/") }
	switch {
	case !path.IsAbs(file):
		f.fail(at, "is %q: it must be an absolute path, for example /artifacts/report.csv", file)
	case path.Clean(file) != file || folder == "/":
		f.fail(at, "is %q: it must be a file in a folder, for example /artifacts/report.csv", file)
	case slices.ContainsFunc(artifactParents, within):
		f.fail(at, "is %q: nothing can be kept there; choose another folder, for example /artifacts", file)
	case f.taken[file]:
		f.fail(at, "is %q, which another artifact or input has", file)
	case slices.Contains(f.step.ArtifactFolders(), file):
		f.fail(at, "is %q, which is the folder of another artifact or input", file)
	case mounted(folder), mounted(file):
		f.fail(at, "is %q, where something is mounted: the folder of an artifact is a volume of its own", file)
	}
	f.taken[file] = true
}
