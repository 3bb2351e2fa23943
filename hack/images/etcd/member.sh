#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# etcd-member starts etcd with the given arguments, and decides how its member joins:
#
# - With data, it starts again.
# - A pod without data waits to be added by etcd-members and joins as a learner, which copies the data of the others
#   and counts for no majority until it has them.
# - The cluster knows a member that has served by an ID that belongs to its data. A member whose data is lost is
#   removed, and joins as a new one ("Member lifecycle" in etcd's design documents). Likewise, the data of a member
#   that was removed, as by scaling in, is of no use to a member that is added later: it goes when the pod is added
#   again.
# - The cluster begins as one member, in the pod that etcd-members marks.
#
#   MEMBER_DATA  folder of the data
#   POD_IPS      addresses of the pod: with an IPv6 one among them it listens on all addresses of both families, in
#                place of IPv4's alone
#
# lib.sh has the other variables.
set -u
. "${MEMBER_LIB:-/usr/local/lib/etcd-members.sh}"

url=$(peer_url "$MEMBER_NAME")
joined="$MEMBER_DATA/joined-as"

# others are the pods that may be there beside this one. A set has ordinals beyond its number of pods where pods among
# them left.
others=
for ordinal in 0 1 2 3 4 5 6 7 8; do
  pod="${MEMBER_NAME%-*}-$ordinal"
  [ "$pod" = "$MEMBER_NAME" ] || others="$others $pod"
done

has_data() { [ -d "$MEMBER_DATA/member/wal" ]; }

# initial_cluster prints name=peer URL of each member with a name, and of this one.
initial_cluster() {
  printf '%s\n' "$list" | awk -F', *' -v name="$MEMBER_NAME" -v url="$url" '
    $3 != "" && $3 != name { printf "%s=%s,", $3, $4 }
    END { printf "%s=%s", name, url }'
}

alone() { exec etcd "$@" --initial-cluster="$MEMBER_NAME=$url" --initial-cluster-state=new; }

# waits says once what this pod waits for.
said=
waits() {
  [ "$said" = "$1" ] || say "$1"
  said=$1
  sleep 1
}

for argument; do
  shift
  case "${POD_IPS:-} $argument" in
    *:*" --listen-"*0.0.0.0*) argument="${argument%%0.0.0.0*}[::]${argument#*0.0.0.0}" ;;
  esac
  set -- "$@" "$argument"
done
# A pod that was cut off before it had data, or lost it, is to be told again.
has_data || rm -f "$begun_mark"
while :; do
  # What follows splits at blanks.
  # shellcheck disable=SC2086
  if ! read_members $others; then
    # With data, etcd takes no notice of --initial-cluster.
    if has_data; then
      alone "$@"
    elif mv "$begin_mark" "$begun_mark" 2>/dev/null; then
      say "this pod begins the cluster"
      alone "$@"
    fi
    waits "this pod has no data and no majority of the members serves: it waits for one, or to begin the cluster"
    continue
  fi
  id=$(field 1 4 "$url") name=$(field 3 4 "$url")
  if [ -z "$id" ]; then
    waits "this pod is no member: it waits to be added"
  elif has_data && { [ -n "$name" ] || [ "$id" = "$(cat "$joined" 2>/dev/null)" ]; }; then
    alone "$@"
  elif has_data; then
    say "the data is of a member that was removed from the cluster: this pod joins as member $id and copies it anew"
    rm -rf "$MEMBER_DATA/member"
  elif [ -n "$name" ]; then
    say "this member served as $id and its data is gone: it is removed, and waits to be added as a new one"
    ctl "$via" member remove "$id" >&2 || sleep 1
  else
    say "this pod joins the cluster as member $id and copies its data"
    mkdir -p "$MEMBER_DATA" && chmod 0700 "$MEMBER_DATA" && echo "$id" >"$joined" || exit 1
    exec etcd "$@" --initial-cluster="$(initial_cluster)" --initial-cluster-state=existing
  fi
done
