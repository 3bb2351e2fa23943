// SPDX-License-Identifier: Apache-2.0

// Package resources checks the compute resources of containers before the API server or a node rejects them.
package resources

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Check returns what the API server or the node would reject in the resources of a container. The error is the end of a
// sentence that begins with the name of the container.
func Check(r corev1.ResourceRequirements) error {
	if len(r.Claims) > 0 {
		return fmt.Errorf("has resource claims, which are not supported: take them out")
	}
	names := slices.Concat(slices.Collect(maps.Keys(r.Requests)), slices.Collect(maps.Keys(r.Limits)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		request, requests := r.Requests[name]
		limit, limits := r.Limits[name]
		if err := CheckName(name); err != nil {
			return err
		}
		switch inBytes := name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage; {
		case inBytes && requests && TooFewBytes(request):
			return fmt.Errorf("requests %s of %s: %s", request.String(), name, InBytes(request))
		case inBytes && limits && TooFewBytes(limit):
			return fmt.Errorf("has a limit of %s of %s: %s", limit.String(), name, InBytes(limit))
		case requests && limits && request.Cmp(limit) > 0:
			return fmt.Errorf("requests %s of %s and has a limit of %s: the limit must be at least the request",
				request.String(), name, limit.String())
		case limits && limit.Sign() <= 0:
			return fmt.Errorf("has a limit of %s of %s: it must be greater than 0", limit.String(), name)
		case !shared(name):
			if err := checkUnshared(name, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckName says whether containers can have a resource of this name. The error is like that of Check.
func CheckName(name corev1.ResourceName) error {
	if shared(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) || extended(name) {
		return nil
	}
	return fmt.Errorf("has the resource %q, which no container has: there is cpu, memory, ephemeral-storage, "+
		"hugepages-<size>, and what device plugins offer by a name with a domain, such as nvidia.com/gpu", name)
}

// shared says whether containers of a node share a resource, so that the limit of one can be above its request.
func shared(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// extended says whether the API server takes a name for that of an extended resource.
func extended(name corev1.ResourceName) bool {
	text := string(name)
	return strings.Contains(text, "/") && !strings.Contains(text, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(text, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+text)) == 0
}

// checkUnshared checks a resource that a container has for itself: its limit is what it gets, and the request, which
// the API server sets where it is left out, is the same.
func checkUnshared(name corev1.ResourceName, r corev1.ResourceRequirements) error {
	request, requests := r.Requests[name]
	limit, limits := r.Limits[name]
	switch {
	case !limits:
		return fmt.Errorf("requests %s of %s and has no limit: set the limit, and leave the request out", request.String(),
			name)
	case requests && request.Cmp(limit) != 0:
		return fmt.Errorf("requests %s of %s and has a limit of %s: the two must be the same, since containers do not "+
			"share it; leave the request out", request.String(), name, limit.String())
	case extended(name) && limit.MilliValue()%1000 != 0:
		return fmt.Errorf("has a limit of %s of %s: it must be a whole number", limit.String(), name)
	}
	return nil
}

// leastBytes is the least of memory and storage that somebody can mean: what is below was written in milli units, 400m
// for 400Mi.
var leastBytes = resource.MustParse("1Ki")

// TooFewBytes says whether an amount of memory or storage is more than nothing, and cannot be meant.
func TooFewBytes(q resource.Quantity) bool { return q.Sign() > 0 && q.Cmp(leastBytes) < 0 }

// InBytes says what is wrong with such an amount, and how to write what was meant.
func InBytes(q resource.Quantity) string {
	number := strings.TrimRight(q.String(), "munKkMi")
	return fmt.Sprintf("that is less than %s, since m means thousandths, here of a byte; write %sMi for mebibytes",
		leastBytes.String(), number)
}

// Extended are the names of the extended resources of a container, in order.
func Extended(r corev1.ResourceRequirements) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		if extended(name) {
			names = append(names, string(name))
		}
	}
	return names
}
