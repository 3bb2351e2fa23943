// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// modelNamed is a Model with a version for each source: 1.0 and 4.0 are downloaded, 2.0 is on a claim, 3.0 in a bucket,
// 5.0 in an image, and 6.0 and 7.0 on a
// web server that asks who reads. The Model points has the format ONNX.
func modelNamed(name string) *aiv1.Model {
	version := func(name, digit string, source aiv1.ModelSource) aiv1.ModelVersion {
		return aiv1.ModelVersion{Name: aiv1.ModelVersionName(name), SHA256: strings.Repeat(digit, 64), Source: source}
	}
	m := &aiv1.Model{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: aiv1.ModelSpec{
		Format: aiv1.FormatGGUF,
		Versions: []aiv1.ModelVersion{
			version("1.0", "1", aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://models.example.com/chat.gguf"}}),
			version("2.0", "2", aiv1.ModelSource{PVC: &aiv1.ModelPVCSource{ClaimName: "models", Path: "chat/q4.gguf"}}),
			version("3.0", "3", aiv1.ModelSource{
				S3: &aiv1.ModelS3Source{Endpoint: "https://s3.example.com", Bucket: "models", Key: "chat.gguf",
					CredentialsSecretRef: &platformv1.SecretReference{Name: "account"}}}),
			version("4.0", "4", aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://models.example.com/chat4.gguf"}}),
			version("5.0", "5", aiv1.ModelSource{OCI: &aiv1.ModelOCISource{Image: "registry.example.com/models/chat:5",
				Path: "models/chat.gguf", PullSecretRef: &platformv1.SecretReference{Name: "puller"}}}),
			version("6.0", "6", aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://private.example.com/chat.gguf",
				CASecretRef:    &platformv1.AuthorityReference{Name: "authority"},
				TokenSecretRef: &platformv1.SecretKeyReference{Name: "reader", Key: "token"}}}),
			version("7.0", "7", aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://private.example.com/chat7.gguf",
				CASecretRef:          &platformv1.AuthorityReference{Name: "authority", Key: "ca.pem"},
				CredentialsSecretRef: &platformv1.SecretReference{Name: "reader"}}}),
		},
		Stages: map[aiv1.ModelStage]aiv1.ModelVersionName{"Production": "1.0"},
	}}
	size := resource.MustParse("501728")
	m.Spec.Versions[1].Size = &size
	if name == "points" {
		m.Spec.Format = "ONNX"
	}
	return m
}

// datasetNamed is a Dataset with a version on a claim of its own, one on a folder of another claim, one that is being
// prepared and one that has lost its claim.
func datasetNamed(name string) *aiv1.Dataset {
	ds := &aiv1.Dataset{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ds.Status.Versions = []aiv1.DatasetVersionStatus{
		{Name: "1.0", Phase: aiv1.DatasetReady, Claim: "dataset-" + name + ".1.0",
			Digest: "sha256:" + strings.Repeat("1", 64)},
		{Name: "2026-01", Phase: aiv1.DatasetReady, Claim: "shared", Path: "sets/" + name,
			Digest: "sha256:" + strings.Repeat("2", 64)},
		{Name: "next", Phase: aiv1.DatasetPreparing, Message: "fetch: 40 %"},
		{Name: "old", Phase: aiv1.DatasetExpired, Message: "retention.keep is 1, and so many were prepared later"},
	}
	for _, known := range ds.Status.Versions {
		ds.Spec.Versions = append(ds.Spec.Versions, aiv1.DatasetVersion{Name: known.Name})
	}
	ds.Spec.Versions = append(ds.Spec.Versions, aiv1.DatasetVersion{Name: "new"})
	return ds
}

// compiled is what an Inference becomes where its Model, its adapters and its Datasets are there. Adapters have the
// versions that the Model has, with other digests.
func compiled(i *aiv1.Inference, m *aiv1.Model) (*typed.Output, error) {
	referents := typed.Referents{}
	for _, reference := range (Kind{}).References(i) {
		if reference.GVK == dataset {
			referents[reference] = datasetNamed(reference.Name)
			continue
		}
		referents[reference] = m
		if strings.HasPrefix(reference.Field, "spec.adapters") {
			referents[reference] = adapterOf(m, reference.Name)
		}
	}
	return Kind{}.CompileWith(i, referents)
}

func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(in aiv1.Inference) (any, error) {
		out, err := compiled(&in, modelNamed(in.Spec.ModelRef.Name))
		if err != nil {
			return nil, err
		}
		return out.Application, nil
	})
}

func TestCompileRefusesWhatTheModelHasNot(t *testing.T) {
	for name, c := range map[string]struct {
		ref  aiv1.InferenceModelReference
		want string
	}{
		"version": {aiv1.InferenceModelReference{Name: "chat", Version: "9.0"},
			`spec.modelRef.version is "9.0", which Model "chat" does not have`},
		"stage": {aiv1.InferenceModelReference{Name: "chat", Stage: "Staging"},
			`spec.modelRef.stage is Staging, and no version of Model "chat" is in that stage`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compiled(&aiv1.Inference{Spec: aiv1.InferenceSpec{ModelRef: c.ref}}, modelNamed("chat"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A version of a Dataset is mounted once every file of it is there.
func TestCompileRefusesADatasetThatCannotBeRead(t *testing.T) {
	for version, want := range map[aiv1.DatasetVersionName]struct{ reason, message string }{
		"9.0": {platformv1.ReasonReferenceNotFound,
			`spec.datasets[1].version is "9.0", which Dataset "points" does not have`},
		"next": {platformv1.ReasonReferenceNotReady,
			`which is Preparing: fetch: 40 %; it is mounted once it is Ready`},
		"new": {platformv1.ReasonReferenceNotReady, `which is Pending: it is mounted once it is Ready`},
		"old": {platformv1.ReasonReferenceNotReady, `so many were prepared later; name another version`},
	} {
		i := &aiv1.Inference{Spec: aiv1.InferenceSpec{
			ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: "1.0"},
			Datasets: []aiv1.InferenceDataset{{Name: "digits", Version: "1.0"}, {Name: "points", Version: version}}}}
		_, err := compiled(i, modelNamed("chat"))
		refusal, is := errors.AsType[*typed.Refusal](err)
		if !is || refusal.Reason != want.reason || !strings.Contains(refusal.Message, want.message) {
			t.Errorf("version %s: got %v, want %+v", version, err, want)
		}
	}
}

// What a Model requires is there before a version of it is served; a Model that requires nothing need not be looked at.
func TestCompileRefusesAModelThatIsNotReady(t *testing.T) {
	i := &aiv1.Inference{Spec: aiv1.InferenceSpec{ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: "1.0"}}}
	m := modelNamed("chat")
	m.Generation = 2
	refused := func(want string) {
		t.Helper()
		_, err := compiled(i, m)
		var refusal *typed.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != platformv1.ReasonReferenceNotReady ||
			!strings.Contains(refusal.Message, want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	served := func() {
		t.Helper()
		if _, err := compiled(i, m); err != nil {
			t.Error(err)
		}
	}
	served()
	m.Spec.Requires = []aiv1.ModelReference{{Name: "base"}}
	refused("not known yet whether what it requires exists")
	m.Status.ObservedGeneration = 2
	served()
	conditions.Report(m, outcome.Stalled(platformv1.ReasonReferenceNotFound, "spec.requires[0] names nothing"), "")
	refused(`spec.modelRef names Model "chat", which is not ready: spec.requires[0] names nothing`)
}

// The CPU decides how many pods there are only where nothing else does.
func TestCompileScalesByTheCPUWhereNothingElseIsNamed(t *testing.T) {
	by := []platformv1.AutoscalingMetric{{Name: "llamacpp:requests_deferred", AverageValue: resource.MustParse("2")}}
	for name, c := range map[string]struct {
		spec aiv1.InferenceSpec
		want int32
	}{
		"nothing": {aiv1.InferenceSpec{}, defaultUtilization},
		"CPU":     {aiv1.InferenceSpec{CPUUtilization: new(int32(50)), Metrics: by}, 50},
		"memory":  {aiv1.InferenceSpec{MemoryUtilization: new(int32(50))}, 0},
		"metrics": {aiv1.InferenceSpec{Metrics: by}, 0},
	} {
		c.spec.MinReplicas, c.spec.MaxReplicas = 1, 3
		_, a := replicas(&c.spec)
		got := int32(0)
		if a.CPUUtilization != nil {
			got = *a.CPUUtilization
		}
		if got != c.want || len(a.Metrics) != len(c.spec.Metrics) {
			t.Errorf("%s: it goes by %d %% and %v", name, got, a.Metrics)
		}
	}
}

// At admission nothing can be read, and what has no need of the Model is judged all the same.
func TestCompileWithoutTheModel(t *testing.T) {
	i := &aiv1.Inference{Spec: aiv1.InferenceSpec{
		ModelRef: aiv1.InferenceModelReference{Name: "chat", Stage: "Production"}}}
	out, err := Kind{}.Compile(i)
	if err != nil || out.Application == nil || len(out.Application.Spec.Components[0].Parameters) > 0 {
		t.Errorf("got %+v, %v", out, err)
	}
}
