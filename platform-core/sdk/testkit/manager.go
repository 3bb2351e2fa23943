// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Run runs a manager until the test, or stop, ends it. One that ends with an error fails the test.
func Run(t testing.TB, mgr manager.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
