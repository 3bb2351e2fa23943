#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Middleware for a pipeline, on the cluster of KUBECONFIG. Needs helm and kubectl.
#
#   run.sh up     installs the operators, applies the samples, waits until all are Ready, and runs clients
#   run.sh down   removes the samples with their data, and the operators
#
#   DOMAINS     operators to install, by domain (default: database); empty where the cluster has them already
#   REGISTRY    registry of the images, with a prefix if there is one; empty where the nodes have the images
#   NAMESPACE   namespace of the samples (default: ci); down deletes it
#   MANIFESTS   folder with a kustomization.yaml of the objects to apply (default: samples of the database-operator)
#   CLIENTS     file of the Jobs that use them (default: clients.yaml beside this file); empty for none
#   TIMEOUT     how long to wait for each step (default: 10m)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
system=zeroinfra-system
registry=${REGISTRY:-}
namespace=${NAMESPACE:-ci}
manifests=${MANIFESTS:-$root/database-operator/config/samples}
clients=${CLIENTS-$here/clients.yaml}
timeout=${TIMEOUT:-10m}
read -ra domains <<<"${DOMAINS-database}"

install_operators() {
  local values=() domain
  if [ -n "$registry" ]; then
    # The image of the operator, that of the agents, and those of the middleware.
    values=(--set "image.registry=$registry" --set "agentImage.registry=$registry" --set "imageRegistry=$registry")
  fi
  for domain in "${domains[@]}"; do
    helm upgrade --install "$domain-operator" "$root/charts/$domain-operator" --namespace "$system" --create-namespace \
      "${values[@]}" --wait --timeout "$timeout"
  done
}

# instances prints the objects of the suite among those of MANIFESTS; others, such as Secrets, have no condition Ready.
instances() {
  kubectl --namespace "$namespace" get --kustomize "$manifests" --output name | grep '\.zeroinfra\.github\.com/'
}

apply_and_wait() {
  local objects
  kubectl create namespace "$namespace" --dry-run=client --output yaml | kubectl apply --filename -
  kubectl --namespace "$namespace" apply --kustomize "$manifests"
  mapfile -t objects < <(instances)
  kubectl --namespace "$namespace" wait --for=condition=Ready "${objects[@]}" --timeout="$timeout"
}

use() {
  [ -n "$clients" ] || return 0
  # A Job cannot be changed: those of a former run go first.
  kubectl --namespace "$namespace" delete --filename "$clients" --ignore-not-found
  sed "s|image: zeroinfra/|image: ${registry:+$registry/}zeroinfra/|" "$clients" |
    kubectl --namespace "$namespace" apply --filename -
  kubectl --namespace "$namespace" wait --for=condition=Complete --filename "$clients" --timeout="$timeout"
}

# explain prints what a person needs to see when something did not become Ready.
explain() {
  local status=$? conditions='{range .status.conditions[*]}{"\n  "}{.type}={.status} {.reason}: {.message}{end}'
  [ "$status" = 0 ] || {
    kubectl --namespace "$system" get pods --output wide
    kubectl --namespace "$namespace" get zeroinfra,pods,jobs,persistentvolumeclaims --output wide
    kubectl --namespace "$namespace" get zeroinfra --output \
      "jsonpath={range .items[*]}{.kind}{' '}{.metadata.name}$conditions{'\n'}{end}"
    kubectl --namespace "$namespace" get events --field-selector type=Warning --sort-by .lastTimestamp
  } >&2 || true
  exit "$status"
}

case ${1:-} in
up)
  trap explain EXIT
  install_operators
  apply_and_wait
  use
  ;;
down)
  kubectl delete namespace "$namespace" --ignore-not-found --timeout="$timeout"
  for domain in "${domains[@]}"; do
    helm uninstall "$domain-operator" --namespace "$system" --ignore-not-found --wait --timeout "$timeout"
  done
  ;;
*)
  sed -n '4,15s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
