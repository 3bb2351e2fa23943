// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// digestPrefix names the algorithm of the digest of an artifact.
const digestPrefix = "sha256:"

// TaskArtifacts are the files that a task hands on, and those of earlier ones that it takes.
type TaskArtifacts struct {
	// Repository is the name of the BackupRepository that they are in.
	Repository string
	// Folders of the container that they are in.
	Folders []string
	// Keep and Fetch are for movers before and after the container; nil for none.
	Fetch, Keep *mover.Artifacts
}

// artifactsOf says where the artifacts of a run are to be; nil where it has none. A run that tries another one again
// goes on in the folder of that: it takes steps over that have files there.
func artifactsOf(op, earlier *platformv1.Operation, template optemplate.Template) *platformv1.OperationArtifacts {
	if template.Artifacts == nil {
		return nil
	}
	place := &platformv1.OperationArtifacts{Repository: template.Artifacts.Repository,
		Folder: mover.ArtifactsFolderFor(op.Namespace, string(op.UID))}
	if earlier != nil && earlier.Status.Artifacts != nil && earlier.Status.Artifacts.Repository == place.Repository {
		place.Folder = earlier.Status.Artifacts.Folder
	}
	return place
}

// taskArtifacts are those of a step; why says what is missing of them.
func (r *run) taskArtifacts(t *optemplate.Step) (artifacts *TaskArtifacts, why string) {
	place := r.status.Artifacts
	switch {
	case len(t.Artifacts)+len(t.Inputs) == 0:
		return nil, ""
	case place == nil:
		return nil, fmt.Sprintf("step %q has artifacts, and nothing is on record of where they are", t.Name)
	}
	artifacts = &TaskArtifacts{Repository: place.Repository, Folders: t.ArtifactFolders()}
	mount := func(file string) int {
		return slices.IndexFunc(artifacts.Folders, func(folder string) bool {
			name, in := strings.CutPrefix(file, folder+"/")
			return in && !strings.Contains(name, "/")
		})
	}
	if len(t.Inputs) > 0 {
		artifacts.Fetch = &mover.Artifacts{Folder: place.Folder}
	}
	for _, input := range t.Inputs {
		found, why := r.handedOn(t, input)
		if why != "" {
			return nil, why
		}
		artifacts.Fetch.Files = append(artifacts.Fetch.Files, mover.ArtifactFile{Name: input.From, Path: input.Path,
			Mount: mount(input.Path), SHA256: strings.TrimPrefix(found.Digest, digestPrefix), Size: found.Size})
	}
	if len(t.Artifacts) > 0 {
		artifacts.Keep = &mover.Artifacts{Folder: place.Folder, MaxBytes: r.facts.Template.Artifacts.Bytes()}
	}
	for _, one := range t.Artifacts {
		artifacts.Keep.Files = append(artifacts.Keep.Files,
			mover.ArtifactFile{Name: one.Name, Path: one.Path, Mount: mount(one.Path)})
	}
	return artifacts, ""
}

// handedOn is the artifact that an input is.
func (r *run) handedOn(t *optemplate.Step, input optemplate.StepInput) (artifact platformv1.StepArtifact, why string) {
	name, wanted := input.Source()
	step := r.find(name)
	if step == nil {
		return artifact, fmt.Sprintf("step %q takes an artifact of step %q, which is not there", t.Name, name)
	}
	i := slices.IndexFunc(step.Artifacts, func(a platformv1.StepArtifact) bool { return a.Name == wanted })
	if i < 0 || step.Phase != platformv1.OperationSucceeded {
		return artifact, fmt.Sprintf("step %q takes artifact %q of step %q, which is %s and has handed on none", t.Name,
			wanted, name, step.Phase)
	}
	return step.Artifacts[i], ""
}

// recordArtifacts puts on record what a step has handed on. The error is a sentence.
func recordArtifacts(t *optemplate.Step, step *platformv1.StepStatus, job JobState) error {
	step.Artifacts = nil
	for _, one := range t.Artifacts {
		i := slices.IndexFunc(job.Kept, func(k mover.KeptArtifact) bool { return k.Name == one.Name })
		if i < 0 {
			return fmt.Errorf("nothing is known of artifact %q", one.Name)
		}
		kept := job.Kept[i]
		step.Artifacts = append(step.Artifacts, platformv1.StepArtifact{Name: kept.Name,
			Digest: digestPrefix + kept.SHA256, Size: kept.Size, Location: job.Location + "/" + kept.SHA256})
	}
	return nil
}
