#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# zookeeper-tool migrated|withdraw is for the migration of brokers from ZooKeeper to controllers:
#
#   migrated   waits until controllers have taken over the metadata
#   withdraw   once the controllers are gone: takes away what they have written of themselves, so that a broker becomes
#              the controller. What they have written of topics, users and the like stays
#
#   KAFKA_ZOOKEEPER     host:port of ZooKeeper
#   KAFKA_USERNAME      the user
#   KAFKA_PASSWORD      its password: letters, digits and -._~
#   KAFKA_TOOL_OPTIONS  in place of the user: options of Java that name a file to log in with
set -eu

if [ -z "${KAFKA_TOOL_OPTIONS:-}" ]; then
  umask 077
  login=$(mktemp)
  trap 'rm -f "$login"' EXIT
  echo "Client { org.apache.zookeeper.server.auth.DigestLoginModule required" \
    "username=\"$KAFKA_USERNAME\" password=\"$KAFKA_PASSWORD\"; };" >"$login"
  export KAFKA_TOOL_OPTIONS="-Djava.security.auth.login.config=$login"
fi
unset KAFKA_PASSWORD

# ask has ZooKeeper take commands, and prints what it says.
ask() { printf '%s\n' "$@" | kafka-run org.apache.zookeeper.ZooKeeperMain -waitforconnection -server "$KAFKA_ZOOKEEPER" 2>&1; }

case ${1:-} in
  migrated)
    # The offset up to which ZooKeeper has what controllers have written is there once they have read all.
    until said=$(ask "get /migration") && echo "$said" | grep -q '"kraft_metadata_offset":[1-9]'; do
      echo "zookeeper-tool: the controllers have not taken over yet: $(echo "$said" | tail -n 1)" >&2
      sleep 5
    done
    ;;
  withdraw)
    # The version of this node counts how often. Volumes of controllers that came before have no use any more.
    until said=$(ask "create /kafka-node withdrawn" "set /kafka-node withdrawn" "get -s /kafka-node") &&
      echo "$said" | grep -q '^dataVersion = [1-9]'; do
      echo "zookeeper-tool: ZooKeeper cannot be written to: $(echo "$said" | tail -n 1)" >&2
      sleep 2
    done
    # A broker that is the controller writes so of itself. The commands fail where there is nothing to delete.
    until said=$(ask "get /controller") && echo "$said" | grep -q '"kraftControllerEpoch":-1'; do
      echo "zookeeper-tool: no broker is the controller yet: $(echo "$said" | tail -n 1)" >&2
      ask "delete /controller" "delete /migration" >/dev/null || true
      sleep 2
    done
    ;;
  *)
    echo "zookeeper-tool: the word must be migrated or withdraw" >&2
    exit 2
    ;;
esac
