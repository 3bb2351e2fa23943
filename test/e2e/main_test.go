// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	// A client that has lost its server says so with each attempt, and what a failed test says drowns in that.
	logging.Disable()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	if err := prepare(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		os.Exit(1)
	}
	cancel()
	code := tellFaults(m.Run())
	if err := awaitRemovals(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// prepare connects to the cluster and installs the operator once for all tests.
func prepare(ctx context.Context) error {
	var err error
	if set, err = readSettings(); err != nil {
		return err
	}
	if err := resume(); err != nil {
		return err
	}
	// The tests wait far more than they compute.
	if err := flag.Set("test.parallel", set.parallel); err != nil {
		return fmt.Errorf("cannot run %q tests at the same time: %w", set.parallel, err)
	}
	if world, err = connect(set.kubeconfig); err != nil {
		return err
	}
	if set.install {
		start := time.Now()
		if err := install(ctx, operatorName); err != nil {
			return err
		}
		fmt.Printf("installed %s in %.1f s\n", operatorName, time.Since(start).Seconds())
	}
	start := time.Now()
	if err := operatorServes(ctx); err != nil {
		return err
	}
	fmt.Printf("operator serves after another %.1f s\n", time.Since(start).Seconds())
	return nil
}
