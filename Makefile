# SPDX-License-Identifier: Apache-2.0
#
# `make help` lists the targets. Two of them do everything on a bare Debian machine:
# `make demo` shows the suite at work, `make test` proves it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

ROOT := $(CURDIR)
BIN := $(ROOT)/bin
VERSION := $(shell cat VERSION)
OPERATORS := database-operator storage-operator message-operator model-operator common-operator batch-operator
MODULES := platform-core agents $(OPERATORS) hack/checks hack/csi hack/devcluster hack/gate hack/generate hack/images hack/netpol test
DEVCLUSTER := $(BIN)/devcluster
export PATH := $(BIN):$(PATH)
# The same for tests and images, so that what one compiled serves the other.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath

include hack/make/deps.mk
include hack/make/generate.mk
include hack/make/verify.mk
include hack/make/test.mk
include hack/make/bench.mk

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: deps ## From a bare machine to databases that answer
	@hack/cluster/demo.sh up

.PHONY: demo-down
demo-down: ## Remove the demo and its cluster
	@hack/cluster/demo.sh down

.PHONY: build
build: ## Build every module, alone and in the workspace
	@for m in $(MODULES); do echo "build $$m"; (cd $$m && GOWORK=off go build ./...); done
	@go build $(addsuffix /...,$(addprefix ./,$(MODULES)))

.PHONY: images
images: deps-images ## Build the images into dist/images
	@cd hack/images && GOWORK=off go run . build --all --out $(ROOT)/dist/images

.PHONY: clean
clean: ## Remove what was built here (caches stay)
	rm -rf bin dist
