// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9/logging"
)

// prepareTimeout bounds the installation of the operator that tests share.
const prepareTimeout = 15 * time.Minute

// Main is the body of TestMain in the folders of e2e: it connects to the cluster of the environment and runs the tests
// of the package. The first test that makes a namespace with NewNamespace has the database operator installed, unless
// E2E_SKIP_INSTALL is 1. At the end Main prints the table of faults, waits until the namespaces of the tests are gone,
// and uninstalls the operators that tests of the package added. It does not return.
//
// Packages whose tests share an operator run one after the other on one cluster: an operator that is installed already
// is upgraded to the same values.
func Main(m *testing.M) {
	flag.Parse()
	// The names of the tests can be listed without a cluster.
	if list := flag.Lookup("test.list"); list != nil && list.Value.String() != "" {
		os.Exit(m.Run())
	}
	ctrllog.SetLogger(logr.Discard())
	// A client logs each attempt to reach a lost server, which would hide the output of a failed test.
	logging.Disable()
	if err := prepare(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		os.Exit(1)
	}
	code := reportFaults(m.Run())
	if err := finish(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// installShared installs the operator that the tests of a package share, once. It returns the same error to each of
// them.
var installShared = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), prepareTimeout)
	defer cancel()
	start := time.Now()
	if Config.InstallOperator {
		if err := Install(ctx, OperatorName); err != nil {
			return err
		}
		fmt.Printf("installed %s in %s\n", OperatorName, FormatSeconds(time.Since(start)))
	}
	start = time.Now()
	if err := WaitForOperator(ctx); err != nil {
		return err
	}
	fmt.Printf("operator serves after another %s\n", FormatSeconds(time.Since(start)))
	return nil
})

// prepare reads the settings and connects to the cluster.
func prepare() error {
	var err error
	if Config, err = readSettings(); err != nil {
		return err
	}
	if err := resumeRecord(); err != nil {
		return err
	}
	// The tests wait far more than they compute.
	if err := flag.Set("test.parallel", Config.parallel); err != nil {
		return fmt.Errorf("cannot run %q tests at the same time: %w", Config.parallel, err)
	}
	Cluster, err = connect(Config.Kubeconfig)
	return err
}

// finish waits until the namespaces of the tests are gone. Then it uninstalls the operators that tests of this package
// added, since the tests of the charts, in another package, need a cluster without them.
func finish(ctx context.Context) error {
	removed := AwaitRemovals(ctx)
	if Config.KeepNamespaces {
		return removed
	}
	return errors.Join(removed, uninstallAdded(ctx))
}
