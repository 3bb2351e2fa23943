// SPDX-License-Identifier: Apache-2.0

package model

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Versions in a stage or in use are those of the Dataset; without one there is none.
func TestCacheIsADataset(t *testing.T) {
	testkit.Golden(t, "testdata", func(in aiv1.Model) (any, error) {
		out, err := Kind{}.Compile(&in)
		if err != nil {
			return nil, err
		}
		return out.Objects, nil
	})
}

func TestVersionsThatCannotBeCached(t *testing.T) {
	url := func(text string) aiv1.ModelSource {
		return aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: text}}
	}
	key := func(text string) aiv1.ModelSource {
		return aiv1.ModelSource{S3: &aiv1.ModelS3Source{Key: text}}
	}
	for title, c := range map[string]struct {
		name   string
		source aiv1.ModelSource
		want   string
	}{
		"a long name":    {strings.Repeat("a", 41), url("https://a/b"), "its name has 41 characters, and at most 40"},
		"no path":        {"a", url("https://a"), "its URL has to have a path"},
		"a query":        {"a", url("https://a/b?download=true"), `its file is called "b?download=true"`},
		"a query before": {"a", url("https://a/b?c=/d"), "has no query"},
		"two slashes":    {"a", url("https://a/b//c"), "no two slashes before the file"},
		"no file":        {"a", url("https://a/b/"), `its file is called ""`},
		"an escape":      {"a", url("https://a/b%20c"), `its file is called "b%20c"`},
		"dots":           {"a", url("https://a/b..c"), `its file is called "b..c"`},
		"a long key":     {"a", key(strings.Repeat("a/", 351) + "b"), "its key has more than 700 characters"},
		"a dollar":       {"a", key("${a}/b"), "or one of $, { and }"},
		"a claim":        {"a", aiv1.ModelSource{PVC: &aiv1.ModelPVCSource{}}, "only files of web servers and buckets are"},
		"an image":       {"a", aiv1.ModelSource{OCI: &aiv1.ModelOCISource{}}, "only files of web servers and buckets are"},
	} {
		m := &aiv1.Model{Spec: aiv1.ModelSpec{Cache: &aiv1.ModelCache{},
			Versions: []aiv1.ModelVersion{{Name: aiv1.ModelVersionName(c.name), Source: c.source}}}}
		_, err := Kind{}.Compile(m)
		if err == nil || !strings.HasPrefix(err.Error(), "spec.versions[0], ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", title, err, c.want)
		}
	}
	m := &aiv1.Model{Spec: aiv1.ModelSpec{Cache: &aiv1.ModelCache{}}}
	for _, letter := range strings.Split("abcdefghijklmnopqrstuvwxyz0123456", "") {
		name := aiv1.ModelVersionName(letter)
		m.Spec.Versions = append(m.Spec.Versions, aiv1.ModelVersion{Name: name, Source: url("https://a/b")})
		m.Status.Versions = append(m.Status.Versions, aiv1.ModelVersionStatus{Name: name, InUse: 1})
	}
	if _, err := (Kind{}).Compile(m); err == nil || !strings.Contains(err.Error(), "to have 33 versions") {
		t.Errorf("got %v", err)
	}
}

// The status says how far each version is that is to be in the cache, and keeps that while it cannot be looked at.
func TestStatusTellsOfTheCache(t *testing.T) {
	m := &aiv1.Model{ObjectMeta: named("chat"), Spec: aiv1.ModelSpec{Cache: &aiv1.ModelCache{},
		Versions: []aiv1.ModelVersion{{Name: "1.0"}, {Name: "2.0"}, {Name: "3.0"}, {Name: "4.0"}, {Name: "5.0"}},
		Stages:   map[aiv1.ModelStage]aiv1.ModelVersionName{"Staging": "1.0", "Production": "2.0", "Archived": "5.0"},
	}}
	ds := &aiv1.Dataset{ObjectMeta: metav1.ObjectMeta{Name: "model-chat"}}
	ds.Status.Versions = []aiv1.DatasetVersionStatus{
		{Name: "1.0", Phase: aiv1.DatasetReady, Claim: "dataset-model-chat.1.0"},
		{Name: "2.0", Phase: aiv1.DatasetPreparing, Message: "fetch runs"},
		{Name: "3.0", Phase: aiv1.DatasetRemoving, Message: "a pod mounts it"},
		{Name: "4.0", Phase: aiv1.DatasetRemoving, Message: "a pod mounts it"},
	}
	user := served("a", aiv1.InferenceModelReference{Name: "chat", Version: "3.0"}, "")
	report := func(objects ...*aiv1.Dataset) {
		t.Helper()
		var all []*unstructured.Unstructured
		for _, object := range objects {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &unstructured.Unstructured{Object: content})
		}
		Kind{}.ReportUsers(m, []typed.User{user})
		Kind{}.ReportObjects(m, all)
	}
	caches := func() map[aiv1.ModelVersionName]aiv1.ModelVersionCache {
		all := map[aiv1.ModelVersionName]aiv1.ModelVersionCache{}
		for _, known := range m.Status.Versions {
			if known.Cache != nil {
				all[known.Name] = *known.Cache
			}
		}
		return all
	}
	report(ds)
	soon := aiv1.ModelVersionCache{Phase: aiv1.DatasetPending, Message: "it is about to be fetched"}
	want := map[aiv1.ModelVersionName]aiv1.ModelVersionCache{
		"1.0": {Phase: aiv1.DatasetReady, Claim: "dataset-model-chat.1.0"},
		"2.0": {Phase: aiv1.DatasetPreparing, Message: "fetch runs"},
		"3.0": soon, "5.0": soon,
	}
	if got := caches(); !reflect.DeepEqual(got, want) || m.Status.Cached != "1/4" {
		t.Errorf("got %s %+v, want %+v", m.Status.Cached, got, want)
	}
	// The Dataset cannot be read.
	Kind{}.ReportUsers(m, nil)
	if got := caches(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	ds.DeletionTimestamp = new(metav1.Now())
	report(ds)
	if got := caches()["1.0"]; got.Phase != aiv1.DatasetRemoving || got.Claim != "" || m.Status.Cached != "0/4" {
		t.Errorf("got %s %+v", m.Status.Cached, got)
	}
	report()
	if got := caches()["1.0"]; got != soon {
		t.Errorf("got %+v", got)
	}
	m.Spec.Cache = nil
	report(ds)
	if got := caches(); len(got) > 0 || m.Status.Cached != "" {
		t.Errorf("got %q %+v", m.Status.Cached, got)
	}
}
