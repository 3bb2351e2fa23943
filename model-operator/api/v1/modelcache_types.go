// SPDX-License-Identifier: Apache-2.0

package v1

import "strings"

// ModelCache keeps the files of versions on claims.
type ModelCache struct {
	// serviceAccountName is the account, in the same namespace, that makes the pods which fetch files: it needs the verb
	// create on jobs. Who sets it, or adds a version, needs the verb impersonate on it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName"`
	// storage of the claims, one for each version. Immutable.
	// +required
	Storage DatasetStorage `json:"storage"`
}

// ModelVersionCache says whether the file of a version is in the cache.
type ModelVersionCache struct {
	// phase: Pending, Preparing, Ready, Failed, or Removing while the cache as a whole is being removed.
	// +required
	Phase DatasetPhase `json:"phase"`
	// message says what is waited for, how far it is, or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// claim that the file is on; absent unless the phase is Ready.
	// +optional
	Claim string `json:"claim,omitempty"`
}

// CacheName is the Dataset that keeps the files of a Model with cache.
func CacheName(model string) string { return "model-" + model }

// Remote splits the URL of a file of a web server, or the key of one in a bucket, behind the last slash: the file has
// that name in the cache. Both are empty for a file that is on a claim or in an image.
func (s *ModelSource) Remote() (folder, file string) {
	place := ""
	switch {
	case s.HTTP != nil:
		place = s.HTTP.URL
	case s.S3 != nil:
		place = s.S3.Key
	}
	at := strings.LastIndex(place, "/") + 1
	return place[:at], place[at:]
}
