// SPDX-License-Identifier: Apache-2.0

package mover

import "path"

// Verbs for the artifacts of tasks.
const (
	// VerbKeep keeps files that a task has written, each under its SHA-256 in the folder of the run.
	VerbKeep Verb = "keep"
	// VerbFetch writes artifacts to where a task reads them. A file whose SHA-256 or size is another is not left there.
	VerbFetch Verb = "fetch"
	// VerbDiscard removes all artifacts of a run. A folder that is not there counts as removed.
	VerbDiscard Verb = "discard"
)

const (
	// ArtifactsFolder of a repository has the artifacts of all runs, each in a folder <namespace>/<UID of the run> below
	// it. No namespace has such a name, so that no inventory of backups looks there.
	ArtifactsFolder = "_artifacts"
	// ArtifactsPath is the folder below which a mover has the folders of artifacts of its pod.
	ArtifactsPath = "/zeroinfra/artifacts"
	// FetchPlanPath is where a mover of VerbFetch finds its plan. The pod may have another one for VerbKeep.
	FetchPlanPath = "/zeroinfra/mover/fetch.json"
)

// Artifacts has VerbKeep and VerbFetch carry files of a pod, and VerbDiscard remove them. They are never encrypted.
type Artifacts struct {
	// Folder of the run in the repository.
	Folder string `json:"folder"`
	// MaxBytes is how many bytes an artifact has at most, for VerbKeep.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// Files that are carried; none for VerbDiscard.
	Files []ArtifactFile `json:"files,omitempty"`
}

// ArtifactFile is one file.
type ArtifactFile struct {
	// Name of the artifact, for messages; of VerbFetch with its task, as task.artifact.
	Name string `json:"name"`
	// Path in the container of the task, for messages; its last element is the name of the file.
	Path string `json:"path"`
	// Mount is the number of the folder below ArtifactsPath that the file is in.
	Mount int `json:"mount"`
	// SHA256 in hexadecimal digits and Size in bytes that VerbFetch expects.
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

// KeptArtifact is what VerbKeep has kept.
type KeptArtifact struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// ArtifactsFolderFor is the folder of a run in a repository.
func ArtifactsFolderFor(namespace, run string) string {
	return path.Join(ArtifactsFolder, namespace, run)
}
