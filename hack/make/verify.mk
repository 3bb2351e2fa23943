# SPDX-License-Identifier: Apache-2.0
#
# Style and structure.

.PHONY: lint
lint: tool-helm ## Formatting, vet, import law, sizes, package docs, plugins, charts
	@unformatted=$$(gofmt -l $(MODULES)); if [ -n "$$unformatted" ]; then echo "gofmt these files: $$unformatted" >&2; exit 1; fi
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build -o /dev/null ./... && GOWORK=off go vet ./... && GOWORK=off go vet -tags integration,devcluster,bench ./...) || exit 1; done
	@cd hack/checks && GOWORK=off go run . $(ROOT)
	@helm lint --quiet charts/*/
	@cd hack/generate && GOWORK=off go test -tags charts ./...
	@for d in */plugins/*/*; do \
	  (cd platform-core && GOWORK=off go run ./cmd/zictl plugin check ../$$d && GOWORK=off go run ./cmd/zictl plugin test ../$$d) || exit 1; done

.PHONY: lint-more
lint-more: tool-golangci-lint ## What golangci-lint finds beyond that; building it takes minutes
	@for m in $(MODULES); do echo "=== golangci-lint: $$m"; (cd $$m && GOWORK=off golangci-lint run ./...) || exit 1; done
