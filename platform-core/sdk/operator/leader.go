// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// renewDeadline is how long a leader tries to renew its lease before it gives up; controller-runtime's default.
const renewDeadline = 10 * time.Second

// leaseName returns the name of the lease of an operator, in its namespace.
func leaseName(domain string) string { return domain + "-operator.zeroinfra.github.com" }

// newLock returns the lock of leader election. Unlike that of the manager it
// publishes no events: the lease says who leads, and a restart writes nothing else.
func newLock(cfg *rest.Config, domain, namespace string) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("cannot name this replica: %w", err)
	}
	// Renewing the lease never waits behind the requests of reconciles.
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter = nil
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName(domain), identity, cfg, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("cannot use lease %q: %w", leaseName(domain), err)
	}
	return lock, nil
}
