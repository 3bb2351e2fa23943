// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// cachedModel is a Model with a cache that has 1.0 and 3.0. It fetches 4.0, and could not fetch 5.0.
func cachedModel(name string) *aiv1.Model {
	m := modelNamed(name)
	m.Spec.Cache = &aiv1.ModelCache{ServiceAccountName: "preparer"}
	for version, cache := range map[aiv1.ModelVersionName]*aiv1.ModelVersionCache{
		"1.0": {Phase: aiv1.DatasetReady, Claim: "dataset-model-" + name + ".1.0"},
		"3.0": {Phase: aiv1.DatasetReady, Claim: "dataset-model-" + name + ".3.0"},
		"4.0": {Phase: aiv1.DatasetPreparing, Message: "fetch runs"},
		"5.0": {Phase: aiv1.DatasetFailed, Message: "it does not fit"},
	} {
		m.Status.Versions = append(m.Status.Versions, aiv1.ModelVersionStatus{Name: version, Cache: cache})
	}
	return m
}

// withModel compiles an Inference with one Model.
func withModel(i *aiv1.Inference, m *aiv1.Model) (*typed.Output, error) {
	referents := typed.Referents{}
	for _, reference := range (Kind{}).References(i) {
		referents[reference] = m
		if reference.GVK == dataset {
			referents[reference] = datasetNamed(reference.Name)
		}
	}
	return Kind{}.CompileWith(i, referents)
}

// A version is served from the claim that it is cached on, and not before it is there.
func TestACachedVersionIsServedFromItsClaim(t *testing.T) {
	i := &aiv1.Inference{}
	i.Spec.ModelRef = aiv1.InferenceModelReference{Name: "chat", Version: "1.0"}
	m := cachedModel("chat")
	// What is wrong with another version does not matter.
	conditions.Report(m, outcome.Stalled(platformv1.ReasonOperationFailed, "5.0 cannot be fetched"), "")
	out, err := withModel(i, m)
	if err != nil {
		t.Fatal(err)
	}
	main := out.Application.Spec.Components[0]
	if len(main.Mounts) != 1 || main.Mounts[0].PersistentVolumeClaim.Name != "dataset-model-chat.1.0" ||
		main.Mounts[0].Name != "models-"+folderOf("dataset-model-chat.1.0") {
		t.Errorf("the mounts are %+v", main.Mounts)
	}
	if file := string(main.Parameters["model.file"]); file != folderOf("dataset-model-chat.1.0")+"/chat.gguf" ||
		main.Parameters["model.url"] != "" || string(main.Parameters["model.sha256"]) != strings.Repeat("1", 64) {
		t.Errorf("the parameters are %v", main.Parameters)
	}
	for version, want := range map[aiv1.ModelVersionName]string{
		"2.0": "is Pending there",
		"4.0": `spec.modelRef names version "4.0" of Model "chat", which is served once it is in the cache, and is ` +
			"Preparing there: fetch runs",
		"5.0": "is Failed there: it does not fit",
	} {
		i.Spec.ModelRef.Version = version
		_, err := withModel(i, m)
		refusal, is := errors.AsType[*typed.Refusal](err)
		if !is || refusal.Reason != platformv1.ReasonReferenceNotReady || !strings.Contains(refusal.Message, want) {
			t.Errorf("version %s: got %v, want %q", version, err, want)
		}
	}
	// Pods let go of claims that are to be removed.
	i.Spec.ModelRef.Version = "1.0"
	for n := range m.Status.Versions {
		m.Status.Versions[n].Cache = &aiv1.ModelVersionCache{Phase: aiv1.DatasetRemoving}
	}
	downloads(t, i, m)
	m.Status.Versions, m.Spec.Cache = cachedModel("chat").Status.Versions, nil
	downloads(t, i, m)
}

func downloads(t *testing.T, i *aiv1.Inference, m *aiv1.Model) {
	t.Helper()
	out, err := withModel(i, m)
	if err != nil {
		t.Fatal(err)
	}
	if main := out.Application.Spec.Components[0]; len(main.Mounts) > 0 || main.Parameters["model.url"] == "" {
		t.Errorf("it mounts %+v, with %v", main.Mounts, main.Parameters)
	}
}

// A canary changes nothing of the other pods: it downloads what they do not mount, by the account that they have.
func TestACanaryOfACachedModel(t *testing.T) {
	m, i := cachedModel("chat"), &aiv1.Inference{}
	i.Spec.ModelRef = aiv1.InferenceModelReference{Name: "chat", Version: "3.0"}
	i.Spec.Replicas = new(int32(2))
	before, err := withModel(i, m)
	if err != nil {
		t.Fatal(err)
	}
	for version, file := range map[aiv1.ModelVersionName]string{
		"1.0": "", "3.0": folderOf("dataset-model-chat.3.0") + "/chat.gguf", "4.0": ""} {
		i.Spec.Canary = &aiv1.InferenceCanary{Weight: new(int32(50)),
			ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: version}}
		out, err := withModel(i, m)
		if err != nil {
			t.Errorf("version %s: %v", version, err)
			continue
		}
		main, was := out.Application.Spec.Components[0], before.Application.Spec.Components[0]
		if len(main.Mounts) != 1 || main.Mounts[0].Name != was.Mounts[0].Name || len(out.Application.Spec.Credentials) != 2 {
			t.Errorf("version %s: the mounts are %+v, the credentials %+v", version, main.Mounts,
				out.Application.Spec.Credentials)
		}
		canary := main.Sets[1].Parameters
		if string(canary["model.file"]) != file || (canary["model.url"] == "") != (file != "") {
			t.Errorf("version %s: the parameters of the canary are %v", version, canary)
		}
	}
}

// A canary downloads from a private place by the Secrets that the version beside it was fetched with.
func TestACanaryOfACachedModelFromAPrivatePlace(t *testing.T) {
	authority := &platformv1.AuthorityReference{Name: "place-ca"}
	for title, c := range map[string]struct {
		source      aiv1.ModelSource
		credentials []string
	}{
		"a token": {aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://models.example.com/chat.gguf",
			CASecretRef: authority, TokenSecretRef: &platformv1.SecretKeyReference{Name: "token"}}},
			[]string{"http-token", "source-ca"}},
		"a user": {aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://models.example.com/chat.gguf",
			CredentialsSecretRef: &platformv1.SecretReference{Name: "user"}}}, []string{"http-username", "http-password"}},
		"a bucket": {aiv1.ModelSource{S3: &aiv1.ModelS3Source{Endpoint: "https://s3.example.com", Bucket: "models",
			Key: "chat.gguf", CASecretRef: authority, CredentialsSecretRef: &platformv1.SecretReference{Name: "account"}}},
			[]string{"access-key", "secret-key", "source-ca"}},
	} {
		t.Run(title, func(t *testing.T) {
			m, i := cachedModel("chat"), &aiv1.Inference{}
			for n := range m.Spec.Versions {
				m.Spec.Versions[n].Source = c.source
			}
			i.Spec.ModelRef = aiv1.InferenceModelReference{Name: "chat", Version: "3.0"}
			i.Spec.Replicas = new(int32(2))
			before, err := withModel(i, m)
			if err != nil {
				t.Fatal(err)
			}
			i.Spec.Canary = &aiv1.InferenceCanary{Weight: new(int32(50)),
				ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: "4.0"}}
			out, err := withModel(i, m)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, credential := range out.Application.Spec.Credentials {
				names = append(names, credential.Name)
			}
			if !slices.Equal(names, c.credentials) ||
				!reflect.DeepEqual(out.Application.Spec.Credentials, before.Application.Spec.Credentials) {
				t.Errorf("the credentials are %v, want %v, and were %+v", names, c.credentials,
					before.Application.Spec.Credentials)
			}
		})
	}
}

// Each adapter has a claim of its own, and with Datasets there are as many as a pod can mount.
func TestAdaptersFromTheCache(t *testing.T) {
	i, m := withAdapters("1.0", "1.0", "3.0"), cachedModel("chat")
	compile := func() (*typed.Output, error) {
		referents := typed.Referents{}
		for _, reference := range (Kind{}).References(i) {
			referents[reference] = m
			if reference.GVK == dataset {
				referents[reference] = datasetNamed(reference.Name)
			} else if reference.Name != "chat" {
				adapter := adapterOf(m, reference.Name)
				adapter.Spec.Cache, adapter.Status = m.Spec.Cache, cachedModel(reference.Name).Status
				referents[reference] = adapter
			}
		}
		return Kind{}.CompileWith(i, referents)
	}
	out, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	main := out.Application.Spec.Components[0]
	if len(main.Mounts) != 3 || len(out.Application.Spec.Credentials) > 0 ||
		!strings.Contains(string(main.Parameters[adaptersParameter]),
			`"file":"`+folderOf("dataset-model-cook.3.0")+`/chat.gguf"`) {
		t.Errorf("the mounts are %+v, the adapters %v", main.Mounts, main.Parameters[adaptersParameter])
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		i.Spec.Datasets = append(i.Spec.Datasets, aiv1.InferenceDataset{Name: name, Version: "1.0"})
	}
	if _, err := compile(); err == nil || !strings.Contains(err.Error(), "are on 9 volumes, and a pod mounts at most 8") {
		t.Errorf("got %v", err)
	}
}

// A folder is that of one claim alone.
func TestFoldersOfClaims(t *testing.T) {
	seen := map[string]string{}
	for _, claim := range []string{"models", "a.b", "a-b", strings.Repeat("a", 40), strings.Repeat("a", 41),
		strings.Repeat("a", 253), "dataset-model-chat.1.0", "dataset-model-chat.1-0", strings.Repeat("a", 30) + ".b.c"} {
		folder := folderOf(claim)
		if other := seen[folder]; other != "" {
			t.Errorf("%s and %s have the folder %s", claim, other, folder)
		}
		if seen[folder] = claim; len(folder) > maxFolder || strings.Contains(folder, ".") || strings.Contains(folder, "--") {
			t.Errorf("%s has the folder %s", claim, folder)
		}
	}
}
