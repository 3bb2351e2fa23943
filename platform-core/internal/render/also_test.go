// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Pods mount what they are to accept beside the password once the component says so, and are replaced for that. Of the
// other password an exporter has to know nothing: its container is another one for another password only.
func TestPodsMountWhatTheyAcceptBesideThePassword(t *testing.T) {
	made := func(credential platformv1.ComponentCredential) *platformv1.WorkloadSet {
		b := redis(t)
		specs, refusal := Components(b, application(watched(nil)))
		if refusal != nil {
			t.Fatal(refusal)
		}
		specs[0].Credentials[0].Revision, specs[0].Credentials[0].Also = credential.Revision, credential.Also
		output, refusal := Component(b, settings, Meta{Application: "cache", Namespace: "shop", UID: "u", Domain: "database"},
			&specs[0])
		if refusal != nil {
			t.Fatal(refusal)
		}
		return &platformv1.WorkloadSet{Spec: output.WorkloadSets[0].Spec}
	}
	keys := func(ws *platformv1.WorkloadSet) (keys []string) {
		for _, volume := range pod(t, ws, 0).Spec.Volumes {
			if volume.Name != volumeSecrets {
				continue
			}
			for _, item := range volume.Projected.Sources[0].Secret.Items {
				keys = append(keys, item.Key+" as "+item.Path)
			}
		}
		return keys
	}
	alone, beside := made(platformv1.ComponentCredential{Revision: "r1"}),
		made(platformv1.ComponentCredential{Revision: "r1", Also: true})
	got, want := keys(alone), []string{"password as default/password", "revision as default/revision"}
	if !slices.Equal(got, want) {
		t.Errorf("pods mount %v, want %v", got, want)
	}
	if got, want := keys(beside), []string{"password as default/password", "revision as default/revision",
		"also as default/also"}; !slices.Equal(got, want) {
		t.Errorf("pods mount %v, want %v", got, want)
	}
	if alone.Spec.Revision == beside.Spec.Revision {
		t.Error("pods that mount no second password stay")
	}
	introduced := made(platformv1.ComponentCredential{Revision: "r1" + RevisionSeparator + "r2", Also: true})
	if introduced.Spec.Revision != beside.Spec.Revision ||
		planOf(t, introduced).RestartDigest == planOf(t, beside).RestartDigest {
		t.Error("a second password replaces pods, or restarts no process")
	}
	if shown := made(platformv1.ComponentCredential{Revision: "r2" + RevisionSeparator + "r1",
		Also: true}); shown.Spec.Revision == beside.Spec.Revision {
		t.Error("an exporter keeps the password before")
	}
}
