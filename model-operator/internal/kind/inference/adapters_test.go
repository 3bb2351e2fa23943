// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// adapterOf is an adapter of a Model with a version for each source.
func adapterOf(m *aiv1.Model, name string) *aiv1.Model {
	adapter := modelNamed(name)
	adapter.Spec.Requires, adapter.Spec.Verification = []aiv1.ModelReference{{Name: m.Name}}, m.Spec.Verification
	for n := range adapter.Spec.Versions {
		adapter.Spec.Versions[n].SHA256 = strings.Repeat("abcdef0"[n:n+1], 64)
	}
	return adapter
}

// withAdapters is an Inference of a version of the Model chat with adapters of the Models poet and cook.
func withAdapters(version aiv1.ModelVersionName, adapters ...aiv1.ModelVersionName) *aiv1.Inference {
	i := &aiv1.Inference{}
	i.Spec.ModelRef = aiv1.InferenceModelReference{Name: "chat", Version: version}
	for n, of := range adapters {
		i.Spec.Adapters = append(i.Spec.Adapters,
			aiv1.InferenceAdapter{Name: []string{"poet", "cook"}[n], Version: of})
	}
	return i
}

// All files of a pod are on one claim, and are read by one account of each kind.
func TestFilesOfAdaptersAreWhereThePodCanReadThem(t *testing.T) {
	compiledOf := func(i *aiv1.Inference, change func(m *aiv1.Model)) (*typed.Output, error) {
		referents, m := typed.Referents{}, modelNamed("chat")
		for n, reference := range (Kind{}).References(i) {
			referents[reference] = m
			if n > 0 {
				adapter := adapterOf(m, reference.Name)
				change(adapter)
				referents[reference] = adapter
			}
		}
		return Kind{}.CompileWith(i, referents)
	}
	same := func(*aiv1.Model) {}
	other := func(m *aiv1.Model) {
		m.Spec.Versions[1].Source.PVC.ClaimName = "mine"
		m.Spec.Versions[2].Source.S3.CredentialsSecretRef = nil
		m.Spec.Versions[4].Source.OCI.PullSecretRef.Name = "mine"
		m.Spec.Versions[5].Source.HTTP.CASecretRef.Name = "mine"
	}
	for title, c := range map[string]struct {
		i      *aiv1.Inference
		change func(*aiv1.Model)
		want   string
	}{
		"a claim alone":    {withAdapters("1.0", "2.0"), other, ""},
		"the same claim":   {withAdapters("2.0", "2.0"), same, ""},
		"another claim":    {withAdapters("2.0", "2.0"), other, ""},
		"a bucket alone":   {withAdapters("1.0", "3.0"), other, ""},
		"the same account": {withAdapters("3.0", "3.0"), same, ""},
		"nobody's bucket": {withAdapters("3.0", "3.0"), other,
			`credentialsSecretRef "", and that of another file is "account"`},
		"another registry": {withAdapters("5.0", "5.0"), other,
			`pullSecretRef "mine", and that of another file is "puller"`},
		"another token": {withAdapters("1.0", "6.0"), same,
			`tokenSecretRef "reader/token", and that of another file is ""`},
		"another authority": {withAdapters("6.0", "6.0"), other,
			`caSecretRef "mine/ca.crt", and that of another file is "authority/ca.crt"`},
		"the same token":          {withAdapters("6.0", "6.0"), same, ""},
		"a web server and others": {withAdapters("3.0", "7.0"), same, ""},
		"claim, bucket, registry": {withAdapters("2.0", "3.0", "5.0"), same, ""},
	} {
		out, err := compiledOf(c.i, c.change)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", title, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", title, err)
		} else if out.Application.Spec.Components[0].Parameters[adaptersParameter] == "" {
			t.Errorf("%s: the servers have no adapters", title)
		}
	}
}

// An adapter is of use with its base alone, and once its Model is ready.
func TestAdaptersThatAreRefused(t *testing.T) {
	for title, c := range map[string]struct {
		change func(i *aiv1.Inference, adapter *aiv1.Model)
		want   string
	}{
		"another base": {func(_ *aiv1.Inference, a *aiv1.Model) { a.Spec.Requires[0].Name = "other" },
			`spec.adapters[0] names Model "poet", which does not require Model "chat", and that is served`},
		"the base of the canary": {func(i *aiv1.Inference, _ *aiv1.Model) {
			i.Spec.Canary = &aiv1.InferenceCanary{Weight: new(int32(0)),
				ModelRef: aiv1.InferenceModelReference{Name: "next", Version: "1.0"}}
		}, `which does not require Model "next"`},
		"no such version": {func(i *aiv1.Inference, _ *aiv1.Model) { i.Spec.Adapters[0].Version = "9.0" },
			`spec.adapters[0].version is "9.0", which Model "poet" does not have`},
		"another format": {func(_ *aiv1.Inference, a *aiv1.Model) { a.Spec.Format = "Safetensors" },
			`spec.adapters[0] names Model "poet", whose format is Safetensors`},
		"not ready": {func(_ *aiv1.Inference, a *aiv1.Model) {
			conditions.Report(a, outcome.Stalled(platformv1.ReasonReferenceDeleting, "its base goes"), "")
		}, `spec.adapters[0] names Model "poet", which is not ready: its base goes`},
		"long URLs": {func(_ *aiv1.Inference, a *aiv1.Model) {
			a.Spec.Versions[0].Source.HTTP.URL = "https://a/" + strings.Repeat("b", 4096)
		}, "4096 is the most"},
	} {
		i, m := withAdapters("1.0", "1.0"), modelNamed("chat")
		adapter := adapterOf(m, "poet")
		c.change(i, adapter)
		referents := typed.Referents{}
		for _, reference := range (Kind{}).References(i) {
			referents[reference] = modelNamed(reference.Name)
		}
		referents[adapterReference(i, 0)] = adapter
		if _, err := (Kind{}).CompileWith(i, referents); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", title, err, c.want)
		}
	}
}
