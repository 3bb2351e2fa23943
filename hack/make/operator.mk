# SPDX-License-Identifier: Apache-2.0
#
# What the Makefile of every operator does: kubebuilder's targets. Included from the
# operator's own folder; tools are pinned in hack/tools and built into bin/.

SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec

ROOT := $(abspath ..)
NAME := $(notdir $(CURDIR))
DOMAIN := $(patsubst %-operator,%,$(NAME))
BIN := $(ROOT)/bin
DIST := $(ROOT)/dist/$(NAME)
VERSION ?= $(shell cat $(ROOT)/VERSION)

# Image that docker-build makes, docker-push sends and deploy runs.
IMG ?= zeroinfra/$(NAME):$(VERSION)
# Image that the agents are copied from.
AGENT_IMG ?= zeroinfra/agent:$(VERSION)
# With an engine behind it docker-build uses it; else hack/images, which needs none.
CONTAINER_TOOL ?= docker
KUBECTL ?= kubectl

# The module builds alone, whatever the workspace holds.
export GOWORK := off
# The same as in the Makefile at the top, so that what one compiled serves the other.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

KINDS := $(wildcard internal)

.DEFAULT_GOAL := help

##@ General

.PHONY: help
help: ## Show the targets.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make \033[36mTARGET\033[0m\n"} \
		/^[a-zA-Z_-]+:.*?##/ {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2} \
		/^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: tool-%
tool-%:
	@$(MAKE) --no-print-directory -C $(ROOT)/hack/tools $*

##@ Development

.PHONY: manifests
manifests: tool-controller-gen ## Generate the CustomResourceDefinitions and the role of the kinds.
	go -C $(ROOT)/hack/generate run . crds $(NAME)
	$(if $(KINDS),$(BIN)/controller-gen rbac:roleName=manager-role paths=./internal/... output:rbac:dir=config/rbac)

.PHONY: generate
generate: tool-controller-gen ## Generate the DeepCopy methods and the accessors of statuses.
	go -C $(ROOT)/hack/generate run . accessors $(NAME)/api/v1
	$(BIN)/controller-gen object:headerFile=$(ROOT)/hack/make/header.go.txt paths=./api/...

.PHONY: fmt
fmt: ## Format the code.
	go fmt ./...

.PHONY: vet
vet: ## Vet the code.
	go vet ./...

.PHONY: test
test: manifests generate fmt vet ## Run the tests of this module.
	go test ./...

.PHONY: test-e2e
test-e2e: ## Run the end-to-end tests of this domain on a dev cluster (root).
	@if compgen -G '$(ROOT)/test/e2e/$(DOMAIN)/*_test.go' >/dev/null; then \
		$(MAKE) -C $(ROOT) test-domain DOMAIN=$(DOMAIN); \
	else \
		echo "the domain $(DOMAIN) has no end-to-end tests yet"; \
	fi

##@ Build

.PHONY: build
build: manifests generate fmt vet ## Build the manager into ../bin.
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/$(NAME) ./cmd

.PHONY: run
run: manifests generate fmt vet ## Run the manager here, against the cluster of your kubeconfig.
	go run -ldflags '-X main.version=$(VERSION)' ./cmd --namespace=$${POD_NAMESPACE:-default} --agent-image=$(AGENT_IMG) --install-crds --log-format=console

.PHONY: docker-build
docker-build: ## Build the image of the manager.
	@if $(CONTAINER_TOOL) info >/dev/null 2>&1; then \
		$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) --tag $(IMG) --file Dockerfile $(ROOT); \
	else \
		echo "$(CONTAINER_TOOL) has no engine: building with hack/images"; \
		go -C $(ROOT)/hack/images run . build $(NAME) --version $(VERSION) --out $(ROOT)/dist/images; \
	fi

.PHONY: docker-push
docker-push: tool-crane ## Push the image of the manager.
	@if $(CONTAINER_TOOL) info >/dev/null 2>&1; then \
		$(CONTAINER_TOOL) push $(IMG); \
	else \
		$(BIN)/crane push $(ROOT)/dist/images/$(NAME)-$(VERSION).tar $(IMG); \
	fi

.PHONY: build-installer
build-installer: overlay ## Write one YAML with all that deploy applies to ../dist.
	$(BIN)/kustomize build $(DIST)/deploy > $(DIST)/install.yaml
	@echo wrote $(DIST)/install.yaml

##@ Deployment

DEFINITIONS := --filename=$(ROOT)/platform-core/config/crd/bases $(if $(KINDS),--filename=config/crd/bases)

.PHONY: install
install: manifests ## Install the definitions (the manager does so by itself, unless told otherwise).
	$(KUBECTL) apply --server-side --force-conflicts $(DEFINITIONS)

.PHONY: uninstall
uninstall: ## Delete the definitions of this operator's kinds, and with them every object of them.
	$(if $(KINDS),$(KUBECTL) delete --ignore-not-found --filename=config/crd/bases,@echo $(NAME) has no kinds of its own)

.PHONY: deploy
deploy: overlay ## Deploy the manager with image IMG.
	$(BIN)/kustomize build $(DIST)/deploy | $(KUBECTL) apply --server-side --force-conflicts --filename=-

.PHONY: undeploy
undeploy: overlay ## Take the manager and its namespace away. Definitions, instances and their data stay.
	$(BIN)/kustomize build $(DIST)/deploy | $(KUBECTL) delete --ignore-not-found --filename=-

# config/ stays as it is: the images go into a folder of build results.
.PHONY: overlay
overlay: manifests tool-kustomize
	@mkdir -p $(DIST)/deploy
	@printf '%s\n' \
		'resources: [../../../$(NAME)/config/default]' \
		'images:' \
		'  - {name: controller, newName: "$(firstword $(call split,$(IMG)))", newTag: "$(lastword $(call split,$(IMG)))"}' \
		'patches:' \
		'  - target: {kind: Deployment}' \
		'    patch: |' \
		'      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --agent-image=$(AGENT_IMG)}' \
		> $(DIST)/deploy/kustomization.yaml

# split takes IMAGE:TAG apart at its last colon; a registry may hold one, with its port.
split = $(shell printf '%s' '$(1)' | sed -E 's/^(.*):([^:\/]+)$$/\1 \2/')
