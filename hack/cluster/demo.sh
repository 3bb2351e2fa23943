#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a bare machine to a Redis that answers, and back.
#
#   demo.sh up     cluster, images, chart, sample; writes and reads a key
#   demo.sh down   removes all of it
#
# KUBECONFIG and REGISTRY as in prepare.sh.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
. "$root/hack/cluster/prepare.sh"
cluster=zi
system=zeroinfra-system
namespace=demo
sample=database-operator/config/samples

chart_up() {
  say "Installing the database-operator"
  # The tag stays while the sources change: the digest has a new build rolled out.
  local build
  build=$(sha256sum dist/images/database-operator-*.tar | cut -c1-16)
  local values=(--set "image.tag=$version" --set "agentImage.tag=$version" --set-string "podAnnotations.build=$build")
  [ -z "${REGISTRY:-}" ] || values+=(--set "imageRegistry=$REGISTRY")
  if helm status database-operator -n "$system" -o json 2>/dev/null | grep -q '"status":"deployed"' && same_release; then
    echo "already installed, nothing to change"
  else
    helm upgrade --install database-operator charts/database-operator -n "$system" --create-namespace \
      --description "$(release_digest)" "${values[@]}" --wait --timeout 3m >/dev/null
  fi
  kubectl -n "$system" rollout status deployment/database-operator --timeout=120s
}

# release_digest is what the installed release is made from: chart and images.
release_digest() {
  { find charts/database-operator -type f -exec sha256sum {} + | sort; sha256sum dist/images/agent-*.tar dist/images/database-operator-*.tar; echo "${REGISTRY:-}"; } |
    sha256sum | cut -c1-64
}

same_release() {
  helm status database-operator -n "$system" -o json | grep -q "\"description\":\"$(release_digest)\""
}

sample_up() {
  say "Applying $sample"
  kubectl get namespace "$namespace" >/dev/null 2>&1 || kubectl create namespace "$namespace"
  kubectl -n "$namespace" apply -k "$sample"
  name=$(kubectl -n "$namespace" get redis -o jsonpath='{.items[0].metadata.name}')
  local shown="" now
  for _ in $(seq 600); do
    now=$(kubectl -n "$namespace" get redis "$name" -o jsonpath='{.status.phase}: {.status.conditions[?(@.type=="Ready")].message}')
    [ "$now" = "$shown" ] || printf '  %s  %s\n' "$(date +%T)" "$now"
    shown=$now
    case $now in Ready:*) return ;; esac
    kubectl -n "$namespace" wait --for=condition=Ready "redis/$name" --timeout=1s >/dev/null 2>&1 || true
  done
  echo "Redis $name did not become ready: see kubectl -n $namespace describe redis $name" >&2
  exit 1
}

use_it() {
  say "Writing and reading a key through the Service with redis-cli"
  local host secret value
  host=$(kubectl -n "$namespace" get redis "$name" -o jsonpath='{.status.endpoint}')
  secret=$(kubectl -n "$namespace" get redis "$name" -o jsonpath='{.status.bindingName}')
  kubectl -n "$namespace" apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: redis-client}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: client
    image: ${REGISTRY:+$REGISTRY/}zeroinfra/redis:7.0
    command: [sleep, infinity]
    env: [{name: REDISCLI_AUTH, valueFrom: {secretKeyRef: {name: $secret, key: password}}}]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
YAML
  kubectl -n "$namespace" wait --for=condition=Ready pod/redis-client --timeout=60s >/dev/null
  cli() { kubectl -n "$namespace" exec redis-client -- redis-cli -h "${host%:*}" -p "${host##*:}" "$@"; }
  echo "  redis-cli -h ${host%:*} SET greeting 'hello from zeroinfra'"
  cli SET greeting "hello from zeroinfra"
  echo "  redis-cli -h ${host%:*} GET greeting"
  value=$(cli GET greeting)
  echo "$value"
  [ "$value" = "hello from zeroinfra" ] || { echo "the value read back is not the one written" >&2; exit 1; }
}

show() {
  say "What there is now"
  kubectl get plugins
  kubectl -n "$namespace" get redis,applications,components,workloadsets,pods,pvc,services
  cat <<TEXT

Try next:
  export KUBECONFIG=$KUBECONFIG PATH=${kubernetes_bin:+$kubernetes_bin:}\$PWD/bin:\$PATH
  kubectl -n $namespace describe redis $name
  kubectl -n $namespace patch redis $name --type=merge -p '{"spec":{"parameters":{"maxclients":2000}}}'
  kubectl -n $namespace create -f database-operator/config/samples/operation_restart.yaml
  kubectl -n $namespace get operations -w
  kubectl -n $namespace delete pod $(kubectl -n "$namespace" get redis "$name" -o jsonpath='{.status.primary}')
  make demo-down
TEXT
}

case ${1:-} in
up)
  cluster_up "$cluster" 16443
  images_up "$cluster" agent database-operator redis
  chart_up
  sample_up
  use_it
  show
  ;;
down)
  if [ "$own_cluster" = yes ]; then
    say "Taking the dev cluster down"
    [ ! -x bin/devcluster ] || devcluster down --name "$cluster"
  else
    say "Removing the demo from the cluster of KUBECONFIG=$KUBECONFIG"
    kubectl delete namespace "$namespace" --ignore-not-found
    helm uninstall database-operator -n "$system" --ignore-not-found
  fi
  ;;
*)
  echo "usage: demo.sh up|down" >&2
  exit 2
  ;;
esac
