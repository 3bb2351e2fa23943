// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kafkaFake stands for kafka-run. It notes its class and arguments, formats as StorageTool does, and answers for the
// quorum with the files "leader" and "replication". The server runs until the node is no longer joining.
const kafkaFake = `#!/bin/sh
config=$KAFKA_CONFIG
case "$*" in *StorageTool*) config=$(echo "$*" | sed 's/.*--config \([^ ]*\) .*/\1/') ;; esac
directories=$(sed -n 's/^log.dirs=//p' "$config" | tr ',' ' ')
node=$(sed -n 's/^node.id=//p' "$config")
echo "$*" | sed "s#$PWD/##g; s#--command-config [^ ]* ##; s#^[a-z.]*[.]##" >>calls
case "$*" in
  *StorageTool*)
    id=$(echo "$*" | sed -n "s/.*[ ,]$node@[^ ,]*:\([A-Za-z0-9_-]*\).*/\1/p")
    for directory in $directories; do
      [ ! -e "$directory/meta.properties" ] || continue
      mkdir -p "$directory" || exit 1
      printf 'cluster.id=%s\nnode.id=%s\ndirectory.id=%s\n' "$KAFKA_CLUSTER_ID" "$node" "${id:-random}" \
        >"$directory/meta.properties"
    done ;;
  *ZooKeeperMain*)
    asked=$(cat)
    case $asked in
      *cluster/id*) echo "$asked" | sed -n 's/^create .*"id":"\([^"]*\)".*/{"id":"\1"}/p' >id; cat id ;;
      *) cat attempts ;;
    esac ;;
  *--status*) [ -e leader ] ;;
  *--replication*) cat replication ;;
  *remove-controller*) sed -i "/^$node .* Follower/d" replication ;;
  *add-controller*) sed -i "s/^\($node .*\) Observer/\1 Follower/" replication ;;
  kafka.Kafka*)
    n=0
    while [ -e "${directories%% *}/kafka-node.joining" ] && [ $n -lt 1200 ]; do n=$((n+1)); sleep 0.1; done ;;
esac
`

const (
	kafkaCluster = "4L6g3nShT-eMCtK--X86sw"
	// kafkaList are the initial controllers with the IDs of their directories: of SHA-256 of
	// "4L6g3nShT-eMCtK--X86sw/1" and so on.
	kafkaList = "1@a:9093:GBUxF0oXDuv5HHe5QbdglA,2@b:9093:EQ7Kk0hObKDXBrEm4X0nSw"
)

// kafkaNode is a run of kafka-node in a folder with a fake of kafka-run.
type kafkaNode struct {
	*testing.T
	dir string
	env []string
	// properties are further lines of the file of settings.
	properties string
}

func newKafkaNode(t *testing.T, env ...string) *kafkaNode {
	t.Helper()
	k := &kafkaNode{T: t, dir: t.TempDir(), env: env}
	k.write("bin/kafka-run", kafkaFake)
	return k
}

func (k *kafkaNode) write(name, text string) {
	k.Helper()
	file := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		k.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		k.Fatal(err)
	}
}

func (k *kafkaNode) read(name string) string {
	text, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil && !os.IsNotExist(err) {
		k.Fatal(err)
	}
	return string(text)
}

// start starts node 1, whose standard error goes to the file "said".
func (k *kafkaNode) start() *exec.Cmd {
	k.Helper()
	script, err := filepath.Abs("../../kafka/node.sh")
	if err != nil {
		k.Fatal(err)
	}
	if k.read("config") == "" {
		k.write("config", "node.id=1\nprocess.roles=broker,controller\nlog.dirs="+filepath.Join(k.dir, "log")+
			"\ncontroller.quorum.bootstrap.servers=a:9093,b:9093\n"+k.properties)
	}
	ctx, cancel := context.WithTimeout(k.Context(), 2*time.Minute)
	k.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/bin/sh", script)
	cmd.Dir = k.dir
	cmd.Env = append([]string{
		"PATH=" + filepath.Join(k.dir, "bin") + ":" + os.Getenv("PATH"), "TMPDIR=" + k.dir,
		"KAFKA_CONFIG=" + filepath.Join(k.dir, "config"), "KAFKA_CLUSTER_ID=" + kafkaCluster,
		"KAFKA_INITIAL_CONTROLLERS=1@a:9093 2@b:9093", "KAFKA_JOIN_INTERVAL=0.1",
	}, k.env...)
	said, err := os.Create(filepath.Join(k.dir, "said"))
	if err != nil {
		k.Fatal(err)
	}
	defer said.Close()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	return cmd
}

// calls are the distinct calls of tools and the server, in the order of the first of each.
func (k *kafkaNode) calls() []string {
	var calls []string
	for line := range strings.Lines(k.read("calls")) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "MetadataQuorumCommand --bootstrap-controller ")
		line = strings.TrimPrefix(line, "StorageTool format --config config --cluster-id="+kafkaCluster+
			" --ignore-formatted ")
		if !slices.Contains(calls, line) {
			calls = append(calls, line)
		}
	}
	return calls
}

// want runs the node to its end and compares its calls.
func (k *kafkaNode) want(calls ...string) {
	k.Helper()
	if err := k.start().Wait(); err != nil {
		k.Fatalf("%v: %s", err, k.read("said"))
	}
	if got := k.calls(); !slices.Equal(got, calls) {
		k.Errorf("calls:\n%s\nwant:\n%s\nit said: %s", strings.Join(got, "\n"), strings.Join(calls, "\n"), k.read("said"))
	}
	k.wantNothingLeft()
	if _, err := os.Stat(filepath.Join(k.dir, "log/kafka-node.joining")); err == nil {
		k.Error("the node is still joining")
	}
}

// wantNothingLeft waits until temporary folders are gone: what has the node join removes one when the server has ended.
func (k *kafkaNode) wantNothingLeft() {
	k.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left, err := filepath.Glob(filepath.Join(k.dir, "tmp.*"))
		if err != nil {
			k.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			k.Fatalf("left behind: %q", left)
		}
	}
}

const (
	serves   = "Kafka config"
	observes = "--no-initial-controllers"
)

func TestKafkaNodeFormatsOnce(t *testing.T) {
	k := newKafkaNode(t, "KAFKA_FORMAT_OPTIONS=--release-version 4.3")
	k.want("b:9093 describe --status", "--initial-controllers "+kafkaList+" --release-version 4.3", serves)
	if !strings.Contains(k.read("log/meta.properties"), "directory.id=GBUxF0oXDuv5HHe5QbdglA\n") {
		t.Errorf("meta.properties: %q", k.read("log/meta.properties"))
	}
	k.write("calls", "")
	k.want(serves)
}

func TestKafkaNodeAlone(t *testing.T) {
	k := newKafkaNode(t, "KAFKA_INITIAL_CONTROLLERS=1@a:9093")
	k.write("config", "node.id=1\nprocess.roles = controller , broker \nlog.dirs="+k.dir+"/log\n"+
		"controller.quorum.bootstrap.servers=a:9093\n")
	k.want("--initial-controllers 1@a:9093:GBUxF0oXDuv5HHe5QbdglA", serves)
}

func TestKafkaNodeThatNeedNotAsk(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		calls  []string
	}{
		"broker":                {"node.id=7\nprocess.roles=broker\n", []string{observes, serves}},
		"broker with ZooKeeper": {"broker.id=7\n", []string{serves}},
		"controller added later": {
			"node.id=7\nprocess.roles=controller\ncontroller.quorum.auto.join.enable=true\n", []string{observes, serves},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKafkaNode(t)
			k.write("config", c.config+"log.dirs="+k.dir+"/log\ncontroller.quorum.bootstrap.servers=a:9093,b:9093\n")
			k.want(c.calls...)
		})
	}
}

// TestKafkaNodeWithZooKeeper writes there before the first start alone. Once the broker follows controllers, it waits
// until these have taken over.
func TestKafkaNodeWithZooKeeper(t *testing.T) {
	k := newKafkaNode(t, "KAFKA_ZOOKEEPER=z:2181", "KAFKA_USERNAME=internal", "KAFKA_SCRAM=scram", "KAFKA_LIBS=libs")
	broker := "node.id=7\nlog.dirs=" + k.dir + "/log\n"
	k.write("libs/zookeeper-3.8.4.jar", "")
	k.write("bin/zookeeper-tool", "#!/bin/sh\necho \"zookeeper-tool $*\" >>calls\n")
	k.write("config", broker)
	enlists := []string{"ZooKeeperMain -waitforconnection -server z:2181",
		"ConfigCommand --zookeeper z:2181 --alter --entity-type users --entity-name internal --add-config-file scram"}
	k.want(append(enlists, serves)...)
	if got, want := k.read("id"), "{\"id\":\""+kafkaCluster+"\"}\n"; got != want {
		t.Errorf("the ID is %q, want %q", got, want)
	}
	k.write("calls", "")
	k.want(serves)
	k.write("calls", "")
	k.write("log/meta.properties", "version=0\nbroker.id=7\ncluster.id="+kafkaCluster+"\n")
	k.write("config", broker+"process.roles=broker\n")
	k.want("zookeeper-tool migrated", serves)
	k.write("calls", "")
	k.want(serves)

	copied := filepath.Join(k.dir, "log/__cluster_metadata-0")
	k.write("log/__cluster_metadata-0/quorum-state", "")
	k.write("calls", "")
	k.want(serves)
	if _, err := os.Stat(copied); err != nil {
		t.Errorf("the broker that follows controllers has lost its copy: %v", err)
	}
	k.write("config", broker)
	k.write("calls", "")
	k.want(append(enlists, serves)...)
	if _, err := os.Stat(copied); !os.IsNotExist(err) {
		t.Errorf("the broker is back with ZooKeeper, and has what controllers told it: %v", err)
	}
}

// TestKafkaControllerOfAMigrationThatWasTakenBack does not start on its volume: ZooKeeper counts how often that was.
func TestKafkaControllerOfAMigrationThatWasTakenBack(t *testing.T) {
	k := newKafkaNode(t, "KAFKA_ZOOKEEPER=z:2181", "KAFKA_INITIAL_CONTROLLERS=1@a:9093")
	k.write("config", "node.id=1\nprocess.roles=controller\nlog.dirs="+k.dir+"/log\n"+
		"controller.quorum.bootstrap.servers=a:9093\n")
	asks := "ZooKeeperMain -waitforconnection -server z:2181"
	k.write("attempts", "Node does not exist: /kafka-node\n")
	k.want(asks, "--initial-controllers 1@a:9093:GBUxF0oXDuv5HHe5QbdglA", serves)
	k.write("calls", "")
	k.want(asks, serves)

	k.refused("dataVersion = 1\n", "of a migration that was taken back")
	k.refused("KeeperErrorCode = ConnectionLoss\n", "does not say whether the migration was taken back: KeeperErrorCode")
	if err := os.RemoveAll(filepath.Join(k.dir, "log")); err != nil {
		t.Fatal(err)
	}
	k.write("attempts", "dataVersion = 1\n")
	k.write("calls", "")
	k.want(asks, "--initial-controllers 1@a:9093:GBUxF0oXDuv5HHe5QbdglA", serves)
	k.refused("dataVersion = 2\n", "of a migration that was taken back")
}

// refused starts a controller that does not go on with what ZooKeeper says, and says why.
func (k *kafkaNode) refused(zooKeeper, why string) {
	k.Helper()
	k.write("attempts", zooKeeper)
	if err := k.start().Wait(); err == nil || !strings.Contains(k.read("said"), why) {
		k.Errorf("the start ended with %v and %q, want %q", err, k.read("said"), why)
	}
}

// TestKafkaNodeFormatsADirectoryThatIsAdded leaves the directories alone that are formatted.
func TestKafkaNodeFormatsADirectoryThatIsAdded(t *testing.T) {
	k := newKafkaNode(t)
	k.write("log/meta.properties", "cluster.id="+kafkaCluster+"\nnode.id=1\ndirectory.id=kept\n")
	k.write("config", "node.id=1\nprocess.roles=controller,broker\nlog.dirs="+k.dir+"/log,"+k.dir+"/more\n")
	k.want(observes, serves)
	if !strings.Contains(k.read("log/meta.properties"), "kept") || k.read("more/meta.properties") == "" {
		t.Errorf("directories: %q, %q", k.read("log/meta.properties"), k.read("more/meta.properties"))
	}
}

// TestKafkaNodeStartsWithoutADirectory has one of several be no directory any more: the others are formatted where they
// have to be, and Kafka starts. Without the first one, which has the metadata, it does not.
func TestKafkaNodeStartsWithoutADirectory(t *testing.T) {
	k := newKafkaNode(t)
	formatted := "cluster.id=" + kafkaCluster + "\nnode.id=1\ndirectory.id=kept\n"
	k.write("log/meta.properties", formatted)
	k.write("other/meta.properties", formatted)
	k.write("lost", "")
	k.write("config", "node.id=1\nprocess.roles=controller,broker\nlog.dirs="+k.dir+"/log,"+k.dir+"/lost,"+
		k.dir+"/other\n")
	k.want(serves)
	if said := k.read("said"); !strings.Contains(said, "lost of node 1 can be read or written no more") {
		t.Errorf("it said %q", said)
	}
	k.write("config", "node.id=1\nprocess.roles=controller,broker\nlog.dirs="+k.dir+"/log,"+k.dir+"/lost,"+
		k.dir+"/more\n")
	if err := k.start().Wait(); err != nil || k.read("more/meta.properties") == "" || k.read("lost") != "" {
		t.Errorf("with a directory that is added: %v; %s", err, k.read("said"))
	}
	k.write("config", "node.id=1\nprocess.roles=controller,broker\nlog.dirs="+k.dir+"/lost,"+k.dir+"/log\n")
	if err := k.start().Wait(); err == nil {
		t.Errorf("it starts without the metadata: %s", k.read("said"))
	}
}

// kafkaBefore is the replication of a quorum that still has the voter whose volume was lost, and node 1 as observer
// with another one.
const kafkaBefore = "NodeId DirectoryId LogEndOffset Lag LastFetchTimestamp LastCaughtUpTimestamp Status\n" +
	"2 EQ7Kk0hObKDXBrEm4X0nSw 90 0 1 1 Leader\n1 GBUxF0oXDuv5HHe5QbdglA 10 80 1 1 Follower\n1 random 90 0 1 1 Observer\n"

func TestKafkaNodeReplacesItsVoter(t *testing.T) {
	k := newKafkaNode(t)
	k.write("leader", "")
	k.write("replication", kafkaBefore)
	all := "a:9093,b:9093 "
	k.want("b:9093 describe --status", observes, serves, all+"describe --replication",
		all+"remove-controller --controller-id 1 --controller-directory-id GBUxF0oXDuv5HHe5QbdglA", all+"add-controller")
	if !strings.Contains(k.read("said"), "controller 1 is a voter with directory ID random") {
		t.Errorf("it said: %s", k.read("said"))
	}
}

func TestKafkaNodeLeavesVotersToOthers(t *testing.T) {
	for name, k := range map[string]*kafkaNode{
		"server":   {properties: "controller.quorum.auto.join.enable=true\n"},
		"operator": {env: []string{"KAFKA_JOIN=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kafkaNode{T: t, dir: t.TempDir(), env: k.env, properties: k.properties}
			k.write("bin/kafka-run", kafkaFake)
			k.write("leader", "")
			k.want("b:9093 describe --status", observes, serves)
		})
	}
}

// TestKafkaNodeKeepsItsDecision has a start that ended before it formatted as an observer not become an initial
// controller when the quorum has lost its leader since.
func TestKafkaNodeKeepsItsDecision(t *testing.T) {
	k := newKafkaNode(t, "KAFKA_JOIN=false")
	k.write("log/kafka-node.joining", "")
	k.want(observes, serves)
}

// TestKafkaNodeFormsOneCluster has the node that formed the cluster lose its disk while its pod stays: it joins,
// whether it noted the end of the first start or died before.
func TestKafkaNodeFormsOneCluster(t *testing.T) {
	k := newKafkaNode(t, "KAFKA_BEGIN=begin", "KAFKA_JOIN=false")
	k.write("begin", "")
	k.want("--initial-controllers "+kafkaList, serves)
	for _, again := range []string{"begin.done", "begin"} {
		k.Run(again, func(t *testing.T) {
			k := &kafkaNode{T: t, dir: k.dir, env: k.env}
			if err := os.Rename(filepath.Join(k.dir, "begin.done"), filepath.Join(k.dir, again)); err != nil {
				t.Fatal(err)
			}
			k.write("calls", "")
			k.want(serves)
			if err := os.RemoveAll(filepath.Join(k.dir, "log")); err != nil {
				t.Fatal(err)
			}
			k.write("calls", "")
			k.write("leader", "")
			k.want("b:9093 describe --status", observes, serves)
		})
	}
}

// TestKafkaNodeWaitsForALeader has a node whose volume is empty wait in a cluster that was formed before, and end when
// it is told to.
func TestKafkaNodeWaitsForALeader(t *testing.T) {
	k := newKafkaNode(t, "KAFKA_FORMED=true", "KAFKA_JOIN=false")
	asks := []string{"b:9093 describe --status"}
	waits := func() *exec.Cmd {
		k.write("calls", "")
		node := k.start()
		deadline := time.Now().Add(2 * time.Minute)
		for strings.Count(k.read("calls"), "--status") < 3 {
			if time.Sleep(10 * time.Millisecond); time.Now().After(deadline) {
				t.Fatalf("it asked: %s\nand said: %s", k.read("calls"), k.read("said"))
			}
		}
		said := k.read("said")
		if got := k.calls(); !slices.Equal(got, asks) || !strings.Contains(said, "waiting for one") {
			t.Fatalf("calls %q; it said: %s", got, said)
		}
		return node
	}
	node := waits()
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _ = node.Wait(); node.ProcessState.ExitCode() != 143 {
		t.Errorf("a node that waits ended with %s", node.ProcessState)
	}
	node = waits()
	k.write("leader", "")
	if err := node.Wait(); err != nil {
		t.Fatalf("%v: %s", err, k.read("said"))
	}
	if got, want := k.calls(), append(asks, observes, serves); !slices.Equal(got, want) {
		t.Errorf("calls = %q, want %q", got, want)
	}
}

func TestKafkaNodeRefuses(t *testing.T) {
	for want, change := range map[string]func(*kafkaNode){
		"belongs to cluster other and not to " + kafkaCluster: func(k *kafkaNode) {
			k.write("log/meta.properties", "cluster.id=other\nnode.id=1\n")
		},
		"belongs to node 2 and not to 1": func(k *kafkaNode) {
			k.write("log/meta.properties", "cluster.id="+kafkaCluster+"\nnode.id=2\n")
		},
		"KAFKA_CLUSTER_ID must be 22 characters of base64 for URLs, and is 'short'": func(k *kafkaNode) {
			k.env = []string{"KAFKA_CLUSTER_ID=short"}
		},
		"KAFKA_CLUSTER_ID must be 22 characters of base64 for URLs, and is '4L6g3nShT+eMCtK++X86sw'": func(k *kafkaNode) {
			k.env = []string{"KAFKA_CLUSTER_ID=4L6g3nShT+eMCtK++X86sw"}
		},
		"KAFKA_CONFIG must name a file": func(k *kafkaNode) { k.env = []string{"KAFKA_CONFIG=/gone"} },
		"log.dirs is not set":           func(k *kafkaNode) { k.write("config", "node.id=1\nprocess.roles=broker\n") },
	} {
		k := newKafkaNode(t)
		change(k)
		node := k.start()
		_ = node.Wait()
		said := k.read("said")
		if node.ProcessState.ExitCode() != 1 || !strings.Contains(said, want) || len(k.calls()) > 0 {
			t.Errorf("ended with %s after calls %q; it said %q, want %q", node.ProcessState, k.calls(), said, want)
		}
	}
}
