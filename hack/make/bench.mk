# SPDX-License-Identifier: Apache-2.0
#
# The budgets of 1,000 Applications, measured on simulated nodes. See docs/bench.

# Numbers of Applications, separated by commas; a run for each.
BENCH_N ?= 100,1000
# Where results are written; those in docs/bench are committed.
BENCH_OUT ?= $(ROOT)/docs/bench
BENCH_FLAGS ?=
BENCH_BIN := $(BIN)/bench

.PHONY: bench
bench: deps tool-kwok ## Measure 100 and 1,000 Applications on simulated nodes (root; BENCH_N=100 for less)
	@$(DEVCLUSTER) build >/dev/null
	@mkdir -p $(BENCH_BIN)
	@cd database-operator && GOWORK=off go build -o $(BENCH_BIN)/database-operator ./cmd
	@cd platform-core && GOWORK=off go build -o $(BENCH_BIN)/zictl ./cmd/zictl
	@cd test && GOWORK=off go build -o $(BENCH_BIN)/bench ./cmd/bench
	@cd test && $(BENCH_BIN)/bench -sizes $(BENCH_N) -out $(BENCH_OUT) -assets "$$($(DEVCLUSTER) bin)" -kwok $(BIN)/kwok \
	  -operator $(BENCH_BIN)/database-operator -zictl $(BENCH_BIN)/zictl \
	  -commit "$$(git -C $(ROOT) describe --always --dirty)" $(BENCH_FLAGS)

.PHONY: bench-records
bench-records: $(DEVCLUSTER) ## Measure an operator beside 10,000 Operations that have ended, and fail if it looks at them again
	@$(DEVCLUSTER) build >/dev/null
	@cd platform-core && KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin) GOWORK=off go test -tags integration -timeout 30m ./internal/controller/operation \
	  -run '^$$' -bench '^BenchmarkRecords$$' -benchtime 1x

# How many objects bench-workflows and bench-cronjobs make, and in how many minutes the CronJobs are due.
BENCH_WORKFLOWS ?= 2000
BENCH_CRONJOBS ?= 20000
BENCH_MINUTES ?= 1

# What bench-workflows and bench-cronjobs have in common: $(call bench-batch,NAME,BENCHMARK).
define bench-batch
	@$(DEVCLUSTER) build >/dev/null
	@mkdir -p $(BENCH_BIN)
	@cd test && GOWORK=off go build -o $(BENCH_BIN)/bench ./cmd/bench
	@load=$$(cut -d ' ' -f 1 /proc/loadavg) && \
	  (cd batch-operator && BENCH_RESULT=$(BENCH_BIN)/$(1).json BENCH_WORKFLOWS=$(BENCH_WORKFLOWS) BENCH_CRONJOBS=$(BENCH_CRONJOBS) BENCH_MINUTES=$(BENCH_MINUTES) \
	    KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin) GOWORK=off go test -tags integration -timeout 60m ./internal/workflow \
	    -run '^$$' -bench '^$(2)$$' -benchtime 1x) && \
	  cd test && $(BENCH_BIN)/bench -$(1) $(BENCH_BIN)/$(1).json -out $(BENCH_OUT) -assets "$$($(DEVCLUSTER) bin)" -load "$$load" \
	    -commit "$$(git -C $(ROOT) describe --always --dirty)"
endef

.PHONY: bench-workflows
bench-workflows: $(DEVCLUSTER) ## Measure how many Workflows of one pod an operator ends in a minute where pods take no time, and what each costs; results into docs/bench (BENCH_WORKFLOWS=200 for less)
	$(call bench-batch,workflows,BenchmarkWorkflows)

.PHONY: bench-cronjobs
bench-cronjobs: $(DEVCLUSTER) ## Measure how late runs of CronJobs begin that are due in one minute, and what each costs; results into docs/bench (BENCH_CRONJOBS=500 for less, BENCH_MINUTES=10 for a spread)
	$(call bench-batch,cronjobs,BenchmarkCronJobs)

.PHONY: bench-agents
bench-agents: deps ## Measure agents on a dev cluster: round trip of calls, memory and CPU at rest; fails when a budget is missed (root)
	@E2E_HOLD_BUDGETS=1 hack/cluster/e2e.sh -run '^TestAgent(Calls|sAtRest)$$' -v

.PHONY: bench-making
bench-making: deps deps-images ## Measure how long a RedisCluster, a MySQLCluster, a Kafka and an Inference take from apply to use, beside bare pods; the first fails over 1.5 times as long, the Kafka over 1.3, the Inference over 1.2 (root)
	@E2E_HOLD_BUDGETS=1 hack/cluster/e2e.sh -run '^Test((RedisCluster|MySQLCluster|Kafka)IsMadeInTime|InferenceBesideADeployment)$$' -v

.PHONY: bench-topics
bench-topics: deps deps-images ## Measure how long 10,000 KafkaTopics take until all are Ready; fails over 180 s, or over 400 MiB of the operator (root)
	@E2E_HOLD_BUDGETS=1 hack/cluster/e2e.sh -run '^TestManyKafkaTopics$$' -v

# Rounds of bench-bare: a p95 is the longest gap of fewer than twenty.
BARE_ROUNDS ?= 3

.PHONY: bench-bare
bench-bare: deps ## Measure gaps beside plain Redis Cluster and Sentinel; fails when a write is lost on our side (root; BARE_ROUNDS=20 for a p95, RECORD=file to go on with former rounds)
	@$(RECORDED) E2E_FAULT_ROUNDS=$(BARE_ROUNDS) E2E_TIMEOUT=$$((60 + 20 * $(BARE_ROUNDS)))m hack/cluster/e2e.sh -run '^TestBesideTheBareMechanism$$' -v

# How much data bench-backup keeps, in GiB, and how often. It needs four times as much room in the folder for temporary files.
BACKUP_GIB ?= 5
BACKUP_ROUNDS ?= 3

.PHONY: bench-backup
bench-backup: deps deps-servers tool-versitygw tool-restic ## Measure a backup of 5 GiB beside pg_basebackup and an upload, and one of files beside restic alone; fails under 0.8 times their speed or over 256 MiB
	@cd agents && BACKUP_GIB=$(BACKUP_GIB) BACKUP_ROUNDS=$(BACKUP_ROUNDS) GOWORK=off go test -tags processes,bench -count=1 -timeout 60m -v -run '^TestThroughput' ./cmd/agent-ops

.PHONY: test-many-tasks
test-many-tasks: $(DEVCLUSTER) ## Run 5,000 tasks in a model and against an API server, with the controller killed all along (tens of minutes)
	@$(DEVCLUSTER) build >/dev/null
	@cd platform-core && MANY_ITEMS=1000 GOWORK=off go test -count=1 -timeout 60m -v -run '^TestManyTasksEndAsTheModelSays$$' ./internal/opsflow
	@cd batch-operator && WORKFLOW_ITEMS=1000 WORKFLOW_KILLS=50 WORKFLOW_RESUMES=10 KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin) GOWORK=off \
	  go test -tags integration -count=1 -timeout 120m -v \
	  -run '^Test(ManyTasksEndAsTheModelSays|NextOperatorGoesOnOnceTheLeaseHasRunOut)$$' ./internal/workflow
