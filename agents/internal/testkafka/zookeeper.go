// SPDX-License-Identifier: Apache-2.0

package testkafka

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testnet"
)

// ZooKeeperLibsVariable names the folder with the jars of Kafka 3.9, in place of bin/kafka-3.9 of the repository.
const ZooKeeperLibsVariable = "KAFKA_3_LIBS"

// The account of the nodes among themselves, in a cluster with ZooKeeper.
const (
	Internal         = "internal"
	InternalPassword = "no-secret-either"
)

// stopTime is what a process has to end by itself.
const stopTime = time.Minute

// Stage is what a broker and a controller of Kafka 3.9 have from where.
type Stage string

// Stages of the migration from ZooKeeper to controllers.
const (
	// StageZooKeeper is a broker that has its metadata from there.
	StageZooKeeper Stage = "zookeeper"
	// StageMigrating is one that has the migration on, and a controller that takes over.
	StageMigrating Stage = "migrating"
	// StageMigrated is a broker that follows the controller.
	StageMigrated Stage = "migrated"
	// StageApart is a controller that knows of no ZooKeeper.
	StageApart Stage = "apart"
)

// ZooKeeper is a ZooKeeper server, with a broker of Kafka 3.9, number 0, and the controller that takes over, number
// 1000. The scripts of the image start them, without TLS.
type ZooKeeper struct {
	*testing.T
	// Internal is the address of the broker for the user internal, Client that for all others, and Controller that of the
	// controller.
	Internal, Client, Controller string

	// images is the folder of the repository with the scripts, and scripts the one where they have the names of the image.
	images, scripts, dir, libs, address string
	running                             map[string]*script
}

// script is a process that a script became.
type script struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// NewZooKeeper starts a ZooKeeper server, and nothing else yet.
func NewZooKeeper(t *testing.T) *ZooKeeper {
	t.Helper()
	z := &ZooKeeper{T: t, Internal: testnet.FreeAddress(t), Client: testnet.FreeAddress(t),
		Controller: testnet.FreeAddress(t), dir: t.TempDir(), address: testnet.FreeAddress(t), running: map[string]*script{}}
	root := repository(t)
	z.libs = os.Getenv(ZooKeeperLibsVariable)
	if z.libs == "" {
		z.libs = filepath.Join(root, "bin", "kafka-3.9")
	}
	if jars, _ := filepath.Glob(filepath.Join(z.libs, "zookeeper-3*.jar")); len(jars) == 0 {
		t.Fatalf("there is no Kafka 3.9 with ZooKeeper in %s: run make server-kafka", z.libs)
	}
	z.images, z.scripts = filepath.Join(root, "hack/images/kafka"), filepath.Join(z.dir, "bin")
	if err := os.MkdirAll(z.scripts, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"kafka-run": "run.sh", "kafka-node": "node.sh", "kafka-start": "start.sh",
		"zookeeper-start": "zookeeper.sh", "zookeeper-tool": "zookeeper-tool.sh"} {
		if err := os.Symlink(filepath.Join(z.images, file), filepath.Join(z.scripts, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := strings.Cut(z.address, ":")
	z.begin("zookeeper", "zookeeper-start", "ZOOKEEPER_ORDINAL=0", "ZOOKEEPER_SERVERS=0@localhost",
		"ZOOKEEPER_DATA="+filepath.Join(z.dir, "zookeeper"), "ZOOKEEPER_PORT="+port, "KAFKA_HEAP=96m")
	return z
}

// repository is the folder of the whole repository.
func repository(t *testing.T) string {
	t.Helper()
	for at := "."; ; at = filepath.Join(at, "..") {
		path, err := filepath.Abs(at)
		if err != nil || path == "/" {
			t.Fatal("this is not the repository")
		}
		if _, err := os.Stat(filepath.Join(path, "go.work")); err == nil {
			return path
		}
	}
}

// Broker starts the broker for a stage, or starts it again.
func (z *ZooKeeper) Broker(stage Stage) {
	z.Helper()
	z.Stop("broker")
	text := fmt.Sprintf(zooKeeperProperties+zooKeeperBroker, 0, z.Internal, z.Client, filepath.Join(z.dir, "broker"))
	if stage != StageMigrated {
		text += "zookeeper.connect=" + z.address + "\nauthorizer.class.name=kafka.security.authorizer.AclAuthorizer\n" +
			zooKeeperPatience
	} else {
		text += "process.roles=broker\nauthorizer.class.name=" + standardAuthorizer
	}
	if stage != StageZooKeeper {
		text += "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=" + z.Controller + "\n"
	}
	if stage == StageMigrating {
		text += "zookeeper.metadata.migration.enable=true\n"
	}
	z.node("broker", text, z.address)
}

// StartController starts the controller for a stage, or starts it again.
func (z *ZooKeeper) StartController(stage Stage) {
	z.Helper()
	z.Stop("controller")
	text := fmt.Sprintf(zooKeeperProperties+zooKeeperController, 1000, z.Controller, filepath.Join(z.dir, "controller"))
	text += "authorizer.class.name=" + standardAuthorizer
	if stage == StageApart {
		z.node("controller", text, "")
		return
	}
	z.node("controller", text+"inter.broker.listener.name=INTERNAL\nzookeeper.metadata.migration.enable=true\n"+
		"listener.name.internal.sasl.enabled.mechanisms=PLAIN\nzookeeper.connect="+z.address+"\n"+zooKeeperPatience,
		z.address)
}

// RemoveController ends the controller, and what it knows is gone.
func (z *ZooKeeper) RemoveController() {
	z.Helper()
	z.Stop("controller")
	if err := os.RemoveAll(filepath.Join(z.dir, "controller")); err != nil {
		z.Fatal(err)
	}
}

// Refused waits for the end of a process that does not start, which says why.
func (z *ZooKeeper) Refused(name, why string) {
	z.Helper()
	select {
	case <-z.running[name].exited:
	case <-time.After(startTime):
		z.Errorf("%s goes on", name)
	}
	z.Stop(name)
	if said := z.tail(name); !strings.Contains(said, why) {
		z.Errorf("%s said %q, want %q", name, said, why)
	}
}

// Tool runs zookeeper-tool to its end.
func (z *ZooKeeper) Tool(word string) {
	z.Helper()
	cmd := z.command("zookeeper-tool", "KAFKA_ZOOKEEPER="+z.address)
	cmd.Args = append(cmd.Args, word)
	if out, err := cmd.CombinedOutput(); err != nil {
		z.Fatalf("zookeeper-tool %s: %v: %s", word, err, out)
	}
}

// node runs kafka-start with settings.
func (z *ZooKeeper) node(name, settings, zooKeeper string) {
	z.Helper()
	config := filepath.Join(z.dir, name+".properties")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		z.Fatal(err)
	}
	z.begin(name, "kafka-start", "KAFKA_CONFIG="+config, "KAFKA_ZOOKEEPER="+zooKeeper,
		"KAFKA_LISTENERS=internal controller", "KAFKA_CLUSTER_NAME=test/migration", "KAFKA_JOIN=false",
		"KAFKA_INITIAL_CONTROLLERS=1000@"+z.Controller,
		"KAFKA_HEAP=256m")
}

// command is a script with the environment that all have.
func (z *ZooKeeper) command(name string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(z.Context(), filepath.Join(z.scripts, name))
	cmd.Env = append([]string{"PATH=" + z.scripts + ":" + os.Getenv("PATH"), "KAFKA_LIBS=" + z.libs,
		"KAFKA_JVM_OPTIONS=-Dlog4j.configuration=file:" + filepath.Join(z.images, "log4j.properties"),
		"KAFKA_USERNAME=" + Internal, "KAFKA_PASSWORD=" + InternalPassword, "KAFKA_RUN=" + filepath.Join(z.dir, "run-"+name)},
		env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// begin runs a script beside the test.
func (z *ZooKeeper) begin(name, program string, env ...string) {
	z.Helper()
	log, err := os.Create(filepath.Join(z.dir, name+".log"))
	if err != nil {
		z.Fatal(err)
	}
	defer log.Close()
	cmd := z.command(program, append(env, "KAFKA_RUN="+filepath.Join(z.dir, "run-"+name))...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		z.Fatal(err)
	}
	s := &script{cmd, make(chan struct{})}
	z.running[name] = s
	go func() {
		_ = cmd.Wait()
		close(s.exited)
	}()
	z.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.exited
		if z.Failed() {
			z.Logf("%s said:\n%s", name, z.tail(name))
		}
	})
}

// tail is the end of what a process said.
func (z *ZooKeeper) tail(name string) string {
	text, _ := os.ReadFile(filepath.Join(z.dir, name+".log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(len(lines)-20, 0):], "\n")
}

// Stop ends the process of a name, zookeeper, broker or controller, in its own way.
func (z *ZooKeeper) Stop(name string) {
	z.Helper()
	s := z.running[name]
	if s == nil {
		return
	}
	delete(z.running, name)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(stopTime):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

const (
	// zooKeeperPatience is for a machine that is busy.
	zooKeeperPatience  = "zookeeper.connection.timeout.ms=180000\nzookeeper.session.timeout.ms=40000\n"
	standardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
	scramModule        = "org.apache.kafka.common.security.scram.ScramLoginModule required;\n"
)

const zooKeeperProperties = `node.id=%d
listener.security.protocol.map=INTERNAL:SASL_PLAINTEXT,CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.controller.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.controller.scram-sha-512.sasl.jaas.config=` + scramModule + `super.users=User:admin;User:internal
`

const zooKeeperController = `process.roles=controller
listeners=CONTROLLER://%[2]s
advertised.listeners=CONTROLLER://%[2]s
controller.quorum.bootstrap.servers=%[2]s
controller.listener.names=CONTROLLER
broker.session.timeout.ms=60000
log.dirs=%[3]s
`

const zooKeeperBroker = `listeners=INTERNAL://%[2]s,CLIENT://%[3]s
inter.broker.listener.name=INTERNAL
listener.name.internal.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.internal.scram-sha-512.sasl.jaas.config=` + scramModule +
	`listener.name.client.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config=` + scramModule + `log.dirs=%[4]s
auto.create.topics.enable=false
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
broker.session.timeout.ms=60000
initial.broker.registration.timeout.ms=180000
`
