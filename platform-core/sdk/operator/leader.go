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
func newLock(cfg *rest.Config, domain string, s settings) (resourcelock.Interface, error) {
	name, err := replicaName(domain, s)
	if err != nil {
		return nil, err
	}
	// Renewing the lease never waits behind the requests of reconciles.
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter = nil
	identity := resourcelock.ResourceLockConfig{Identity: name}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, s.namespace, leaseName(domain),
		identity, cfg, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("cannot use lease %q: %w", leaseName(domain), err)
	}
	return lock, nil
}

// replicaName returns what a replica is called in the lease. Without election all replicas have one name: the lease
// then tells other operators that this one lives, and no replica waits for another.
func replicaName(domain string, s settings) (string, error) {
	if !s.leaderElect {
		return domain + "-operator", nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cannot name this replica: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}
