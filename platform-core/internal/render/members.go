// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// Members says which ordinals a set has, as in "3" or "2, not 1".
func Members(replicas int32, excluded []int32) string {
	words := []string{strconv.Itoa(int(replicas))}
	for _, ordinal := range slices.Sorted(slices.Values(excluded)) {
		words = append(words, fmt.Sprintf("not %d", ordinal))
	}
	return strings.Join(words, ", ")
}

// Together returns how a set has the pods of both lists of ordinals.
func Together(a, b []int32) (replicas int32, excluded []int32) {
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return 0, nil
	}
	for ordinal := range all[len(all)-1] {
		if _, found := slices.BinarySearch(all, ordinal); !found {
			excluded = append(excluded, ordinal)
		}
	}
	return int32(len(all)), excluded
}

// MembershipParameters are those of the actions that bring the members of a component to what they are to be.
func MembershipParameters(b *plugin.Bundle, s Settings, owner Meta, spec *platformv1.ComponentSpec,
	members plugin.Members) (map[string]string, error) {
	b = b.In(spec.Topology)
	declared, ok := b.Component(spec.Component)
	if !ok || declared.Membership == nil {
		return nil, fmt.Errorf("component %q has no membership", spec.Component)
	}
	if s.ClusterDomain == "" {
		s.ClusterDomain = DefaultClusterDomain
	}
	c := &context{bundle: b, settings: s, owner: owner, spec: spec, declared: declared}
	// What is of a set differs from set to set, so that expressions do not see it.
	values := (&setContext{context: c, set: setSpec{resources: spec.Resources}}).values()
	return b.MembershipParameters(declared, values, members)
}
