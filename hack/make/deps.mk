# SPDX-License-Identifier: Apache-2.0
#
# What the other targets stand on: Debian packages, the pinned tools, the dev cluster's binary.

.PHONY: deps
deps: deps-packages $(DEVCLUSTER) tool-helm ## Install what is missing (says what)

.PHONY: deps-packages
deps-packages:
	@hack/make/packages.sh

# Debian packages of the servers that test-processes starts. Their services stay off.
SERVER_PACKAGES := debian-archive-keyring nginx-light pgbouncer postgresql redis-server xfsprogs

.PHONY: tools
tools: ## Build all pinned tools into bin/
	@$(MAKE) -C hack/tools tools

tool-%:
	@$(MAKE) -C hack/tools $*

DEVCLUSTER_SOURCES := $(shell find hack/devcluster -type f -not -path '*/testdata/*' 2>/dev/null)

$(DEVCLUSTER): $(DEVCLUSTER_SOURCES)
	@echo "building devcluster"
	@mkdir -p $(BIN)
	@cd hack/devcluster && GOWORK=off CGO_ENABLED=0 go build -trimpath -o $@ .
