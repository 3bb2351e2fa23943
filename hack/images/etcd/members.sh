#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# etcd-members brings the members of a cluster to the pods that are to be members: "look" says what is to be done and
# changes nothing, "step" does it, for as long as its time allows. One runs at a time.
#
#   etcd-members look|step MEMBERS LEAVING FORMED
#
#   MEMBERS  pods that are to be members, as a JSON list of lists of names
#   LEAVING  pods that are to leave, as a JSON list of names
#   FORMED   true once all members were there: from then on none begins a cluster
#
# One step after the other: a pod is added as a learner, which counts for no majority; a learner that has the data is
# promoted; and once all pods that stay are members and serve, those that leave are removed, the leader after it has
# handed over. Each step is decided from what a majority of the members says, so that one that was cut off is found
# done or is taken again: etcd knows a member by its peer URL, and takes none twice. It also refuses, by itself, what
# would leave it without a majority (--strict-reconfig-check).
#
# lib.sh has the variables.
set -u
. "${MEMBER_LIB:-/usr/local/lib/etcd-members.sh}"

# words prints the names in a JSON list: names of pods need no quotes.
words() { printf '%s' "$1" | tr -d '[]" \n' | tr ',' ' '; }
mode=$1 staying=$(words "$2") leaving=$(words "$3") formed=$4
first=${staying%% *}

answer() {
  printf 'phase=%s\nreason=%s\n' "$1" "$2"
  exit 0
}

# stands prints "pod leads" or "pod follows" for each of the given pods whose member serves.
stands() {
  for pod; do
    (there "$pod" && ctl "$(client_url "$pod")" endpoint status --write-out=fields 2>/dev/null |
      tr -d '"' | awk -v pod="$pod" '
        $1 == "MemberID" { id = $3 "" }
        $1 == "Leader" { leader = $3 "" }
        END { if (leader != "" && leader != "0") print pod, (leader == id ? "leads" : "follows") }') &
  done
  wait
}

# among says whether the first word is one of the others.
among() { case " $2 " in *" $1 "*) return 0 ;; esac; return 1; }

# next sets "step" and "reason": what is to be done now. The step is a function below.
# shellcheck disable=SC2086
next() {
  if ! read_members $staying $leaving; then
    begins
    return
  fi
  standing=$(stands $staying $leaving)
  while IFS=, read -r id _ name peer _ learner; do
    [ "${learner# }" = true ] || continue
    pod=${peer#*://} pod=${pod%%.*}
    if among "$pod" "$leaving"; then
      step=remove reason="$pod, which was joining, is removed"
      return
    elif among "$pod" "$staying"; then
      step=promote reason="$pod joins, and copies the data of the others"
      [ -n "${name# }" ] || step=pause
      return
    fi
  done <<LIST
$list
LIST
  for pod in $staying; do
    id=$(field 1 4 "$(peer_url "$pod")")
    if [ -z "$id" ] && there "$pod"; then
      step=add reason="$pod is added"
      return
    elif [ -z "$id" ]; then
      step=pause reason="$pod is not there to be added"
      return
    fi
  done
  for pod in $staying; do
    printf '%s\n' "$standing" | grep -q "^$pod " && continue
    step=pause reason="the member of $pod does not serve"
    return
  done
  leaves
}

# begins: no majority answers. The first pod begins the cluster, unless there is one.
begins() {
  step=pause
  if [ "$formed" = true ]; then
    reason="no majority of the members serves: start the pods, or replace their data from a copy"
  elif [ "$MEMBER_NAME" != "$first" ]; then
    reason="$first has yet to begin the cluster"
  elif [ -e "$begin_mark" ] || [ -e "$begun_mark" ]; then
    reason="$first begins the cluster"
  else
    step=mark reason="$first begins the cluster"
  fi
}

# leaves: all pods that stay serve, so that each of those that leave can go.
leaves() {
  for pod in $leaving; do
    id=$(field 1 4 "$(peer_url "$pod")")
    [ -n "$id" ] || continue
    if printf '%s\n' "$standing" | grep -q "^$pod leads"; then
      step=hand_over reason="$pod, which leads, hands over to $first"
    else
      step=remove reason="$pod is removed"
    fi
    return
  done
  step='' reason="all pods are members"
}

mark() { : >"$begin_mark"; }
add() { ctl "$via" member add "$pod" --learner --peer-urls="$(peer_url "$pod")"; }
promote() { ctl "$via" member promote "$id"; }
hand_over() { ctl "$(client_url "$pod")" move-leader "$(field 1 4 "$(peer_url "$first")")"; }
remove() { ctl "$via" member remove "$id"; }

# It begins no other step after 40 s, and waits for the same thing five times.
until=$(($(date +%s) + 40)) waited=0 before=
while :; do
  next
  [ -n "$step" ] || answer Done "$reason"
  phase=Working
  [ "$step" != pause ] || phase=Waiting
  [ "$mode" = step ] || answer "$phase" "$reason"
  if [ "$step" = pause ]; then
    sleep 1
  elif said=$("$step" 2>&1); then
    say "$reason"
  else
    # A learner that has yet to copy data is refused here. The last line is etcd's.
    reason="$reason: $(printf '%s' "$said" | tail -n 1)"
    sleep 1
  fi
  [ "$reason" = "$before" ] && waited=$((waited + 1)) || waited=0
  before=$reason
  [ "$waited" -lt 5 ] && [ "$(date +%s)" -lt "$until" ] || answer "$phase" "$reason"
done
