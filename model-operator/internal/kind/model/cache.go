// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Bounds of a Dataset, and of what an Inference can name on its claim.
const (
	maxCached = 32
	maxName   = 40
	maxPrefix = 700
)

var (
	cachedFile   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,249}$`)
	cachedURL    = regexp.MustCompile(`^https?://[^/ "<>\\^` + "`" + `{|}?#$][^ "<>\\^` + "`" + `{|}?#$]*$`)
	cachedPrefix = regexp.MustCompile(`^[^${}\x00-\x1f]*$`)
)

// ObjectKinds implements typed.ObjectMaker.
func (Kind) ObjectKinds() []schema.GroupVersionKind { return []schema.GroupVersionKind{dataset} }

// cacheOf is the Dataset that keeps the files of a Model; nil without a version that is to be kept. Every version is
// looked at, so that none is refused on the day that it is put into a stage.
func cacheOf(m *aiv1.Model) (*aiv1.Dataset, error) {
	cache := m.Spec.Cache
	if cache == nil {
		return nil, nil
	}
	ds := &aiv1.Dataset{
		TypeMeta:   metav1.TypeMeta{APIVersion: aiv1.GroupVersion.String(), Kind: dataset.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: aiv1.CacheName(m.Name)},
		Spec: aiv1.DatasetSpec{ServiceAccountName: cache.ServiceAccountName, Storage: *cache.Storage.DeepCopy(),
			Retention: &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete}},
	}
	for n := range m.Spec.Versions {
		version := &m.Spec.Versions[n]
		cached, err := cachedVersion(version)
		if err != nil {
			return nil, fmt.Errorf("spec.versions[%d], %q, cannot be cached: %w; add it in another form, or take spec.cache out",
				n, version.Name, err)
		}
		if needed(m, version.Name) {
			ds.Spec.Versions = append(ds.Spec.Versions, cached)
		}
	}
	switch n := len(ds.Spec.Versions); {
	case n == 0:
		return nil, nil
	case n > maxCached:
		return nil, fmt.Errorf("spec.cache is to have %d versions, which are in stages or in use, and has at most %d: have "+
			"Inferences use fewer of them, or take it out", n, maxCached)
	}
	return ds, nil
}

// needed says whether a version is to be in the cache. Its users are those that the status counts.
func needed(m *aiv1.Model, version aiv1.ModelVersionName) bool {
	for _, staged := range m.Spec.Stages {
		if staged == version {
			return true
		}
	}
	return slices.ContainsFunc(m.Status.Versions, func(known aiv1.ModelVersionStatus) bool {
		return known.Name == version && known.InUse > 0
	})
}

// cachedVersion is a version as one of a Dataset: the folder at its source, and the file in it.
func cachedVersion(version *aiv1.ModelVersion) (aiv1.DatasetVersion, error) {
	cached := aiv1.DatasetVersion{Name: aiv1.DatasetVersionName(version.Name), Source: &aiv1.DatasetSource{}}
	if len(version.Name) > maxName {
		return cached, fmt.Errorf("its name has %d characters, and at most %d are allowed", len(version.Name), maxName)
	}
	folder, name := version.Source.Remote()
	switch from := version.Source; {
	case from.HTTP != nil:
		cached.Source.HTTP = &aiv1.DatasetHTTPSource{URL: strings.TrimSuffix(folder, "/"), CASecretRef: from.HTTP.CASecretRef,
			TokenSecretRef: from.HTTP.TokenSecretRef, CredentialsSecretRef: from.HTTP.CredentialsSecretRef}
		if url := cached.Source.HTTP.URL; !cachedURL.MatchString(url) || strings.HasSuffix(url, "/") {
			return cached, errors.New("its URL has to have a path, and has no query, no two slashes before the file and none " +
				"of # and $")
		}
	case from.S3 != nil:
		cached.Source.S3 = &aiv1.DatasetS3Source{Endpoint: from.S3.Endpoint, Region: from.S3.Region, Bucket: from.S3.Bucket,
			Prefix: folder, CredentialsSecretRef: from.S3.CredentialsSecretRef, CASecretRef: from.S3.CASecretRef}
		if len(folder) > maxPrefix || !cachedPrefix.MatchString(folder) {
			return cached, fmt.Errorf("its key has more than %d characters before the last slash, or one of $, { and }",
				maxPrefix)
		}
	default:
		return cached, errors.New("only files of web servers and buckets are")
	}
	if !cachedFile.MatchString(name) || strings.Contains(name, "..") {
		return cached, fmt.Errorf("its file is called %q, and such a name has at most 250 letters, digits, dots, "+
			"hyphens and underscores", name)
	}
	file := aiv1.DatasetFile{Path: aiv1.DatasetPath(name), SHA256: version.SHA256}
	if version.Size != nil {
		file.Size = resource.NewQuantity(version.Size.Value(), resource.DecimalSI)
	}
	cached.Files = []aiv1.DatasetFile{file}
	return cached, nil
}

// cacheBefore is what was known of a version in the cache: it holds until the Dataset has been looked at again.
func cacheBefore(m *aiv1.Model, before []aiv1.ModelVersionStatus,
	version aiv1.ModelVersionName) *aiv1.ModelVersionCache {
	at := slices.IndexFunc(before, func(known aiv1.ModelVersionStatus) bool { return known.Name == version })
	if at < 0 || m.Spec.Cache == nil {
		return nil
	}
	return before[at].Cache
}

// ReportObjects implements typed.ObjectReporter: how far each version is that is to be in the cache.
func (Kind) ReportObjects(m *aiv1.Model, objects []*unstructured.Unstructured) {
	ds := &aiv1.Dataset{}
	for _, object := range objects {
		if object.GetName() == aiv1.CacheName(m.Name) &&
			runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, ds) != nil {
			ds = &aiv1.Dataset{}
		}
	}
	m.Status.Cached = ""
	ready, all := 0, 0
	for n := range m.Status.Versions {
		known := &m.Status.Versions[n]
		known.Cache = nil
		if m.Spec.Cache == nil || !needed(m, known.Name) {
			continue
		}
		known.Cache = reportCache(ds, aiv1.DatasetVersionName(known.Name))
		all++
		if known.Cache.Phase == aiv1.DatasetReady {
			ready++
		}
	}
	if m.Spec.Cache != nil {
		m.Status.Cached = fmt.Sprintf("%d/%d", ready, all)
	}
}

// reportCache is what the Dataset says of a version that is to be there.
func reportCache(ds *aiv1.Dataset, version aiv1.DatasetVersionName) *aiv1.ModelVersionCache {
	if !ds.DeletionTimestamp.IsZero() {
		return &aiv1.ModelVersionCache{Phase: aiv1.DatasetRemoving, Message: fmt.Sprintf(
			"Dataset %q is being deleted, and is made again once no pod mounts a claim of it", ds.Name)}
	}
	at := slices.IndexFunc(ds.Status.Versions, func(v aiv1.DatasetVersionStatus) bool { return v.Name == version })
	if at >= 0 {
		switch v := ds.Status.Versions[at]; v.Phase {
		case aiv1.DatasetPending, aiv1.DatasetPreparing, aiv1.DatasetReady, aiv1.DatasetFailed:
			return &aiv1.ModelVersionCache{Phase: v.Phase, Message: v.Message, Claim: v.Claim}
		}
	}
	return &aiv1.ModelVersionCache{Phase: aiv1.DatasetPending, Message: "it is about to be fetched"}
}
