#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the end-to-end tests on a dev cluster of their own, which is taken down at the
# end (KEEP=1 leaves it), or on the cluster of KUBECONFIG. DOMAIN names a folder of test/e2e, for its tests alone. Arguments
# go to go test.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/hack/cluster/prepare.sh"
cluster=e2e

trap 'cluster_end "$cluster" $?' EXIT

addons=network-policies,cert-manager,metrics,snapshots,local-path
# A Gateway splits requests between the versions of a model, and takes long to compile.
case ${DOMAIN:-model} in model) addons+=,gateway ;; esac
cluster_up "$cluster" 16444 --addon "$addons"
# A second build of what an upgrade changes.
export E2E_NEXT_VERSION="$version-next"
version=$E2E_NEXT_VERSION images_up "$cluster" agent database-operator
images_up "$cluster" agent database-operator storage-operator message-operator model-operator batch-operator common-operator redis redis-exporter postgresql postgresql-upgrade pgbouncer mysql mysql-lts mysql-router etcd nginx minio s3-external nfs-ganesha kafka:3.9 kafka:4.3 kafka:4.4 llama-cpp:0.7 onnxruntime
say "Running the end-to-end tests"
export HELM="$root/bin/helm" DEVCLUSTER="$root/bin/devcluster" DEVCLUSTER_NAME="$cluster" CHARTS="$root/charts"
cd "$root/test"
# The packages share the cluster, so one runs after the other.
go_test e2e "./e2e/${DOMAIN:+$DOMAIN/}..." -p 1 -count=1 -timeout "${E2E_TIMEOUT:-150m}" "$@"
