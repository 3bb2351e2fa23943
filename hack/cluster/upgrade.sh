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

# same_versions FORMER: fails unless this tree has each version of a plugin that the former release has, as it was. What was
# released under a version is in clusters, where its ConfigMaps cannot change: helm would refuse the present chart.
same_versions() {
  local part file
  for part in "$1/charts/$operator/plugins"/*.yaml; do
    file=charts/$operator/plugins/$(basename "$part")
    cmp -s "$part" "$root/$file" && continue
    echo "cannot upgrade: $file is not what commit $commit has. A version of a plugin stays as it was released: put its folder back as it was (git checkout $commit -- …), make a new version with the difference (docs/plugins.md, \"A version that says only what it changes\"), and run 'make generate'. If that commit was never released, set FORMER to the one that was last" >&2
    return 1
  done
}

commit=$(former_commit)
work=$(mktemp -d)
trap 'status=$?; rm -rf "$work"; cluster_end "$cluster" $status' EXIT
say "Upgrading from $(git -C "$root" log -1 --format='%h of %cs: %s' "$commit")"
mkdir -p "$work/former/bin"
git -C "$root" archive "$commit" | tar -x -C "$work/former"
same_versions "$work/former"

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
export CHARTS="$work/former/charts" E2E_HELM_ARGS="${former[*]}" E2E_NEXT_CHARTS="$root/charts" E2E_NEXT_VERSION="$present"
cd "$root/test"
# Only the package of the test: another one would install the former charts again.
go_test upgrade ./e2e/platform -count=1 -timeout 30m -run '^TestChartUpgrade$' "$@"
