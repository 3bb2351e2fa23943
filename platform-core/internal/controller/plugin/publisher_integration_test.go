// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"context"
	"slices"
	"sync"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Two operators of one domain that serve different namespaces do not write over each other: who published a bundle
// first keeps on, the other one withdraws nothing that it has not loaded itself, and takes over when the first is gone.
func TestOperatorsOfOneDomainPublishOnce(t *testing.T) {
	one, two := env.Namespace(t), env.Namespace(t)
	var leading sync.Map
	leads := func(d *Deps) {
		d.Leads = func(_ context.Context, namespace string) (bool, error) {
			_, ok := leading.Load(namespace)
			return ok, nil
		}
	}
	leading.Store(one, true)
	_, _, stop := start(t, one, "common", "", leads)
	for _, version := range []string{"1.7.0", "1.7.1"} {
		create(t, objectsOf(relay(t, one, version))...)
		waitPlugin(t, version, "accepted", accepted)
	}

	leading.Store(two, true)
	create(t, objectsOf(relay(t, two, "1.7.0"))...)
	_, w, stopTwo := start(t, two, "common", "", leads)
	// What comes last tells that the second one has seen all of it.
	for _, version := range []string{"1.7.2", "1.7.3"} {
		create(t, objectsOf(relay(t, two, version))...)
		waitPlugin(t, version, "published by the second", publishedBy(two))
	}
	waitPlugin(t, "1.7.1", "as it was", publishedBy(one))
	if list := slices.Concat(w.of("relay-1.7.0"), w.of("relay-1.7.1")); len(list) > 0 {
		t.Errorf("the second operator wrote %q", list)
	}

	stop()
	stopTwo()
	leading.Delete(one)
	start(t, two, "common", "", leads)
	waitPlugin(t, "1.7.0", "taken over", publishedBy(two))
	testkit.WaitGone(t, env.Client, published("1.7.1"))
}

func publishedBy(namespace string) func(*platformv1.Plugin) bool {
	return func(p *platformv1.Plugin) bool {
		return accepted(p) && p.Annotations[platformv1.PublisherAnnotation] == namespace
	}
}
