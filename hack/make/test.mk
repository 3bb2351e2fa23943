# SPDX-License-Identifier: Apache-2.0
#
# The levels of tests. `make test` is the gate: what proves a change in minutes. What takes longer has targets of its own, and
# `make test-all` runs everything.

GATE := $(BIN)/gate
GATE_SOURCES := $(shell find hack/gate -name '*.go' 2>/dev/null)

$(GATE): $(GATE_SOURCES)
	@mkdir -p $(BIN)
	@cd hack/gate && GOWORK=off go build -o $@ .

# The folder for the events of a target's tests: the gate names one.
EVENTS = $(or $(TEST_EVENTS),$(BIN)/test/$@)
# Runs tests and keeps their events in a file of that name: $(call TESTS,NAME) FLAGS PACKAGES.
TESTS = GOWORK=off gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary=skipped --jsonfile $(EVENTS)/$(1).json --

.PHONY: test
test: $(GATE) ## The gate: generated code, style, unit, integration and smoke tests
	@$(GATE) run deps verify-generated lint test-unit test-integration test-smoke

.PHONY: test-unit
test-unit: tool-gotestsum ## Unit and golden tests: nothing but Go is needed
	@hack/make/unit.sh $(EVENTS) platform-core $(filter-out platform-core,$(MODULES))

# Tests of the engine that kill it many times, make many objects, or take longer than people wait: test-fault-points runs them. The
# gate keeps one for each kind of work, such as TestCreateSurvivesTheEngine and TestBackupSurvivesTheEngine.
FAULT_POINTS_TESTS := ^Test(ARecordSurvivesAKillAfterEachWrite|ManyBackupsTakeTurns|OperationsSurviveKills|ChangesSurviveKills
FAULT_POINTS_TESTS := $(FAULT_POINTS_TESTS)|AFreezeDoesNotOutliveTheEngine|NobodyIsHeldUp|RestoreOfSetsSurvivesTheEngine
FAULT_POINTS_TESTS := $(FAULT_POINTS_TESTS)|RotationUnderPodsThatLogInAtEachOtherSurvivesTheEngine|AFailoverThatIsAskedForSurvivesKills
FAULT_POINTS_TESTS := $(FAULT_POINTS_TESTS)|OperationsSurviveTheEngine|SnapshotsSurviveKills|DrillSurvivesTheEngine
FAULT_POINTS_TESTS := $(FAULT_POINTS_TESTS)|RestoreInPlaceSurvivesTheEngine|AScheduleMakesItsOperationOnceWhateverCrashes
FAULT_POINTS_TESTS := $(FAULT_POINTS_TESTS)|ATakeoverSurvivesKills|FailoverGoesOnAfterEachWrite|CrashAnywhereInEachPod|RecordsCostNothing|Thousand)$$

.PHONY: test-integration
test-integration: deps-integration $(DEVCLUSTER) tool-helm tool-gotestsum ## Controllers, kinds and charts against a real API server and etcd
	@$(DEVCLUSTER) build
	@# API servers that are short of nothing but processor time collect garbage less often.
	@export KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin) GOGC=500 ALL=1 SKIP='$(FAULT_POINTS_TESTS)'; \
	hack/make/integration.sh $(EVENTS) $(OPERATORS)

# A cluster that a killed run has left is taken down first, unless KEEP asked for it.
.PHONY: test-smoke
test-smoke: deps deps-images ## One test per operator on a dev cluster of the essential parts (root)
	@if [ -z "$${KUBECONFIG:-}$${KEEP:-}" ] && [ -e /var/lib/zeroinfra/devcluster/smoke ]; then $(DEVCLUSTER) down --name smoke; fi
	@SMOKE_JSON=$(EVENTS)/smoke.json hack/cluster/smoke.sh

# The packages below a folder that have tests with a build tag.
TAGGED = { grep -rlE --include=*_test.go '^//go:build .*\b$(1)\b' . || true; } | xargs -r -n1 dirname | sort -u

.PHONY: test-processes
test-processes: deps deps-servers server-kafka server-mysql server-mysqlrouter tool-versitygw tool-minio tool-restic ## Drivers and agents against real servers, without a cluster (root)
	@failed=0; for m in $(MODULES); do packages=$$(cd $$m && $(call TAGGED,processes)); [ -n "$$packages" ] || continue; \
	  echo "=== processes: $$m"; (cd $$m && $(call TESTS,$${m//\//-}) -tags processes -count=1 -timeout 30m $$packages) || failed=1; done; exit $$failed

# The domains are the folders of test/e2e that hold tests of kinds.
DOMAINS = $(filter-out framework smoke testdata,$(patsubst test/e2e/%/,%,$(wildcard test/e2e/*/)))

.PHONY: test-domain
test-domain: ## Every kind of a domain on a dev cluster with add-ons: DOMAIN=database, or another folder of test/e2e (root)
	@case " $(DOMAINS) " in *" $(or $(DOMAIN),none) "*) ;; *) \
	  echo "there is no domain '$(DOMAIN)': run make test-domain DOMAIN=… with one of $(DOMAINS)" >&2; exit 1;; esac
	@$(MAKE) test-domain-$(DOMAIN)

test-domain-%: deps deps-images
	@DOMAIN=$* hack/cluster/e2e.sh -skip '$(NOT_IN_DOMAINS)'

.PHONY: test-race
test-race: $(DEVCLUSTER) tool-helm tool-gotestsum ## Unit and integration tests with the race detector (a C compiler; takes long)
	@command -v gcc >/dev/null || { echo "the race detector needs a C compiler: install gcc and libc6-dev" >&2; exit 1; }
	@$(DEVCLUSTER) build
	@export CGO_ENABLED=1 KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin) SKIP='$(FAULT_POINTS_TESTS)'; failed=0; \
	GOFLAGS="$$GOFLAGS -race" hack/make/unit.sh $(EVENTS)/unit platform-core $(filter-out platform-core,$(MODULES)) || failed=1; \
	RACE=1 hack/make/integration.sh $(EVENTS)/integration $(OPERATORS) || failed=1; exit $$failed

# Everything, with a summary of its own; of each fault one round, unless N says otherwise. It takes hours.
ALL := deps verify-generated lint test-unit test-integration test-smoke test-processes $(addprefix test-domain-,$(DOMAINS)) \
  test-long test-fault test-fault-points test-upgrade test-devcluster

.PHONY: test-all
test-all: $(GATE) ## All tests there are (root; hours)
	@export N=$${N:-1} AWAY=$${AWAY:-40s}; $(GATE) run --keep-going --summary $(BIN)/test-all-summary.json --logs $(BIN)/test-all $(ALL)

# No part of the gate: to compile two more API servers takes ten minutes of two cores when nothing is cached, and the
# tests then take three times as long. The packages, by module, are those whose work depends on the server: controllers,
# webhooks, watches, and the rules of definitions, policies and charts. What platform-core/internal/render asks is a scheduler,
# which comes with the cluster's own server alone.
VERSIONED := platform-core database-operator message-operator model-operator storage-operator test
VERSIONED_platform-core := ./internal/engine ./internal/admission ./internal/pki ./internal/secretwatch ./internal/controller/... ./sdk/...
VERSIONED_database-operator := ./api/... ./internal/...
VERSIONED_message-operator := ./api/... ./internal/...
VERSIONED_model-operator := ./api/... ./internal/...
VERSIONED_storage-operator := ./api/... ./internal/...
VERSIONED_test := ./chart/...
versioned = echo "=== integration: $(1), $$s API server"; \
  (cd $(1) && GOWORK=off go test -tags integration -count=1 -timeout 40m $(VERSIONED_$(1))) || failed=1;

.PHONY: test-api-versions
test-api-versions: $(DEVCLUSTER) tool-helm ## Controllers, definitions and charts against the oldest and the newest API server
	@{ failed=0; for s in oldest newest; do $(DEVCLUSTER) build --api-server $$s; \
	  export KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin --api-server $$s); $(foreach m,$(VERSIONED),$(call versioned,$(m))) \
	done; exit $$failed; }

# No part of the gate either: it makes clusters of its own, and ends and starts machines in them.
.PHONY: test-devcluster
test-devcluster: deps ## The dev cluster itself: clusters of its own, their volumes and add-ons, what ends and comes back (root)
	@cd hack/devcluster && $(call TESTS,devcluster) -tags devcluster -count=1 -timeout 60m .

# What the suites of domains leave to test-long: a second middleware, topology or TLS where one has shown the same, undoing and
# killing within what takes minutes, new versions of shipped plugins under load, of which test-unit shows what they restart and
# test-processes how real servers get from one major version to another, and what is restored, of which test-integration shows each
# step; what an instance's making writes, which `make bench` counts and holds to its budget; and the Operations on real middleware
# that nothing else runs, whose volumes grow when a kubelet looks at them.
empty :=
LONG_TESTS := PostgreSQLMajorUpgrade PostgreSQLMajorUpgradeIsUndone PostgreSQLMajorUpgradeToTheNewest OperatorKilledDuringMajorUpgrade \
  ShippedPluginUpgrade ShippedPluginUpgradeOfPostgreSQL PostgreSQLFailoverOfANode PostgreSQLVolumeFullOfLog PostgreSQLInSyncMembersLost \
  RedisClusterOverTLS TLSOfReplicas EtcdTLS ManyACLUsers ACLUsersOfAFailover RedisSentinel AgentsAtRest ObjectStoragePools \
  ObjectStorageReplication OperatorKilledDuringFailover FailoverOfANodeWithTheLeader OperatorKilledDuringCreation NginxTLS Pooler \
  RotationOfMembers RedisWithReplicas Restore EverythingIsGone RedisClusterRestore RedisClusterIsMadeInTime RedisClusterTo6AndBack \
  PostgreSQLPointInTime PostgreSQLDump PostgreSQLArchiveOnVolume RestoreDrill RestoreInPlace BackupsAsSnapshots BackupsInObjectStorage \
  BackupOfBuckets BackupOfFiles RedisClusterLife OperationsOfEachPlugin WritesOfOneCreation OperatorKilledDuringKafkaScaling \
  OperatorKilledDuringKafkaMigration KafkaIsMadeInTime \
  MySQLRouter MySQLFaults MySQLFailoverOfANode MySQLOperatorKilledDuringFailover MySQLOperatorKilledDuringCreation MySQLVolumeFull \
  MySQLClusterIsMadeInTime MySQLClusterPointInTime MySQLPointInTimeInBucket MySQLClusterOverTLS
# Tests of which only these subtests are long.
LONG_SUBTESTS := ^TestRedisParameters$$/^(alone|tls|sentinel)$$|^TestRedisCluster$$/^cluster:_a_shard_more,_and_then_not$$
LONG := ^Test($(subst $(empty) ,|,$(strip $(LONG_TESTS))))$$|$(LONG_SUBTESTS)
# Tests of other targets: test-smoke, test-upgrade, bench-bare, bench-topics, test-nfs.
NOT_IN_DOMAINS = $(LONG)|^TestSmoke|^Test(ChartUpgrade|BesideTheBareMechanism|ManyKafkaTopics|BackupOnNFS)$$

.PHONY: test-e2e
test-e2e: deps ## The suites of all domains in one, on one cluster (root)
	@hack/cluster/e2e.sh -skip '$(NOT_IN_DOMAINS)'

.PHONY: test-long
test-long: deps deps-images ## The end-to-end tests that the suites of domains have no time for
	@hack/cluster/e2e.sh -run '$(LONG)' -v

# No part of the others: the kernels of most build machines mount no NFS. `test-e2e` shows the server, and `test-integration` the volume.
.PHONY: test-nfs
test-nfs: deps ## A backup to NFS and back, on nodes whose kernel mounts it (root)
	@hack/make/packages.sh nfs-common
	@grep -qw nfs4 /proc/filesystems || modprobe nfsv4 2>/dev/null || { echo "the kernel of this machine mounts no NFS:" \
	  "/proc/filesystems has no nfs4, and there is no module nfsv4. Run it on a host that has one" >&2; exit 1; }
	@hack/cluster/e2e.sh -run '^TestBackupOnNFS$$' -v

# By default the commit before the last that changed a chart; any other commit or tag that the checkout has will do.
FORMER ?=

.PHONY: test-upgrade
test-upgrade: deps ## From the release of the commit FORMER to the present one by helm, on a cluster of its own: no pod restarts
	@FORMER='$(FORMER)' hack/cluster/upgrade.sh -v

# Rounds of test-fault (ROUNDS is its former name), how long the API server is away in the first of them, and the tests.
N ?= $(or $(ROUNDS),10)
AWAY ?= 10m
FAULT_TESTS := ProcessKilled RestartUnderLoad Failover FailoverOfANode FailoverOfANodeWithTheLeader OperatorKilledDuringFailover \
  PostgreSQLReplication PostgreSQLFailoverOfANode PostgreSQLInSyncMembersLost PostgreSQLVolumeFullOfLog RedisCluster \
  RedisClusterTo6AndBack RedisSentinel MySQLFaults MySQLFailoverOfANode MySQLOperatorKilledDuringFailover MySQLVolumeFull
FAULTS ?= ^Test($(subst $(empty) ,|,$(strip $(FAULT_TESTS))))$$

# A file that test-fault and bench-bare keep each trial in. The tables at the end have those of former runs, too: twenty rounds need
# not be made at once.
RECORD ?=
RECORDED = E2E_RECORD='$(abspath $(RECORD))' E2E_RECORD_OF="$$(git describe --always --dirty 2>/dev/null)"

.PHONY: test-fault
test-fault: deps deps-images ## N rounds of every fault and a table of them; fails over a budget (N=1 AWAY=40s, FAULTS='^TestRedisCluster$$' for less)
	@$(RECORDED) E2E_FAULT_ROUNDS=$(N) E2E_PARALLEL=1 E2E_HOLD_BUDGETS=1 E2E_API_AWAY=$(AWAY) E2E_TIMEOUT=$$((60 + 95 * $(N)))m \
	  hack/cluster/e2e.sh -run '$(FAULTS)' -v

# What the gate leaves out of the integration tests. FAULT_POINTS=all has an engine die after each write, and not after every third.
.PHONY: test-fault-points
test-fault-points: $(DEVCLUSTER) tool-gotestsum ## Engines that die amid changes, many times (root; FAULT_POINTS=all for each single write: takes hours)
	@$(DEVCLUSTER) build
	@export KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin) GOWORK=off; mkdir -p $(EVENTS); cd platform-core && \
	gotestsum --format testname --jsonfile $(EVENTS)/platform-core.json -- -tags integration -count=1 -timeout 4h -run '$(FAULT_POINTS_TESTS)' \
	  ./internal/engine ./internal/controller/... ./sdk/typed

# How long each target of fuzz gets, and which.
FUZZTIME ?= 1m
FUZZ ?= ^Fuzz

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME, one after the other (FUZZ='^FuzzCalls$$' for some)
	@failed=0; for m in $(MODULES); do cd $(CURDIR)/$$m; \
	for f in $$(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do \
	for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$f | grep -E '$(FUZZ)'); do echo "=== fuzz: $$m $$f $$name"; \
	  GOWORK=off go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$f) || failed=1; \
	done; done; done; exit $$failed
