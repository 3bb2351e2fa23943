# SPDX-License-Identifier: Apache-2.0
#
# Generated code and files. Everything generated is committed; `make verify-generated`
# fails when it is not up to date.

.PHONY: generate
generate: deps-packages tool-controller-gen tool-protoc-gen-go tool-protoc-gen-go-grpc ## Regenerate code, CRDs, RBAC and charts
	@echo "generating the agent protocol"
	@cd platform-core && protoc -I . --go_out=. --go_opt=module=github.com/zeroinfra/platform-core \
	  --go-grpc_out=. --go-grpc_opt=module=github.com/zeroinfra/platform-core agentproto/v1/agent.proto
	@$(MAKE) -C platform-core generate manifests CONTROLLER_GEN=$(BIN)/controller-gen
	@printf '%s\n' $(OPERATORS) | xargs -P 2 -I{} $(MAKE) -C {} generate manifests
	@cd hack/generate && GOWORK=off go run .

.PHONY: verify-generated
verify-generated: ## Fail when generated files are not up to date
	@before=$$(git status --porcelain; git diff | sha256sum); \
	$(MAKE) generate; \
	after=$$(git status --porcelain; git diff | sha256sum); \
	if [ "$$before" != "$$after" ]; then \
	  echo "generated files were not up to date; run 'make generate' and commit:" >&2; \
	  diff <(echo "$$before") <(echo "$$after") | sed -n 's/^> //p' >&2; exit 1; fi

# Where goldens of plugins are: those that are shipped, and those of the engine's tests.
GOLDENS = $(sort $(dir $(wildcard */plugins/*/*/testdata platform-core/internal/engine/testdata/plugins/*/*/testdata)))

.PHONY: goldens
goldens: ## Write the goldens of all plugins anew, as after a merge: read what differs before you commit it
	@cd platform-core && GOWORK=off go build -o $(ZICTL) ./cmd/zictl
	@printf '%s\n' $(GOLDENS) | xargs -P 2 -I{} sh -c 'said=$$($(ZICTL) plugin test --update {} 2>&1) || { printf "=== {}\n%s\n" "$$said" >&2; exit 1; }'

.PHONY: newkind
newkind: tool-controller-gen ## Write a typed kind: OPERATOR=database-operator KIND=Etcd PLUGIN=etcd; TOPOLOGY, PLURAL (docs/kinds/authoring.md)
	@cd hack/generate && GOWORK=off go run . newkind --topology '$(TOPOLOGY)' --plural '$(PLURAL)' '$(OPERATOR)' '$(KIND)' '$(PLUGIN)'
	@$(MAKE) -C $(OPERATOR) generate manifests
	@cd hack/generate && GOWORK=off go run . charts
