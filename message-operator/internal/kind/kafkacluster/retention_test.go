// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// A partition fits into the smallest volume with what it may hold beyond its retention, and what the user says wins.
func TestRetentionFitsTheVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		size       string
		additional []string
		said, want string
	}{
		"the default":               {"", nil, "", "7516192768"},
		"a large volume":            {"500Gi", nil, "", "533649686528"},
		"a small volume":            {"2Gi", nil, "", "536870912"},
		"the smallest of several":   {"500Gi", []string{"20Gi", "100Gi"}, "", "18253611008"},
		"no limit":                  {"500Gi", nil, "-1", "-1"},
		"what the user says":        {"500Gi", nil, "1073741824", "1073741824"},
		"a volume of another order": {"1000Mi", nil, "", "262144000"},
	} {
		spec := &messagev1.KafkaClusterSpec{}
		if c.size != "" {
			spec.Storage.Size = resource.MustParse(c.size)
		}
		for _, size := range c.additional {
			spec.AdditionalVolumes = append(spec.AdditionalVolumes, platformv1.Storage{Size: resource.MustParse(size)})
		}
		if c.said != "" {
			spec.Parameters = platformv1.Parameters{retentionParameter: platformv1.ParameterValue(c.said)}
		}
		if got := parameters(spec)[retentionParameter]; string(got) != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
