# SPDX-License-Identifier: Apache-2.0
#
# Style and structure.

# All build tags of tests: one vet sees every file.
TAGS := integration,processes,devcluster,bench,charts
ZICTL := $(BIN)/zictl
LINTS := lint-format lint-code lint-rules lint-charts lint-plugins

.PHONY: lint $(LINTS)
lint: tool-helm ## Formatting, vet, import law, lengths of lines, functions and files, package docs, plugins, charts
	@$(MAKE) --keep-going $(LINTS)

lint-format:
	@unformatted=$$(gofmt -l $(MODULES)); if [ -n "$$unformatted" ]; then echo "gofmt these files: $$unformatted" >&2; exit 1; fi

# That everything compiles without tags is seen by listing it with what the compiler makes of it: unlike go build, that links nothing.
lint-code:
	@printf '%s\n' $(MODULES) | GOWORK=off xargs -P 2 -I{} sh -c \
	  'cd {} && { said=$$(go list -export ./... 2>&1 && go vet -tags $(TAGS) ./... 2>&1) || { printf "=== {}\n%s\n" "$$said" >&2; exit 1; }; }'

lint-rules:
	@cd hack/checks && GOWORK=off go run . $(ROOT)

lint-charts: tool-helm
	@helm lint --quiet charts/*/
	@cd hack/generate && GOWORK=off go test -tags charts ./...

# The test of a plugin checks it first.
lint-plugins:
	@cd platform-core && GOWORK=off go build -o $(ZICTL) ./cmd/zictl
	@printf '%s\n' */plugins/*/* | xargs -P 2 -I{} sh -c 'said=$$($(ZICTL) plugin test {} 2>&1) || { printf "=== {}\n%s\n" "$$said" >&2; exit 1; }'

.PHONY: lint-more
lint-more: tool-golangci-lint ## What golangci-lint finds beyond that; building it takes minutes
	@for m in $(MODULES); do echo "=== golangci-lint: $$m"; (cd $$m && GOWORK=off golangci-lint run ./...) || exit 1; done
