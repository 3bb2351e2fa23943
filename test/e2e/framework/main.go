// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9/logging"
)

// prepareTimeout bounds the installation of the operators before the first test.
const prepareTimeout = 15 * time.Minute

// Release is a chart of the suite, and the arguments that "helm upgrade --install" gets for it, for example
// "--values", "production.yaml".
type Release struct {
	Chart string
	Args  []string
}

// Main is the body of TestMain in the folders of e2e: it connects to the cluster of the environment, installs the
// database operator unless E2E_SKIP_INSTALL is 1, and runs the tests of the package. At the end it prints the table of
// faults, waits until the namespaces of the tests are gone, and uninstalls the operators that tests of the package
// added. It does not return.
//
// The packages run one after the other on one cluster: an operator that is installed already is upgraded to the same
// values.
func Main(m *testing.M) { MainWithReleases(m, Release{Chart: OperatorName}) }

// MainWithReleases is Main with other operators than the database operator.
func MainWithReleases(m *testing.M, releases ...Release) {
	flag.Parse()
	// The names of the tests can be listed without a cluster.
	if list := flag.Lookup("test.list"); list != nil && list.Value.String() != "" {
		os.Exit(m.Run())
	}
	ctrllog.SetLogger(logr.Discard())
	// A client logs each attempt to reach a lost server, which would hide the output of a failed test.
	logging.Disable()
	ctx, cancel := context.WithTimeout(context.Background(), prepareTimeout)
	if err := prepare(ctx, releases); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		os.Exit(1)
	}
	cancel()
	code := reportFaults(m.Run())
	if err := finish(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// prepare reads the settings, connects to the cluster and installs the operators once for all tests of the package.
func prepare(ctx context.Context, releases []Release) error {
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
	if Cluster, err = connect(Config.Kubeconfig); err != nil {
		return err
	}
	for _, release := range releases {
		if err := prepareRelease(ctx, release); err != nil {
			return err
		}
	}
	return nil
}

// prepareRelease installs one operator, unless the environment says that it is there, and waits until it is at work.
func prepareRelease(ctx context.Context, release Release) error {
	start := time.Now()
	if Config.InstallOperator {
		if err := InstallWithArgs(ctx, release.Chart, release.Args...); err != nil {
			return err
		}
		fmt.Printf("installed %s in %s\n", release.Chart, FormatSeconds(time.Since(start)))
	}
	if release.Chart != OperatorName {
		return nil
	}
	start = time.Now()
	if err := WaitForOperator(ctx); err != nil {
		return err
	}
	fmt.Printf("operator serves after another %s\n", FormatSeconds(time.Since(start)))
	return nil
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
