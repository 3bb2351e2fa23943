#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kafka-node [ARGUMENT]... formats the log directories of a Kafka node when they are empty, and becomes kafka.Kafka with
# the file KAFKA_CONFIG and the arguments. It is for KRaft with a dynamic quorum (KIP-853). Without process.roles in the
# file, which is a broker with ZooKeeper, it formats nothing: before the first start it writes to ZooKeeper what it would
# have formatted, which is the ID of the cluster and the SCRAM credential of the user by whom nodes log in. Where such a
# broker has followed controllers before, its copy of their records is deleted.
#
#   KAFKA_CONFIG               server.properties with lines name=value: node.id, process.roles, log.dirs,
#                              metadata.log.dir when it is not the first of log.dirs, and
#                              controller.quorum.bootstrap.servers
#   KAFKA_CLUSTER_ID           ID of the cluster: 22 characters of base64 for URLs, as kafka.tools.StorageTool
#                              random-uuid prints them
#   KAFKA_CLUSTER_NAME         in place of KAFKA_CLUSTER_ID: a text that the ID is derived from, as directory IDs are
#   KAFKA_INITIAL_CONTROLLERS  the controllers that form the cluster together: id@host:port, separated by spaces. It is
#                              the same for all nodes and never changes: a controller that is added later is not in it
#   KAFKA_FORMED               "true" once the cluster has had a leader with all initial controllers
#   KAFKA_FORMAT_OPTIONS       further options of StorageTool when the cluster is formed, such as --release-version 4.3,
#                              or @FILE with one word a line, such as --add-scram=SCRAM-SHA-512=[name=admin,password=…]
#   KAFKA_COMMAND_CONFIG       settings of a client of the controllers, such as those of TLS; empty without
#   KAFKA_BEGIN                a file: an initial controller with an empty metadata directory forms the cluster when that
#                              file is there, and until then only looks whether there is one; empty without. Once the
#                              node has formed it the file is called KAFKA_BEGIN.done: a disk that is lost later does not
#                              form another cluster
#   KAFKA_ZOOKEEPER            host:port of ZooKeeper. A broker without process.roles writes there; with process.roles it
#                              waits until controllers have taken over from there. A controller asks there whether its
#                              volume is of a migration that was taken back. Nothing of that where it is empty
#   KAFKA_SCRAM                file for ConfigCommand with the credential of the user KAFKA_USERNAME in ZooKeeper
#   KAFKA_TOOL_OPTIONS         options of Java by which tools log in at ZooKeeper
#   KAFKA_JOIN                 "false" leaves it to the operator to add this controller to the voters
#   KAFKA_JOIN_INTERVAL        seconds between two attempts to add it, or to find a leader; 5 without
#   KAFKA_METRICS              [host:]port of the Prometheus JMX agent; empty without
#   KAFKA_HEAP and others      see kafka-run
#
# SIGTERM stops a broker in an orderly way within seconds as long as the quorum has a leader. Without one Kafka waits
# for it, for up to five minutes: when all nodes stop together the last ones end by SIGKILL, and recover their logs at
# the next start.
#
# One of several directories that cannot be read or written is left out, as Kafka does itself: but for the metadata
# directory, without which no node starts.
#
# A directory with meta.properties is never formatted. One of another cluster, or of another node, ends the start with a
# sentence.
#
# The directory ID of an initial controller's metadata directory is derived, so that all initial controllers format with
# the same list: the first 128 bits of SHA-256 of "<cluster ID>/<node ID>", of which the first bit is cleared, in base64
# for URLs. Every other directory has a random ID.
#
# An initial controller with an empty metadata directory asks the other controllers for the leader of the quorum:
#
#   no leader, and KAFKA_FORMED is not "true"   it forms the cluster with the others, under its derived directory ID
#   no leader, and KAFKA_FORMED is "true"       it waits: it may have been the voter that had the latest records. When
#                                               no other controller comes back with its data, the cluster has to be
#                                               restored
#   a leader                                    it may have voted before, and must not vote again under that ID: it gets
#                                               a random one, and follows the quorum as an observer
#
# The question goes to the controller listeners and needs the right to alter the cluster. In Kafka 3.9 a controller that
# finds no leader for a minute at its start never registers (KAFKA-20247), and as the leader it is not found by clients:
# then this node waits, and a restart of the leader helps.
#
# A controller that is not an initial one is an observer at first as well. An observer becomes a voter as follows. With
# controller.quorum.auto.join.enable=true (from Kafka 4.2 on) the server itself removes the voter that has its node ID
# and adds itself. Without, a process beside the server does the same with MetadataQuorumCommand once the node has
# caught up, again after a restart; it needs about 100 MiB for some seconds. With KAFKA_JOIN=false it prints what it
# would do. Removing a controller for good is always left to the operator: remove-controller first, then its pod and its
# volume.
set -uf

say() { echo "kafka-node: $*" >&2; }
fail() {
  say "$*"
  exit 1
}

# property prints the value of a setting in file $2.
property() {
  name=$(echo "$1" | sed 's/\./\\./g')
  sed -n "s/^[[:space:]]*$name[[:space:]]*=[[:space:]]*//p" "$2" | sed 's/[[:space:]]*$//' | tail -n 1
}

# directory_id prints the ID that is derived for node $1.
directory_id() { derived_id "$KAFKA_CLUSTER_ID/$1"; }

# derived_id prints an ID that follows from text $1.
derived_id() {
  hex=$(printf '%s' "$1" | sha256sum | cut -c 1-32)
  hex=$((0x${hex%"${hex#?}"} & 7))${hex#?}
  bytes=
  while [ -n "$hex" ]; do
    bytes="$bytes\\$(printf %03o "0x${hex%"${hex#??}"}")"
    hex=${hex#??}
  done
  # shellcheck disable=SC2059
  printf "$bytes" | base64 | tr '+/' '-_' | tr -d '=\n'
}

# tool runs MetadataQuorumCommand against controllers $1 with the arguments, and writes what it prints to the file
# "said".
tool() {
  at=$1
  shift
  {
    [ -z "${KAFKA_COMMAND_CONFIG:-}" ] || cat "$KAFKA_COMMAND_CONFIG"
    printf '\nrequest.timeout.ms=%s000\ndefault.api.timeout.ms=%s000\n' $((patience / 2)) $patience
    # The node that is added is described by its own settings.
    [ "$1" != add-controller ] || cat "$KAFKA_CONFIG"
  } >"$scratch/client.properties"
  timeout $((patience + 60)) kafka-run org.apache.kafka.tools.MetadataQuorumCommand --bootstrap-controller "$at" \
    --command-config "$scratch/client.properties" "$@" >"$scratch/said" 2>&1
}

# commas joins lines.
commas() { tr '\n' ',' | sed 's/,$//'; }

# others prints the controllers but this one, separated by commas.
others() {
  for controller in $(property controller.quorum.bootstrap.servers "$KAFKA_CONFIG" | tr ',' ' '); do
    [ "$controller" = "$own" ] || echo "$controller"
  done | commas
}

# usable says whether a log directory can be read and written.
usable() {
  mkdir -p "$1" 2>/dev/null && touch "$1/$tried" 2>/dev/null && rm -f "$1/$tried" &&
    { [ ! -e "$1/meta.properties" ] || cat "$1/meta.properties" >/dev/null 2>&1; }
}

# format formats the directories that have no meta.properties, with these options. StorageTool formats none where one
# cannot be read: it is not told of those.
format() {
  settings=$KAFKA_CONFIG
  if [ "$sound" != "$directories" ]; then
    settings=$scratch/format.properties
    {
      grep -v '^[[:space:]]*log\.dirs[[:space:]]*=' "$KAFKA_CONFIG"
      echo "log.dirs=$(echo "$sound" | tr ' ' ',')"
    } >"$settings"
  fi
  kafka-run kafka.tools.StorageTool format --config "$settings" --cluster-id="$KAFKA_CLUSTER_ID" --ignore-formatted "$@" >&2 ||
    fail "the log directories of node $node cannot be formatted: see above"
}

# initial prints the list of all initial controllers with their directory IDs.
initial() {
  for controller in ${KAFKA_INITIAL_CONTROLLERS:-}; do
    echo "$controller:$(directory_id "${controller%%@*}")"
  done | commas
}

# begun keeps in mind that this node has formed the cluster.
begun() {
  [ ! -e "${KAFKA_BEGIN:-}" ] || mv "$KAFKA_BEGIN" "$KAFKA_BEGIN.done" || fail "file $KAFKA_BEGIN cannot be renamed"
}

# form_or_join formats the empty metadata directory of an initial controller.
form_or_join() {
  peers=$(others)
  while :; do
    if [ -n "${KAFKA_BEGIN:-}" ] && [ ! -e "$KAFKA_BEGIN.done" ]; then
      tries=0
      while [ $((tries += 1)) -le 300 ]; do
        [ ! -e "$KAFKA_BEGIN" ] || break 2
        sleep 0.1 &
        wait $!
      done
    fi
    if [ -n "$peers" ]; then
      # In the background, because a signal interrupts only a wait.
      tool "$peers" describe --status &
      if wait $!; then
        say "the metadata directory of controller $node is empty, and the cluster has a leader: it gets a new directory ID and joins"
        observe
        return
      fi
    fi
    [ "${KAFKA_FORMED:-}" = true ] || [ -n "${KAFKA_BEGIN:-}" ] || break
    say "the metadata directory of controller $node is empty, and no other controller knows a leader: waiting for one." \
      "Start the other controllers with their volumes, or restore the cluster from a backup"
    [ -z "$peers" ] || say "the answer of $peers: $(grep -v '^[[:space:]]*at ' "$scratch/said" | tail -n 1)"
    sleep "${KAFKA_JOIN_INTERVAL:-5}" &
    wait $!
  done
  # shellcheck disable=SC2086
  format --initial-controllers "$(initial)" ${KAFKA_FORMAT_OPTIONS:-}
  begun
}

# observe formats for a node that is no voter. The mark outlives a start that ends before the node is one.
observe() {
  mkdir -p "$metadata" && : >"$metadata/$mark" || fail "metadata directory $metadata cannot be written"
  format --no-initial-controllers
}

# join makes this controller a voter once it has caught up, for as long as process $1 runs.
join() {
  id=$(property directory.id "$metadata/meta.properties")
  servers=$(property controller.quorum.bootstrap.servers "$KAFKA_CONFIG")
  while sleep "${KAFKA_JOIN_INTERVAL:-5}" && kill -0 "$1" 2>/dev/null; do
    # Lines of NodeId, DirectoryId, LogEndOffset, Lag, LastFetchTimestamp, LastCaughtUpTimestamp, Status.
    tool "$servers" describe --replication || continue
    # It has caught up when it lacks no more than a hundred records: the leader adds some each second.
    state=$(awk -v node="$node" -v id="$id" '
      $1 == node && $2 == id { print ($7 != "Observer") ? "voter" : ($4 <= 100) ? "ready" : "behind" }' "$scratch/said")
    old=$(awk -v node="$node" -v id="$id" '$1 == node && $2 != id && $7 != "Observer" { print $2; exit }' "$scratch/said")
    case $state in
      voter)
        say "controller $node is a voter with directory ID $id"
        rm -f "$metadata/$mark"
        return
        ;;
      ready) ;;
      *) continue ;;
    esac
    if [ -n "$old" ]; then
      say "removing voter $node with directory ID $old, whose data is gone"
      tool "$servers" remove-controller --controller-id "$node" --controller-directory-id "$old" || tail -n 3 "$scratch/said" >&2
    else
      say "adding controller $node with directory ID $id to the voters"
      tool "$servers" add-controller || tail -n 3 "$scratch/said" >&2
    fi
  done
}

# enlist writes to ZooKeeper what a broker finds there, once for its volume. Other brokers do the same.
enlist() {
  [ -n "${KAFKA_ZOOKEEPER:-}" ] || return 0
  ls "${KAFKA_LIBS:-/opt/kafka/libs}" | grep -q '^zookeeper-[0-9]' || fail "this version of Kafka has no ZooKeeper: 3.9 is the last with it"
  [ ! -e "${directories%% *}/$enlisted" ] || return 0
  umask 077
  mkdir -p "${directories%% *}" || fail "log directory ${directories%% *} cannot be written"
  cluster
  printf 'create /cluster\ncreate /cluster/id {"version":"1","id":"%s"}\nget /cluster/id\n' "$KAFKA_CLUSTER_ID" |
    kafka-run org.apache.zookeeper.ZooKeeperMain -waitforconnection -server "$KAFKA_ZOOKEEPER" | grep -qF "\"$KAFKA_CLUSTER_ID\"" ||
    fail "ZooKeeper at $KAFKA_ZOOKEEPER has not taken the ID of the cluster, or is that of another one"
  kafka-run kafka.admin.ConfigCommand --zookeeper "$KAFKA_ZOOKEEPER" --alter --entity-type users --entity-name "$KAFKA_USERNAME" \
    --add-config-file "$KAFKA_SCRAM" >&2 || fail "ZooKeeper has not taken the credential of user $KAFKA_USERNAME: see above"
  : >"${directories%% *}/$enlisted"
}

# forget deletes what a broker has copied from controllers that it followed: it has its metadata from ZooKeeper again.
# Other controllers, of another attempt to leave it, number their records anew, and those of both would be mixed.
forget() {
  [ -n "${KAFKA_ZOOKEEPER:-}" ] || return 0
  rm -rf "${metadata:-${directories%% *}}/__cluster_metadata-0" || fail "the copy of the controllers' records cannot be deleted"
}

# attempt refuses a volume that has what controllers wrote in an attempt to leave ZooKeeper that was taken back since:
# ZooKeeper has gone on from there without them. zookeeper-tool counts the attempts by the version of a node.
attempt() {
  said=$(echo "get -s /kafka-node" | kafka-run org.apache.zookeeper.ZooKeeperMain -waitforconnection -server "$KAFKA_ZOOKEEPER" 2>&1)
  case $said in
    *'dataVersion = '*) now=$(echo "$said" | sed -n 's/^dataVersion = //p') ;;
    *'does not exist'* | *NoNode*) now=0 ;;
    *) fail "ZooKeeper at $KAFKA_ZOOKEEPER does not say whether the migration was taken back: $(echo "$said" | tail -n 1)" ;;
  esac
  if [ ! -e "$metadata/meta.properties" ]; then
    mkdir -p "$metadata" && echo "$now" >"$metadata/$attempted" || fail "metadata directory $metadata cannot be written"
  fi
  of=$(cat "$metadata/$attempted" 2>/dev/null)
  [ "$of" = "$now" ] ||
    fail "the volume of controller $node is of a migration that was taken back, and is out of date: delete its claim and its pod"
}

# cluster finds the ID of the cluster.
cluster() {
  if [ -z "${KAFKA_CLUSTER_ID:-}" ] && [ -n "${KAFKA_CLUSTER_NAME:-}" ]; then
    KAFKA_CLUSTER_ID=$(derived_id "$KAFKA_CLUSTER_NAME")
  fi
  case ${KAFKA_CLUSTER_ID:-} in
    *[!A-Za-z0-9_-]*) fail "KAFKA_CLUSTER_ID must be 22 characters of base64 for URLs, and is '$KAFKA_CLUSTER_ID'" ;;
    ??????????????????????) ;;
    *) fail "KAFKA_CLUSTER_ID must be 22 characters of base64 for URLs, and is '${KAFKA_CLUSTER_ID:-}'" ;;
  esac
}

# start becomes the server.
start() {
  if [ -n "${KAFKA_METRICS:-}" ]; then
    set +f
    for agent in "${KAFKA_LIBS:-/opt/kafka/libs}"/jmx_prometheus_javaagent-*.jar; do
      export KAFKA_JVM_OPTIONS="-javaagent:$agent=$KAFKA_METRICS:/etc/kafka/metrics.yaml ${KAFKA_JVM_OPTIONS:-}"
    done
  fi
  exec kafka-run kafka.Kafka "$KAFKA_CONFIG" "$@"
}

mark=kafka-node.joining
tried=kafka-node.tried
enlisted=kafka-node.enlisted
attempted=kafka-node.attempt
[ -r "${KAFKA_CONFIG:-}" ] || fail "KAFKA_CONFIG must name a file that can be read, and is '${KAFKA_CONFIG:-}'"
node=$(property node.id "$KAFKA_CONFIG")
roles=$(property process.roles "$KAFKA_CONFIG" | tr -d ' ')
directories=$(property log.dirs "$KAFKA_CONFIG" | tr ',' ' ')
metadata=$(property metadata.log.dir "$KAFKA_CONFIG")
[ -n "$directories" ] || [ -z "$roles${KAFKA_ZOOKEEPER:-}" ] || fail "log.dirs is not set in $KAFKA_CONFIG"
if [ -z "$roles" ]; then
  forget
  enlist
  start "$@"
fi
# A broker that had its metadata from ZooKeeper follows controllers once these have all of it.
case $roles in *controller*) ;; *)
  if [ -n "${KAFKA_ZOOKEEPER:-}" ] && [ -e "${directories%% *}/$enlisted" ]; then
    zookeeper-tool migrated || fail "nobody knows whether the controllers have taken over from ZooKeeper"
    rm -f "${directories%% *}/$enlisted"
  fi
  ;;
esac
metadata=${metadata:-${directories%% *}}
case $roles in *controller*) [ -z "${KAFKA_ZOOKEEPER:-}" ] || attempt ;; esac
cluster
umask 077
unformatted=
sound=
for directory in $directories; do
  if [ "$directory" != "$metadata" ] && ! usable "$directory"; then
    say "log directory $directory of node $node can be read or written no more: Kafka starts without it." \
      "Mend its volume, or empty it, and restart the node"
    continue
  fi
  sound="$sound${sound:+ }$directory"
done
for directory in $metadata $sound; do
  if [ ! -e "$directory/meta.properties" ]; then
    unformatted="$unformatted $directory"
    continue
  fi
  found=$(property cluster.id "$directory/meta.properties")
  [ "$found" = "$KAFKA_CLUSTER_ID" ] ||
    fail "$directory belongs to cluster $found and not to $KAFKA_CLUSTER_ID: mount a volume of this cluster, or empty this one"
  found=$(property node.id "$directory/meta.properties")
  [ "${found:-$node}" = "$node" ] ||
    fail "$directory belongs to node $found and not to $node: mount the volume of this node, or empty this one"
done
own=
for controller in ${KAFKA_INITIAL_CONTROLLERS:-}; do
  [ "${controller%%@*}" != "$node" ] || own=${controller#*@}
done
scratch=$(mktemp -d) || fail "no temporary folder can be made"
trap 'rm -rf "$scratch"' EXIT
trap 'kill "${!:-}" 2>/dev/null; exit 143' TERM INT
# Seconds for an answer about the quorum: a cluster that is being formed, where nobody answers, is not held up for long.
patience=10
[ "${KAFKA_FORMED:-}" != true ] || patience=30
case ,$roles, in *,controller,*) controller=true ;; *) controller=false ;; esac

if [ -e "$metadata/meta.properties" ]; then
  begun
  [ -z "$unformatted" ] || format --no-initial-controllers
elif [ $controller = false ]; then
  format --no-initial-controllers
elif [ -z "$own" ] || [ -e "$metadata/$mark" ]; then
  observe
else
  form_or_join
fi

joining=false
if [ -e "$metadata/$mark" ]; then
  if [ "$(property controller.quorum.auto.join.enable "$KAFKA_CONFIG")" = true ]; then
    rm -f "$metadata/$mark"
  elif [ "${KAFKA_JOIN:-}" = false ]; then
    say "controller $node is an observer with directory ID $(property directory.id "$metadata/meta.properties"): once it has caught up," \
      "run MetadataQuorumCommand remove-controller for a voter with its node ID and another directory ID, and add-controller"
    rm -f "$metadata/$mark"
  else
    (
      join $$
      rm -rf "$scratch"
    ) &
    joining=true
  fi
fi
[ $joining = true ] || rm -rf "$scratch"
trap - TERM INT
start "$@"
