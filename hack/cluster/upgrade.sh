#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Upgrades a former release to the present one: operator, agents and chart are built from an earlier commit and installed
# on a dev cluster of their own, which is taken down at the end (KEEP=1 leaves it), or on the cluster of KUBECONFIG. Then
# a test makes instances and has helm upgrade to what is in this tree. Arguments go to go test.
#
# FORMER names the commit; by default it is the one before the last that changed a chart.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
. "$root/hack/cluster/prepare.sh"
cluster=upgrade
operator=database-operator

# former_commit prints the commit of the former release.
former_commit() {
  local name=${FORMER:-} changed
  if [ -z "$name" ]; then
    changed=$(git -C "$root" log -1 --first-parent --format=%H -- charts)
    name=$changed^
  fi
  git -C "$root" rev-parse --quiet --verify "$name^{commit}" || {
    echo "cannot upgrade from '$name': this checkout has no such commit; fetch more of the history, or set FORMER to a commit or tag that it has" >&2
    return 1
  }
}

# present_charts FORMER CHARTS: copies the charts of this tree. What has a version of a plugin is never another thing under
# that version once it was released. Before that it may be mended, and then a chart refuses to go on with what the former one
# left: so the copies have of each version that both know the former one's.
present_charts() {
  local part mine
  cp -R "$root/charts" "$2"
  for part in "$1/charts/$operator/plugins"/*.yaml; do
    mine=$2/$operator/plugins/$(basename "$part")
    if [ ! -e "$mine" ]; then
      echo "cannot upgrade: the present chart has no $(basename "$part"), which the former one has" >&2
      return 1
    fi
    cmp -s "$part" "$mine" && continue
    echo "the chart goes on with $(basename "$part") of the former one"
    cp "$part" "$mine"
  done
}

commit=$(former_commit)
work=$(mktemp -d)
trap 'status=$?; rm -rf "$work"; cluster_end "$cluster" $status' EXIT
say "Upgrading from $(git -C "$root" log -1 --format='%h of %cs: %s' "$commit")"
mkdir -p "$work/former/bin"
git -C "$root" archive "$commit" | tar -x -C "$work/former"
present_charts "$work/former" "$work/charts"

cluster_up "$cluster" 16445 --addon network-policies --addon cert-manager
present=$version
(
  # The former release is built by its own tools.
  cd "$work/former"
  root=$work/former version=$present-former PATH=$work/former/bin:$PATH
  images_up "$cluster" agent "$operator"
)
images_up "$cluster" agent "$operator" redis redis-exporter postgresql pgbouncer
say "Running the end-to-end test of the upgrade"
former=(--set "image.tag=$present-former" --set "agentImage.tag=$present-former")
export HELM="$root/bin/helm" DEVCLUSTER="$root/bin/devcluster" DEVCLUSTER_NAME="$cluster"
export CHARTS="$work/former/charts" E2E_HELM_ARGS="${former[*]}" E2E_NEXT_CHARTS="$work/charts" E2E_NEXT_VERSION="$present"
cd "$root/test"
GOWORK=off go test ./e2e/... -count=1 -timeout 30m -run '^TestChartUpgrade$' "$@"
