// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kafkaNamespace gives the rest of the command line a loopback, a process table and mounts of its own, below the root
// $1.
const kafkaNamespace = `mount --bind /dev "$1/dev" && mount -t proc proc "$1/proc" &&
chroot "$1" busybox ip link set lo up && exec chroot --userspec=999:999 "$@"`

// kafkaScript runs three brokers that are controllers as well, has one lose its volume, and writes a line for what it
// sees.
const kafkaScript = `
PATH=/usr/local/bin:$PATH
export KAFKA_CLUSTER_ID=4L6g3nShT-eMCtK--X86sw KAFKA_JVM_OPTIONS=-XX:TieredStopAtLevel=1
export KAFKA_INITIAL_CONTROLLERS="1@127.0.0.1:9193 2@127.0.0.1:9293 3@127.0.0.1:9393"
TOOLS=org.apache.kafka.tools
say() { echo "$*" >>/tmp/said; }
fail() {
  echo "$*"; ps -o pid,stat,args | cut -c 1-60
  for i in 1 2 3; do echo "node $i:"; grep -v GroupMetadataManager /data/$i.log | tail -n 20; done
  exit 1
}
# until_ waits until a command succeeds.
until_() {
  n=0
  until "$@" >/tmp/last 2>&1; do n=$((n+1)); [ $n -lt 300 ] || fail "waited for $*: $(cat /tmp/last)"; sleep 1; done
}
node() {
  cat >/data/$1.properties <<END
process.roles=broker,controller
node.id=$1
controller.quorum.bootstrap.servers=127.0.0.1:9193,127.0.0.1:9293,127.0.0.1:9393
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT
listeners=INTERNAL://127.0.0.1:9${1}92,CONTROLLER://127.0.0.1:9${1}93
advertised.listeners=INTERNAL://127.0.0.1:9${1}92,CONTROLLER://127.0.0.1:9${1}93
inter.broker.listener.name=INTERNAL
log.dirs=/data/$1/log
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
$SETTINGS
END
  KAFKA_CONFIG=/data/$1.properties KAFKA_METRICS=127.0.0.1:9${1}04 kafka-node >>/data/$1.log 2>&1 &
  eval "pid$1=$!"
}
started() { until_ grep -q "Kafka Server started" /data/$1.log; }
quorum() { kafka-run $TOOLS.MetadataQuorumCommand --bootstrap-controller 127.0.0.1:9193 describe --replication; }
topic() { kafka-run $TOOLS.TopicCommand --bootstrap-server 127.0.0.1:9192 --topic t "$@"; }
directory() { sed -n 's/^directory.id=//p' /data/$1/log/meta.properties; }
voters() {
  quorum >/tmp/quorum && [ "$(grep -c -E 'Leader|Follower' /tmp/quorum)" = 3 ] &&
    grep -q "^3.*$(directory 3).*Follower" /tmp/quorum
}
synced() { topic --describe >/tmp/topic && [ "$(grep -c 'Isr: .,.,.' /tmp/topic)" = 3 ]; }
metric() { wget -q -O- http://127.0.0.1:9104/metrics | grep "^$1 "; }
consume() {
  kafka-run $TOOLS.consumer.ConsoleConsumer --bootstrap-server 127.0.0.1:9${1}92 --topic t \
    --from-beginning --max-messages 500 --timeout-ms 60000 2>>/tmp/log | sort -u | wc -l
}

node 1; node 2; node 3
for i in 1 2 3; do started $i; done
# In 3.9 a controller that finds no leader for a minute, as on a slow machine, never registers (KAFKA-20247), and
# clients of the controllers do not find it when it is the leader.
for i in 1 2 3; do
  grep -q "timed out before sending the request" /data/$i.log || continue
  eval "kill -TERM \$pid$i; wait \$pid$i"
  rm /data/$i.log; node $i; started $i
done
say "directories $(directory 1) $(directory 2)"
until_ topic --create --if-not-exists --partitions 3
seq 500 | kafka-run $PRODUCER --bootstrap-server 127.0.0.1:9192 --topic t >>/tmp/log 2>&1
say "consumed $(consume 2)"
until_ metric kafka_server_replicamanager_underreplicatedpartitions
say "metric $(cat /tmp/last)"

# The volume of a controller is lost: it comes back as another voter, and its broker copies the data of the others.
old=$(directory 3)
kill -9 $pid3; wait $pid3 2>/dev/null
rm -rf /data/3 /data/3.log
export KAFKA_FORMED=true
node 3; started 3
until_ voters
[ "$(directory 3)" != "$old" ] && say "another directory"
grep -q -E "$old.*(Leader|Follower)" /tmp/quorum || say "the old voter is gone"
until_ synced
say "consumed $(consume 3)"
kill -TERM $pid3; wait $pid3; say "ended with $?"

# A volume of another cluster is refused.
KAFKA_CLUSTER_ID=AAAA3nShT-eMCtK--X86sw KAFKA_CONFIG=/data/3.properties kafka-node 2>&1 |
  grep -c "belongs to cluster $KAFKA_CLUSTER_ID" >>/tmp/said
cat /tmp/said
`

// TestKafka builds the real images and runs a cluster of each line: one where kafka-node makes a controller a voter,
// and one where the server does it itself.
func TestKafka(t *testing.T) {
	for version, env := range map[string][]string{
		"3.9": {"PRODUCER=kafka.tools.ConsoleProducer", "SETTINGS="},
		"4.4": {"PRODUCER=org.apache.kafka.tools.ConsoleProducer", "SETTINGS=controller.quorum.auto.join.enable=true"},
	} {
		t.Run(version, func(t *testing.T) {
			root := unpacked(t, "zeroinfra/kafka:"+version)
			if os.Geteuid() != 0 {
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			defer cancel()
			if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(filepath.Join(root, "data"), 999, 999); err != nil {
				t.Fatal(err)
			}
			// All processes end with the first.
			cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child",
				"--propagation", "private", "/bin/sh", "-c", kafkaNamespace, "sh", root, "/bin/sh", "-c", kafkaScript)
			cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}, env...)
			out, err := cmd.CombinedOutput()
			want := "directories GBUxF0oXDuv5HHe5QbdglA EQ7Kk0hObKDXBrEm4X0nSw\nconsumed 500\n" +
				"metric kafka_server_replicamanager_underreplicatedpartitions 0.0\nanother directory\n" +
				"the old voter is gone\nconsumed 500\nended with 143\n1\n"
			if err != nil || !strings.HasSuffix(string(out), want) {
				t.Errorf("got %v and\n%s\nwant\n%s", err, out, want)
			}
		})
	}
}
