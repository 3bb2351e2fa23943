# SPDX-License-Identifier: Apache-2.0
#
# The levels of tests. `make test` runs all of them, cheapest first. A level tells of all its modules, also after one that failed.
# What would make it longer than people wait for has targets of its own: `test-long`, `test-nfs`, `test-fault`, `test-fault-points`, `fuzz`, `test-upgrade`,
# `test-api-versions`, `test-devcluster`.

# CI is told what fails in all levels, and not in the first alone: nobody is there to run the next one.
ifdef CI
MAKEFLAGS += --keep-going
endif

.PHONY: test
test: deps verify-generated lint test-unit test-integration test-e2e ## All levels of tests

# Ends a level's recipe: what failed is told once more at its end, where who is shown the end of a long log finds it.
TOLD = 2>&1 | { mkdir -p $(BIN); tee $(BIN)/$@.log; } || { echo "=== What failed in $@"; awk -f hack/make/failures.awk $(BIN)/$@.log; exit 1; }

# The module whose tests wait for downloads most of their time: they run beside those of all others.
LOADING := hack/images

# The tests of the module test read files of all others, which the cache of results does not look at: they are run each time.
.PHONY: test-unit
test-unit: ## Unit and golden tests: nothing but Go is needed
	@{ mkdir -p $(BIN); failed=0; (cd $(LOADING) && GOWORK=off go test -timeout 20m ./...) >$(BIN)/unit-loading.log 2>&1 & loading=$$!; \
	for m in $(filter-out test $(LOADING),$(MODULES)); do echo "=== unit: $$m"; (cd $$m && GOWORK=off go test -timeout 20m ./...) || failed=1; done; \
	echo "=== unit: test"; (cd test && GOWORK=off go test -count=1 ./unit/... ./bench/... ./cmd/...) || failed=1; \
	wait $$loading || failed=1; echo "=== unit: $(LOADING)"; cat $(BIN)/unit-loading.log; exit $$failed; } $(TOLD)

# The packages below a folder that have integration tests, if any; what the others test, test-unit has shown.
INTEGRATED := { grep -rl --include=*_test.go '^//go:build integration' . || true; } | xargs -r -n1 dirname | sort -u

# The package of platform-core whose tests take longer than all others: they run beside these.
LONGEST := ./internal/engine

.PHONY: test-integration
test-integration: $(DEVCLUSTER) tool-helm tool-versitygw tool-minio tool-restic ## Controllers and charts against a real API server and etcd, agents against an object storage, the dev cluster's driver (root)
	@$(DEVCLUSTER) build
	@{ export KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin) GOWORK=off; failed=0; \
	(cd platform-core && ../hack/make/halves.sh $(LONGEST) '^Test[A-L]' -tags integration) & longest=$$!; \
	for m in platform-core $(OPERATORS); do packages=$$(cd $$m && $(INTEGRATED) | { grep -vx $(LONGEST) || true; }); [ -n "$$packages" ] || continue; echo "=== integration: $$m"; \
	  (cd $$m && go test -p 1 -tags integration -count=1 -timeout 45m $$packages) || failed=1; done; \
	echo "=== integration: agents"; (cd agents && go test -tags integration -count=1 -run "S3|Storage|Bucket" ./internal/store ./internal/driver/minio ./cmd/agent-ops) || failed=1; \
	echo "=== integration: hack/csi"; (cd hack/csi && go test -tags integration -count=1 -run "^TestSanity$$" .) || failed=1; \
	echo "=== integration: test"; (cd test && go test -tags integration -count=1 ./chart/...) || failed=1; \
	echo "=== integration: platform-core, $(LONGEST)"; wait $$longest || failed=1; exit $$failed; } $(TOLD)

# No part of `make test`: to compile two more API servers takes ten minutes of two cores when nothing is cached, and the
# tests then take three times as long. The packages, by module, are those whose work depends on the server: controllers,
# webhooks, watches, and the rules of definitions, policies and charts. What platform-core/internal/render asks is a scheduler,
# which comes with the cluster's own server alone.
VERSIONED := platform-core database-operator storage-operator test
VERSIONED_platform-core := ./internal/engine ./internal/admission ./internal/pki ./internal/secretwatch ./internal/controller/... ./sdk/...
VERSIONED_database-operator := ./api/... ./internal/...
VERSIONED_storage-operator := ./api/... ./internal/...
VERSIONED_test := ./chart/...
versioned = echo "=== integration: $(1), $$s API server"; (cd $(1) && GOWORK=off go test -tags integration -count=1 -timeout 40m $(VERSIONED_$(1))) || failed=1;

.PHONY: test-api-versions
test-api-versions: $(DEVCLUSTER) tool-helm ## Controllers, definitions and charts against the oldest and the newest API server
	@{ failed=0; for s in oldest newest; do $(DEVCLUSTER) build --api-server $$s; \
	  export KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin --api-server $$s); $(foreach m,$(VERSIONED),$(call versioned,$(m))) \
	done; exit $$failed; } $(TOLD)

# No part of `make test` either: it makes clusters of its own, and ends and starts machines in them.
.PHONY: test-devcluster
test-devcluster: deps ## The dev cluster itself: clusters of its own, their volumes and add-ons, what ends and comes back (root)
	@cd hack/devcluster && GOWORK=off go test -tags devcluster -count=1 -timeout 60m -v .

# What test-e2e leaves to test-long: a second middleware, topology or TLS where one has shown the same, undoing and killing within what takes minutes, new
# versions of shipped plugins under load, of which test-unit shows what they restart and how real servers get from one major version to another, and what is
# restored, of which test-integration shows each step; what an instance's making writes, which `make bench` counts and holds to its budget;
# and the Operations on real middleware that nothing else runs, whose volumes grow when a kubelet looks at them.
LONG := ^Test(PostgreSQLMajorUpgrade|PostgreSQLMajorUpgradeIsUndone|PostgreSQLMajorUpgradeToTheNewest|OperatorKilledDuringMajorUpgrade|ShippedPluginUpgrade|ShippedPluginUpgradeOfPostgreSQL|PostgreSQLFailoverOfANode)$$
LONG := $(LONG)|^Test(PostgreSQLVolumeFullOfLog|PostgreSQLInSyncMembersLost|RedisClusterOverTLS|TLSOfReplicas|EtcdTLS|ManyACLUsers|ACLUsersOfAFailover|RedisSentinel|AgentsAtRest|ObjectStoragePools|ObjectStorageReplication|OperatorKilledDuringFailover|FailoverOfANodeWithTheLeader)$$
LONG := $(LONG)|^Test(OperatorKilledDuringCreation|NginxTLS|Pooler|RotationOfMembers|RedisWithReplicas|Restore|EverythingIsGone|RedisClusterRestore|RedisClusterIsMadeInTime|RedisClusterTo6AndBack|PostgreSQLPointInTime|PostgreSQLDump|PostgreSQLArchiveOnVolume|RestoreDrill|RestoreInPlace|BackupsAsSnapshots|BackupsInObjectStorage|BackupOfBuckets|BackupOfFiles|RedisClusterLife|OperationsOfEachPlugin)$$
LONG := $(LONG)|^TestWritesOfOneCreation$$|^TestRedisParameters$$/^(alone|tls|sentinel)$$|^TestRedisCluster$$/^cluster:_a_shard_more,_and_then_not$$

.PHONY: test-e2e
test-e2e: deps ## The suite on a real cluster with real middleware
	@hack/cluster/e2e.sh -skip '$(LONG)|^Test(ChartUpgrade|BesideTheBareMechanism|BackupOnNFS)$$' $(TOLD)

.PHONY: test-long
test-long: deps ## The end-to-end tests that `make test` has no time for
	@hack/cluster/e2e.sh -run '$(LONG)' -v

# No part of the others: the kernels of most build machines mount no NFS. `test-e2e` shows the server, and `test-integration` the volume.
.PHONY: test-nfs
test-nfs: deps ## A backup to NFS and back, on nodes whose kernel mounts it (root)
	@hack/make/packages.sh nfs-common
	@grep -qw nfs4 /proc/filesystems || modprobe nfsv4 2>/dev/null || { echo "the kernel of this machine mounts no NFS: /proc/filesystems has no nfs4, and there is no module nfsv4. Run it on a host that has one" >&2; exit 1; }
	@hack/cluster/e2e.sh -run '^TestBackupOnNFS$$' -v

# By default the commit before the last that changed a chart; any other commit or tag that the checkout has will do.
FORMER ?=

.PHONY: test-upgrade
test-upgrade: deps ## From the release of the commit FORMER to the present one by helm, on a cluster of its own: no pod restarts
	@FORMER='$(FORMER)' hack/cluster/upgrade.sh -v

# Rounds of test-fault (ROUNDS is its former name), how long the API server is away in the first of them, and the tests.
N ?= $(or $(ROUNDS),10)
AWAY ?= 10m
FAULTS ?= ^Test(ProcessKilled|RestartUnderLoad|Failover|FailoverOfANode|FailoverOfANodeWithTheLeader|OperatorKilledDuringFailover|PostgreSQLReplication|PostgreSQLFailoverOfANode|PostgreSQLInSyncMembersLost|PostgreSQLVolumeFullOfLog|RedisCluster|RedisClusterTo6AndBack|RedisSentinel)$$

# A file that test-fault and bench-bare keep each trial in. The tables at the end have those of former runs, too: twenty rounds need not be made at once.
RECORD ?=
RECORDED = E2E_RECORD='$(abspath $(RECORD))' E2E_RECORD_OF="$$(git describe --always --dirty 2>/dev/null)"

.PHONY: test-fault
test-fault: deps ## N rounds of every fault, alone on the cluster, and a table of them; fails when a budget is missed (N=1 AWAY=40s for less, FAULTS='^TestRedisCluster$$' for some, RECORD=file to go on with former rounds)
	@$(RECORDED) E2E_FAULT_ROUNDS=$(N) E2E_PARALLEL=1 E2E_HOLD_BUDGETS=1 E2E_API_AWAY=$(AWAY) E2E_TIMEOUT=$$((60 + 95 * $(N)))m hack/cluster/e2e.sh -run '$(FAULTS)' -v

# `make test` has engines die after every third write of what an instance goes through. This has one die after each of them.
.PHONY: test-fault-points
test-fault-points: $(DEVCLUSTER) ## An engine that dies after each single write of an instance's changes (root; takes long)
	@$(DEVCLUSTER) build
	@export KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin) FAULT_POINTS=all GOWORK=off; cd platform-core && \
	go test -tags integration -count=1 -timeout 4h -v -run '^Test(Changes|Operations)SurviveKills$$' ./internal/engine

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
