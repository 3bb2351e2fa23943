# SPDX-License-Identifier: Apache-2.0
#
# The levels of tests. `make test` runs all of them, cheapest first.

.PHONY: test
test: deps verify-generated lint test-unit test-integration test-e2e ## All tests

.PHONY: test-unit
test-unit: ## Unit and golden tests: nothing but Go is needed
	@for m in $(filter-out test,$(MODULES)); do echo "=== unit: $$m"; (cd $$m && GOWORK=off go test ./...) || exit 1; done
	@echo "=== unit: test"; cd test && GOWORK=off go test ./unit/... ./bench/... ./cmd/...

.PHONY: test-integration
test-integration: $(DEVCLUSTER) tool-helm ## Controllers and charts against a real API server and etcd
	@$(DEVCLUSTER) build
	@export KUBEBUILDER_ASSETS=$$($(DEVCLUSTER) bin); \
	for m in platform-core $(OPERATORS); do echo "=== integration: $$m"; \
	  (cd $$m && GOWORK=off go test -tags integration -count=1 ./...) || exit 1; done; \
	echo "=== integration: test"; cd test && GOWORK=off go test -tags integration -count=1 ./chart/...

.PHONY: test-e2e
test-e2e: deps ## The suite on a real cluster with real middleware
	@hack/cluster/e2e.sh
