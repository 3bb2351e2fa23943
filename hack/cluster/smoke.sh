#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the smoke tests on a dev cluster of their own with the essential parts, which is taken down at the end (KEEP=1
# leaves it), or on the cluster of KUBECONFIG. Every operator is installed with production values. A test that fails is
# run once more, unless more than three fail. Arguments go to go test.
#
# SMOKE_JSON names the file with what "go test -json" says; bin/smoke.json by default.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/hack/cluster/prepare.sh"
cluster=smoke

images=(agent database-operator storage-operator message-operator model-operator common-operator batch-operator
  redis:7.0 redis:8.0 postgresql:17 mysql-lts:9.7 minio:2026.2 nginx:1.26 kafka:4.4 llama-cpp:0.7)

# What is being built ends before the cluster does.
trap 'status=$?; wait; cluster_end "$cluster" "$status"' EXIT

# A cluster waits for its parts while it starts, and images are built meanwhile.
images_build "${images[@]}" &
building=$!
# Production values have a NetworkPolicy: it has to be one that counts.
cluster_up "$cluster" 16446 --addon network-policies
wait "$building"
images_load "$cluster" "${images[@]}"
say "Running the smoke tests"
export HELM="$root/bin/helm" CHARTS="$root/charts" E2E_VALUES=values-production.yaml
# All of a package at once: they wait more than they compute.
export E2E_PARALLEL="${E2E_PARALLEL:-6}"
cd "$root/test"
# Each package has operators of its own, so several run side by side.
GOWORK=off gotestsum --format testname --rerun-fails=1 --rerun-fails-max-failures=3 --packages='./e2e/...' \
  --jsonfile "${SMOKE_JSON:-$root/bin/smoke.json}" -- -ldflags=-w -vet=off -p 3 -count=1 -timeout 25m -run '^TestSmoke' "$@"
