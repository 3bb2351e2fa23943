#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a bare machine to databases that answer, and back.
#
#   demo.sh up     cluster, images, chart, samples; writes to each of them and reads it back
#   demo.sh down   removes all of it
#
# An interrupted "up" ends what it has started; a cluster that was there before stays. KUBECONFIG and REGISTRY as in
# prepare.sh.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
. "$root/hack/cluster/prepare.sh"
cluster=zi
system=zeroinfra-system
namespace=demo
samples=database-operator/config/samples
operator_images=(agent database-operator)
# What the samples run: no other version is built and loaded.
sample_images=(redis:7.0 redis:8.0 postgresql:17 mysql-lts:9.7)
ready_within=900 # seconds

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

samples_up() {
  say "Applying $samples"
  kubectl get namespace "$namespace" >/dev/null 2>&1 || kubectl create namespace "$namespace"

  mapfile -t instances < <(kubectl -n "$namespace" apply -k "$samples" -o name | grep '\.database\.zeroinfra\.')
  printf '  %s\n' "${instances[@]}"
  local began=$SECONDS pending clients=no line object
  declare -A shown=()
  while ((SECONDS - began < ready_within)); do
    pending=()
    while IFS= read -r line; do
      object=${line%% *}
      [ "${shown[$object]:-}" = "$line" ] || printf '  %s  %s\n' "$(date +%T)" "$line"
      shown[$object]=$line
      case $line in "$object True "*) ;; *) pending+=("$object") ;; esac
    done < <(states)
    [ ${#shown[@]} -gt 0 ] || pending=("${instances[0]}")
    if [ $clients = no ] && bindings=$(binding_names); then
      clients_up
      clients=yes
    fi
    [ ${#pending[@]} -gt 0 ] || return 0
    kubectl -n "$namespace" wait --for=condition=Ready "${pending[0]}" --timeout=2s >/dev/null 2>&1 || true
  done
  echo "not ready after $ready_within s: ${pending[*]}. See kubectl -n $namespace describe ${pending[0]}" >&2
  return 1
}

# states prints a line per instance: kind/name, its condition Ready, its phase and the condition's message.
states() {
  local ready='.status.conditions[?(@.type=="Ready")]'
  each_instance "{$ready.status} {.status.phase}: {$ready.message}"
}

# binding_names prints "kind/name Secret" per instance, and fails while one has no binding Secret.
binding_names() {
  each_instance '{.status.bindingName}' | awk 'NF < 2 { missing = 1 } { print } END { exit missing }'
}

# each_instance prints a line per instance: kind/name and what the JSONPath template says.
each_instance() {
  kubectl -n "$namespace" get "${instances[@]}" -o jsonpath="{range .items[*]}{.kind}/{.metadata.name} $1{\"\\n\"}{end}"
}

# clients_up makes a pod each with redis-cli, psql and mysql. Each has all binding Secrets below /bindings.
clients_up() {
  local object secret mounts="" volumes=""
  while read -r object secret; do
    mounts+="{name: $secret, mountPath: /bindings/$object, readOnly: true}, "
    volumes+="{name: $secret, secret: {secretName: $secret}}, "
  done <<<"$bindings"
  local pod
  for pod in redis:7.0 postgresql:17 mysql:9.7; do
    cat <<YAML
---
apiVersion: v1
kind: Pod
metadata: {name: ${pod%:*}-client}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: client
    image: ${REGISTRY:+$REGISTRY/}zeroinfra/$pod
    command: [sleep, infinity]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts: [$mounts]
  volumes: [$volumes]
YAML
  done | kubectl -n "$namespace" apply -f - >/dev/null
}

use_them() {
  say "Writing to each through its Service, with its binding Secret, and reading it back"
  kubectl -n "$namespace" wait --for=condition=Ready pod/redis-client pod/postgresql-client pod/mysql-client --timeout=120s >/dev/null
  local object secret value want
  while read -r object secret; do
    want="hello from ${object#*/}"
    value=$(use_one "$object" "$want") || { echo "cannot use $object: $value" >&2; return 1; }
    printf '  %-24s %s\n' "$object" "$value"
    [ "$value" = "$want" ] || { echo "what was read from $object is not what was written: $want" >&2; return 1; }
  done <<<"$bindings"
}

# use_one KIND/NAME VALUE writes a value to an instance, reads it and prints what it has read.
use_one() {
  case ${1%%/*} in
  Redis) in_client redis "$redis_cli" "$1" "$2" ;;
  # Followed from shard to shard.
  RedisCluster) in_client redis "$redis_cli" "$1" "$2" -c ;;
  MySQL | MySQLCluster) in_client mysql "$mysql" "$1" "$2" ;;
  PostgreSQL) in_client postgresql "$psql" "$1" "$2" ;;
  *)
    echo "demo.sh knows no client of this kind" >&2
    return 1
    ;;
  esac
}

in_client() {
  local pod=$1 script=$2
  shift 2
  kubectl -n "$namespace" exec "$pod-client" -- sh -euc "$script" client "$@" </dev/null 2>&1
}

redis_cli='
binding=/bindings/$1 value=$2
shift 2
export REDISCLI_AUTH=$(cat "$binding/password")
cli() { redis-cli -h "$(cat "$binding/host")" -p "$(cat "$binding/port")" "$@"; }
cli "$@" SET greeting "$value" >/dev/null
cli "$@" GET greeting'

psql='
/usr/lib/postgresql/*/bin/psql -X -q -At -v ON_ERROR_STOP=1 -v "value=$2" "$(cat "/bindings/$1/uri")" <<SQL
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS greetings (id int PRIMARY KEY, greeting text);
INSERT INTO greetings VALUES (1, :'"'value'"') ON CONFLICT (id) DO UPDATE SET greeting = excluded.greeting;
SELECT greeting FROM greetings;
SQL'

mysql='
read_binding() { cat "/bindings/$1/$2"; }
export MYSQL_PWD=$(read_binding "$1" password)
mysql --no-defaults --get-server-public-key --host="$(read_binding "$1" host)" --port="$(read_binding "$1" port)" \
  --user="$(read_binding "$1" username)" --batch --skip-column-names "$(read_binding "$1" database)" <<SQL
CREATE TABLE IF NOT EXISTS greetings (id int PRIMARY KEY, greeting text);
REPLACE INTO greetings VALUES (1, "$2");
SELECT greeting FROM greetings;
SQL'

show() {
  say "What there is now"
  kubectl get plugins
  kubectl -n "$namespace" get redis,redisclusters,postgresqls,mysqls,mysqlclusters,pods,pvc,services
  cat <<TEXT

Try next:
  export KUBECONFIG=$KUBECONFIG PATH=${kubernetes_bin:+$kubernetes_bin:}\$PWD/bin:\$PATH
  kubectl -n $namespace describe redis sample
  kubectl -n $namespace patch redis sample --type=merge -p '{"spec":{"parameters":{"maxclients":2000}}}'
  kubectl -n $namespace create -f database-operator/config/samples/operation_restart.yaml
  kubectl -n $namespace get operations -w
  kubectl -n $namespace delete pod $(kubectl -n "$namespace" get redis sample -o jsonpath='{.status.primary}')
  make demo-down
TEXT
}

# demo_up does at the same time what need not wait for each other: images are built while the cluster starts, and those
# of the samples are loaded while the chart is installed.
demo_up() {
  set +m # what it starts stays in its process group
  images_build "${operator_images[@]}" "${sample_images[@]}" > >(sed -u 's/^/  images: /') 2>&1 &
  local building=$!
  cluster_up "$cluster" 16443
  wait "$building"
  images_load "$cluster" "${operator_images[@]}"
  images_load "$cluster" "${sample_images[@]}" > >(sed -u 's/^/  images: /') 2>&1 &
  local loading=$!
  chart_up
  wait "$loading"
  samples_up
  use_them
  show
}

# run_demo runs demo_up in a process group of its own, which is ended with this script.
run_demo() {
  local there=yes status=0 work
  devcluster kubeconfig --name "$cluster" >/dev/null 2>&1 || there=no
  set -m
  demo_up &
  work=$!
  set +m
  trap 'interrupted "$work" "$there"' INT TERM HUP
  wait "$work" || status=$?
  trap - INT TERM HUP
  kill -- "-$work" 2>/dev/null || true
  return "$status"
}

# interrupted WORK THERE ends the process group WORK and the cluster, unless that was there before.
interrupted() {
  trap '' INT TERM HUP
  echo "interrupted" >&2
  kill -- "-$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
  [ "$own_cluster" = no ] || [ "$2" = yes ] || devcluster down --name "$cluster"
  exit 130
}

case ${1:-} in
up) run_demo ;;
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
