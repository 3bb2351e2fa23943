// SPDX-License-Identifier: Apache-2.0

package v1

// OperationArtifacts says where the artifacts of a run are. They go with the last Operation that has the folder.
type OperationArtifacts struct {
	// repository is the name of the BackupRepository.
	Repository string `json:"repository"`
	// folder within the repository. A run that tries another one again has that of the other one.
	Folder string `json:"folder"`
}

// StepArtifact is a file that a step has handed on. The record has no content.
type StepArtifact struct {
	// name of the artifact.
	Name string `json:"name"`
	// digest of its content: sha256: and 64 hexadecimal digits.
	Digest string `json:"digest"`
	// size in bytes.
	Size int64 `json:"size"`
	// location is the URL of the object.
	Location string `json:"location"`
}
