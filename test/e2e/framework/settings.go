// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Names that the product is installed under.
const (
	// OperatorNamespace is the namespace of all operators.
	OperatorNamespace = "zeroinfra-system"
	// OperatorName is the chart of the database operator, which Main installs.
	OperatorName = "database-operator"
	// OtherOperator is the second chart, for what the charts share.
	OtherOperator = "message-operator"
	// StorageOperator is the chart that brings the kind ObjectStorage.
	StorageOperator = "storage-operator"
	// CommonOperator is the chart that brings the plugin nginx.
	CommonOperator = "common-operator"
	// RedisImage holds the Redis client tools.
	RedisImage = "zeroinfra/redis:7.0"
	// NFSImage holds a server of NFS, and a client in user space.
	NFSImage = "zeroinfra/nfs-ganesha:6.5"
)

// Set by Main, and the same for all tests of a package.
var (
	// Config is what the environment says.
	Config Settings
	// Cluster is the cluster that KUBECONFIG names.
	Cluster *Clients
)

// DefaultAPIAway is how long the API server is away where nothing else is said: longer than any lease in the cluster.
const DefaultAPIAway = 40 * time.Second

// Settings are what the environment says.
type Settings struct {
	// Kubeconfig names the cluster (KUBECONFIG).
	Kubeconfig string
	// HelmPath is the helm program (HELM).
	HelmPath string
	// ChartsDir is the folder of the charts (CHARTS).
	ChartsDir string
	// ValuesFile is a file in the folder of each chart that is installed with it (E2E_VALUES); the chart's own values
	// alone when it is empty.
	ValuesFile string
	// RepositoryDir is the folder of the whole suite, above the module of the tests.
	RepositoryDir string
	// DevCluster is the devcluster program with its flags (DEVCLUSTER, DEVCLUSTER_NAME); empty when there is none.
	DevCluster []string
	// InstallOperator is false when E2E_SKIP_INSTALL=1.
	InstallOperator bool
	// HelmArgs are added to every installation (E2E_HELM_ARGS, split at blanks).
	HelmArgs []string
	// Idle is how long nothing may be written at rest (E2E_IDLE).
	Idle time.Duration
	// KillRounds is how often the operator is killed during a creation (E2E_KILL_ROUNDS).
	KillRounds int
	// FaultRounds is how often each fault of a primary is tried (E2E_FAULT_ROUNDS).
	FaultRounds int
	// ComparisonRounds is the same for faults that are tried on two sides (E2E_FAULT_ROUNDS, with another default).
	ComparisonRounds int
	// Seed is that of what is chosen at random (E2E_SEED); another one each time when that is not said.
	Seed uint64
	// record is the file that trials of faults are kept in, beside those of former runs (E2E_RECORD); none when it is
	// empty. recordOf is the version that they are of (E2E_RECORD_OF).
	record, recordOf string
	// HoldBudgets has the run fail where faults, calls, agents at rest or the making of a RedisCluster take longer than
	// they may (E2E_HOLD_BUDGETS=1).
	HoldBudgets bool
	// APIAway is how long the API server is away the first time; later 40 s at most (E2E_API_AWAY).
	APIAway time.Duration
	// ProcessKills is how often redis-server is killed under load (E2E_PROCESS_KILLS).
	ProcessKills int
	// parallel is how many tests run at the same time (E2E_PARALLEL).
	parallel string
	// NextVersion is the tag of a second build of the images agent and database-operator (E2E_NEXT_VERSION).
	NextVersion string
	// NextChartsDir is the folder of the charts that those of charts are upgraded to (E2E_NEXT_CHARTS).
	NextChartsDir string
	// KeepNamespaces leaves the namespaces of failed tests (E2E_KEEP=1).
	KeepNamespaces bool
}

func readSettings() (Settings, error) {
	root, err := ModuleRoot()
	if err != nil {
		return Settings{}, err
	}
	path := func(name, fallback string) string {
		value := os.Getenv(name)
		if value == "" {
			value = fallback
		}
		if filepath.IsAbs(value) {
			return value
		}
		return filepath.Join(root, value)
	}
	s := Settings{
		Kubeconfig:      os.Getenv("KUBECONFIG"),
		HelmPath:        path("HELM", "../bin/helm"),
		ChartsDir:       path("CHARTS", "../charts"),
		ValuesFile:      os.Getenv("E2E_VALUES"),
		RepositoryDir:   filepath.Dir(root),
		InstallOperator: os.Getenv("E2E_SKIP_INSTALL") != "1",
		HelmArgs:        strings.Fields(os.Getenv("E2E_HELM_ARGS")),
		parallel:        orDefault(os.Getenv("E2E_PARALLEL"), "4"),
		KeepNamespaces:  os.Getenv("E2E_KEEP") == "1",
		// A machine that is busy with other tests is no defect.
		HoldBudgets: os.Getenv("E2E_HOLD_BUDGETS") == "1",

		record:        os.Getenv("E2E_RECORD"),
		recordOf:      os.Getenv("E2E_RECORD_OF"),
		NextVersion:   os.Getenv("E2E_NEXT_VERSION"),
		NextChartsDir: os.Getenv("E2E_NEXT_CHARTS"),
	}
	if s.Kubeconfig == "" {
		return s, fmt.Errorf("cannot find a cluster: set KUBECONFIG, for example to the output of \"devcluster kubeconfig\"")
	}
	if _, err := os.Stat(s.HelmPath); err != nil {
		found, lookErr := exec.LookPath("helm")
		if lookErr != nil || os.Getenv("HELM") != "" {
			return s, fmt.Errorf("cannot find helm: build it with \"make -C hack/tools helm\" or set HELM: %w", err)
		}
		s.HelmPath = found
	}
	if os.Getenv("DEVCLUSTER") != "" {
		s.DevCluster = []string{path("DEVCLUSTER", "")}
		if name := os.Getenv("DEVCLUSTER_NAME"); name != "" {
			s.DevCluster = append(s.DevCluster, "--name", name)
		}
	}
	if s.Idle, err = time.ParseDuration(orDefault(os.Getenv("E2E_IDLE"), "60s")); err != nil {
		return s, fmt.Errorf("cannot read E2E_IDLE: %w", err)
	}
	if s.KillRounds, err = strconv.Atoi(orDefault(os.Getenv("E2E_KILL_ROUNDS"), "4")); err != nil {
		return s, fmt.Errorf("cannot read E2E_KILL_ROUNDS: %w", err)
	}
	if s.ProcessKills, err = strconv.Atoi(orDefault(os.Getenv("E2E_PROCESS_KILLS"), "3")); err != nil {
		return s, fmt.Errorf("cannot read E2E_PROCESS_KILLS: %w", err)
	}
	if s.FaultRounds, err = strconv.Atoi(orDefault(os.Getenv("E2E_FAULT_ROUNDS"), "1")); err != nil {
		return s, fmt.Errorf("cannot read E2E_FAULT_ROUNDS: %w", err)
	}
	if s.ComparisonRounds, err = strconv.Atoi(orDefault(os.Getenv("E2E_FAULT_ROUNDS"), "3")); err != nil {
		return s, fmt.Errorf("cannot read E2E_FAULT_ROUNDS: %w", err)
	}
	seed := orDefault(os.Getenv("E2E_SEED"), strconv.FormatUint(rand.Uint64(), 10))
	if s.Seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
		return s, fmt.Errorf("cannot read E2E_SEED: %w", err)
	}
	if s.APIAway, err = time.ParseDuration(orDefault(os.Getenv("E2E_API_AWAY"), DefaultAPIAway.String())); err != nil {
		return s, fmt.Errorf("cannot read E2E_API_AWAY: %w", err)
	}
	return s, nil
}

// ModuleRoot is the folder that relative paths start from: the nearest one with a go.mod, from the folder of the
// test's package upwards.
func ModuleRoot() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("cannot find the module of the tests: no go.mod in %q or above", here)
		}
	}
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
