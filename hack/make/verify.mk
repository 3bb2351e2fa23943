# SPDX-License-Identifier: Apache-2.0
#
# Style and structure.

# All build tags of tests: one vet sees every file.
TAGS := integration,processes,devcluster,bench,charts
ZICTL := $(BIN)/zictl

.PHONY: lint
lint: tool-helm ## Formatting, vet, import law, sizes, package docs, plugins, charts
	@unformatted=$$(gofmt -l $(MODULES)); if [ -n "$$unformatted" ]; then echo "gofmt these files: $$unformatted" >&2; exit 1; fi
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build -o /dev/null ./... && GOWORK=off go vet -tags $(TAGS) ./...) || exit 1; done
	@cd hack/checks && GOWORK=off go run . $(ROOT)
	@helm lint --quiet charts/*/
	@cd hack/generate && GOWORK=off go test -tags charts ./...
	@cd platform-core && GOWORK=off go build -o $(ZICTL) ./cmd/zictl
	@for d in */plugins/*/*; do $(ZICTL) plugin check $$d && $(ZICTL) plugin test $$d || exit 1; done

.PHONY: lint-more
lint-more: tool-golangci-lint ## What golangci-lint finds beyond that; building it takes minutes
	@for m in $(MODULES); do echo "=== golangci-lint: $$m"; (cd $$m && GOWORK=off golangci-lint run ./...) || exit 1; done
