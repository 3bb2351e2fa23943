// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"cmp"
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// placed is a version with the place that pods have its file from. Where its Model has a cache that is the claim there,
// once the file is on it; nobody serves it before. While the cache as a whole is being removed pods download the file:
// a claim that they mounted would not go.
func placed(field string, m *aiv1.Model, version *aiv1.ModelVersion) (*aiv1.ModelVersion, error) {
	if m.Spec.Cache == nil {
		return version, nil
	}
	switch known := cacheState(m, version); {
	case known.Phase == aiv1.DatasetRemoving:
		return version, nil
	case known.Phase == aiv1.DatasetReady && known.Claim != "":
		return onClaim(version, known.Claim), nil
	default:
		message := ""
		if known.Message != "" {
			message = ": " + known.Message
		}
		return nil, typed.Refuse(platformv1.ReasonReferenceNotReady, fmt.Sprintf(
			"%s names version %q of Model %q, which is served once it is in the cache, and is %s there%s", field, version.Name,
			m.Name, cmp.Or(known.Phase, aiv1.DatasetPending), message))
	}
}

// placedBeside is the version of a canary. Its pods mount what the others do, which are not to be replaced for it: they
// have its file from a claim of those, and else download it.
func placedBeside(m *aiv1.Model, version *aiv1.ModelVersion, others files) *aiv1.ModelVersion {
	if m.Spec.Cache == nil {
		return version
	}
	if claim := cacheState(m, version).Claim; slices.Contains(others.claims, claim) {
		return onClaim(version, claim)
	}
	return version
}

// cacheState is what a Model says of a version in its cache.
func cacheState(m *aiv1.Model, version *aiv1.ModelVersion) aiv1.ModelVersionCache {
	for _, known := range m.Status.Versions {
		if known.Name == version.Name && known.Cache != nil {
			return *known.Cache
		}
	}
	return aiv1.ModelVersionCache{}
}

// onClaim is a version whose file is on a claim.
func onClaim(version *aiv1.ModelVersion, claim string) *aiv1.ModelVersion {
	cached := version.DeepCopy()
	_, file := version.Source.Remote()
	cached.Source = aiv1.ModelSource{PVC: &aiv1.ModelPVCSource{ClaimName: claim, Path: file}}
	return cached
}
