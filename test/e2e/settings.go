// SPDX-License-Identifier: Apache-2.0

package e2e

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
	operatorNamespace = "zeroinfra-system"
	operatorName      = "database-operator"
	// otherOperator is the second chart, for what the charts share.
	otherOperator = "message-operator"
	// storageOperator is the chart that brings the kind ObjectStorage.
	storageOperator = "storage-operator"
	// commonOperator is the chart that brings the plugin nginx.
	commonOperator = "common-operator"
	// redisImage holds the Redis client tools.
	redisImage = "zeroinfra/redis:7.0"
	// nfsImage holds a server of NFS, and a client in user space.
	nfsImage = "zeroinfra/nfs-ganesha:6.5"
)

// set is what the environment says, and world the cluster: the same for all tests, from TestMain.
var (
	set   settings
	world *cluster
)

// shortAway is how long the API server is away where nothing else is said: longer than any lease in the cluster.
const shortAway = 40 * time.Second

// settings are what the environment says.
type settings struct {
	// kubeconfig names the cluster (KUBECONFIG).
	kubeconfig string
	// helm is the helm program (HELM).
	helm string
	// charts is the folder of the charts (CHARTS).
	charts string
	// values is a file in the folder of each chart that is installed with it (E2E_VALUES); the chart's own values alone when it is empty.
	values string
	// repository is the folder that the operators are in, and samples that of the database operator's samples.
	repository string
	samples    string
	// devcluster is the devcluster program with its flags (DEVCLUSTER, DEVCLUSTER_NAME); empty when there is none.
	devcluster []string
	// install is false when E2E_SKIP_INSTALL=1.
	install bool
	// helmArgs are added to every installation (E2E_HELM_ARGS, split at blanks).
	helmArgs []string
	// idle is how long nothing may be written at rest (E2E_IDLE).
	idle time.Duration
	// killRounds is how often the operator is killed during a creation (E2E_KILL_ROUNDS).
	killRounds int
	// faultRounds is how often each fault of a primary is tried (E2E_FAULT_ROUNDS).
	faultRounds int
	// besideRounds is the same for faults that are tried on two sides (E2E_FAULT_ROUNDS, with another default).
	besideRounds int
	// seed is that of what is chosen at random (E2E_SEED); another one each time when that is not said.
	seed uint64
	// record is the file that trials of faults are kept in, beside those of former runs (E2E_RECORD); none when it is empty. recordOf is the version that
	// they are of (E2E_RECORD_OF).
	record, recordOf string
	// holdBudgets has the run fail where faults, calls, agents at rest or the making of a RedisCluster take longer than they may (E2E_HOLD_BUDGETS=1).
	holdBudgets bool
	// apiAway is how long the API server is away the first time; later 40 s at most (E2E_API_AWAY).
	apiAway time.Duration
	// processKills is how often redis-server is killed under load (E2E_PROCESS_KILLS).
	processKills int
	// parallel is how many tests run at the same time (E2E_PARALLEL).
	parallel string
	// nextVersion is the tag of a second build of the images agent and database-operator (E2E_NEXT_VERSION).
	nextVersion string
	// nextCharts is the folder of the charts that those of charts are upgraded to (E2E_NEXT_CHARTS).
	nextCharts string
	// keep leaves the namespaces of failed tests (E2E_KEEP=1).
	keep bool
}

func readSettings() (settings, error) {
	root, err := moduleRoot()
	if err != nil {
		return settings{}, err
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
	s := settings{
		kubeconfig: os.Getenv("KUBECONFIG"),
		helm:       path("HELM", "../bin/helm"),
		charts:     path("CHARTS", "../charts"),
		values:     os.Getenv("E2E_VALUES"),
		repository: filepath.Dir(root),
		samples:    filepath.Join(root, "../database-operator/config/samples"),
		install:    os.Getenv("E2E_SKIP_INSTALL") != "1",
		helmArgs:   strings.Fields(os.Getenv("E2E_HELM_ARGS")),
		parallel:   orDefault(os.Getenv("E2E_PARALLEL"), "4"),
		keep:       os.Getenv("E2E_KEEP") == "1",
		// A machine that is busy with other tests is no defect.
		holdBudgets: os.Getenv("E2E_HOLD_BUDGETS") == "1",

		record:      os.Getenv("E2E_RECORD"),
		recordOf:    os.Getenv("E2E_RECORD_OF"),
		nextVersion: os.Getenv("E2E_NEXT_VERSION"),
		nextCharts:  os.Getenv("E2E_NEXT_CHARTS"),
	}
	if s.kubeconfig == "" {
		return s, fmt.Errorf("cannot find a cluster: set KUBECONFIG, for example to the output of \"devcluster kubeconfig\"")
	}
	if _, err := os.Stat(s.helm); err != nil {
		found, lookErr := exec.LookPath("helm")
		if lookErr != nil || os.Getenv("HELM") != "" {
			return s, fmt.Errorf("cannot find helm: build it with \"make -C hack/tools helm\" or set HELM: %w", err)
		}
		s.helm = found
	}
	if os.Getenv("DEVCLUSTER") != "" {
		s.devcluster = []string{path("DEVCLUSTER", "")}
		if name := os.Getenv("DEVCLUSTER_NAME"); name != "" {
			s.devcluster = append(s.devcluster, "--name", name)
		}
	}
	if s.idle, err = time.ParseDuration(orDefault(os.Getenv("E2E_IDLE"), "60s")); err != nil {
		return s, fmt.Errorf("cannot read E2E_IDLE: %w", err)
	}
	if s.killRounds, err = strconv.Atoi(orDefault(os.Getenv("E2E_KILL_ROUNDS"), "4")); err != nil {
		return s, fmt.Errorf("cannot read E2E_KILL_ROUNDS: %w", err)
	}
	if s.processKills, err = strconv.Atoi(orDefault(os.Getenv("E2E_PROCESS_KILLS"), "3")); err != nil {
		return s, fmt.Errorf("cannot read E2E_PROCESS_KILLS: %w", err)
	}
	if s.faultRounds, err = strconv.Atoi(orDefault(os.Getenv("E2E_FAULT_ROUNDS"), "1")); err != nil {
		return s, fmt.Errorf("cannot read E2E_FAULT_ROUNDS: %w", err)
	}
	if s.besideRounds, err = strconv.Atoi(orDefault(os.Getenv("E2E_FAULT_ROUNDS"), "3")); err != nil {
		return s, fmt.Errorf("cannot read E2E_FAULT_ROUNDS: %w", err)
	}
	if s.seed, err = strconv.ParseUint(orDefault(os.Getenv("E2E_SEED"), strconv.FormatUint(rand.Uint64(), 10)), 10, 64); err != nil {
		return s, fmt.Errorf("cannot read E2E_SEED: %w", err)
	}
	if s.apiAway, err = time.ParseDuration(orDefault(os.Getenv("E2E_API_AWAY"), shortAway.String())); err != nil {
		return s, fmt.Errorf("cannot read E2E_API_AWAY: %w", err)
	}
	return s, nil
}

// moduleRoot is the folder that relative paths start from: the one above this package.
func moduleRoot() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.Dir(here), nil
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
