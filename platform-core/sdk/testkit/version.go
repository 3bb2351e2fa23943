// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
)

// The first versions of Kubernetes whose API server does what some tests ask for.
var (
	// Resizes: it gives pods other resources while they run.
	Resizes = version.MajorMinor(1, 33)
	// TakesSizesBack: it lets a claim ask for less again, as long as the volume has not grown, and keeps what the storage
	// says of a size.
	TakesSizesBack = version.MajorMinor(1, 32)
	// meetsCriteria: a Job that is complete has met its criteria before. An earlier one refuses a Job that says so without
	// a successPolicy.
	meetsCriteria = version.MajorMinor(1, 31)
)

// Since says whether the API server is of this version or a later one.
func (e *Env) Since(first *version.Version) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(e.Config)
	if err != nil {
		return false, fmt.Errorf("cannot make a client: %w", err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		return false, fmt.Errorf("cannot ask the API server for its version: %w", err)
	}
	served, err := version.ParseSemantic(info.GitVersion)
	if err != nil {
		return false, fmt.Errorf("cannot understand the API server's version: %w", err)
	}
	return served.AtLeast(first), nil
}
