// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// serverIn is how long a server may take to answer on a busy machine.
const serverIn = 5 * time.Minute

// families are the networks that pods can have. Each pod has the loopback of its machine's kernel, which has IPv4 where
// a cluster has IPv6 alone.
var families = []network{
	{name: "IPv6 alone", address: "fd00:6::2", asked: []string{"fd00:6::2", "::1", "127.0.0.1"}},
	{name: "no IPv6", address: "10.66.0.2", asked: []string{"10.66.0.2", "127.0.0.1"}, withoutIPv6: true},
}

// question is what a client says to a server, and what the answer contains.
type question struct{ says, wants string }

// Questions in the protocols of the servers that need no password.
var (
	redisPing = question{"PING\r\n", "-NOAUTH"}
	// mysqlSays: the server speaks first, and names the way to log in.
	mysqlSays = question{"", "caching_sha2_password"}
	// postgresTLS asks whether the server speaks TLS: N is no.
	postgresTLS = question{"\x00\x00\x00\x08\x04\xd2\x16\x2f", "N"}
	// kafkaVersions is the request ApiVersions, of version 0, with the number 66, which the answer repeats.
	kafkaVersions = question{"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x42\xff\xff", "\x00\x00\x00\x42"}
	// httpGet gets whatever there is.
	httpGet = question{"GET / HTTP/1.0\r\n\r\n", "HTTP/1."}
)

// ofFamilies is an instance of a plugin of which the first pod of a set is run.
type ofFamilies struct {
	plugin, set string
	// spec is of its Application, behind plugin and version.
	spec string
	// asks are questions at ports. At the other ports of the pod a connection is enough.
	asks map[int]question
	// closed are ports that are declared and on which nothing listens in this instance.
	closed []int
	// says is part of what the pod says, with its address.
	says string
	// made are files that agents make at the engine's word.
	made map[string]string
	// edit is what the engine does with the plan beyond rendering.
	edit func(plan map[string]any)
}

// instancesOfFamilies are the servers that pods of the shipped plugins run, but the one that needs a model.
var instancesOfFamilies = map[string]ofFamilies{
	"redis": {plugin: "database-operator/plugins/redis", set: "redis-main",
		spec: `{version: "7.0", topology: standalone}`, asks: map[int]question{6379: redisPing}},
	"redis cluster": {plugin: "database-operator/plugins/redis", set: "node-0",
		spec: `{version: "8.0", topology: cluster}`, asks: map[int]question{6379: redisPing}},
	"redis sentinel": {plugin: "database-operator/plugins/redis", set: "sentinel-main",
		spec: `{version: "8.0", topology: sentinel}`, asks: map[int]question{26379: redisPing}},
	"postgresql": {plugin: "database-operator/plugins/postgresql", set: "postgresql-main",
		spec: `{version: "17", topology: standalone}`, asks: map[int]question{5432: postgresTLS}, edit: asPrimary,
		made: map[string]string{"/data/.zeroinfra.member": `{"format":1,"state":{"term":1,"list":{}}}`}},
	"pgbouncer": {plugin: "database-operator/plugins/postgresql", set: "pooler-main",
		spec: `{version: "17", topology: replication, components: [{name: pooler, replicas: 1}]}`,
		asks: map[int]question{6432: postgresTLS}},
	"mysql": {plugin: "database-operator/plugins/mysql", set: "mysql-main",
		spec: `{version: "8.0", topology: standalone}`, asks: map[int]question{3306: mysqlSays}, closed: []int{33061}},
	"kafka": {plugin: "message-operator/plugins/kafka", set: "kafka-main",
		spec: `{version: "4.4", topology: combined, components: [{name: kafka, replicas: 1, external: {type: NodePort}}]}`,
		asks: map[int]question{9091: kafkaVersions, 9092: kafkaVersions, 9093: kafkaVersions},
		made: map[string]string{"/zeroinfra/run/kafka-begin": ""},
		edit: onNode, says: "host='%s', port=30094"},
	"minio": {plugin: "storage-operator/plugins/minio", set: "minio-main",
		spec: `{version: "2026.2", topology: standalone}`, asks: map[int]question{9000: httpGet}},
	"nginx": {plugin: "common-operator/plugins/nginx", set: "nginx-main",
		spec: `{version: "1.26", topology: web}`, asks: map[int]question{8080: httpGet}},
	"etcd 3.4": {plugin: "database-operator/plugins/etcd", set: "etcd-main",
		spec: `{version: "3.4", topology: cluster}`, asks: map[int]question{2379: httpGet}, made: etcdBegins},
	"etcd 3.5": {plugin: "database-operator/plugins/etcd", set: "etcd-main",
		spec: `{version: "3.5", topology: cluster}`, asks: map[int]question{2379: httpGet}, made: etcdBegins},
}

// etcdBegins has a member begin the cluster.
var etcdBegins = map[string]string{"/zeroinfra/run/etcd-begin": ""}

// asPrimary has a server run as the primary, without a permission that it would need an API server for.
func asPrimary(plan map[string]any) {
	process := plan["process"].(map[string]any)
	process["command"] = append(process["command"].([]any), plan["writing"].(map[string]any)["primaryArgs"].([]any)...)
	delete(plan, "writing")
}

// onNode has clients outside of the cluster find the pod at its node.
func onNode(plan map[string]any) {
	digests := map[string]any{"port": 30094, "digest": plan["digest"], "restartDigest": plan["restartDigest"]}
	plan["external"] = map[string]any{"pods": map[string]any{"one-kafka-main-0": digests}}
}

// TestServersListenOnBothFamilies runs the pods that the plugins render with the images of the suite and the agents,
// where there is IPv6 alone and where the kernel has none, and asks them at every port by each address.
func TestServersListenOnBothFamilies(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run this as root: pods get networks of their own")
	}
	tools := familyTools(t)
	for _, name := range slices.Sorted(maps.Keys(instancesOfFamilies)) {
		i := instancesOfFamilies[name]
		t.Run(name, func(t *testing.T) {
			p := tools.render(t, i)
			root, image := imageRoot(t, p.containers()[0].Image)
			for _, n := range families {
				t.Run(n.name, func(t *testing.T) {
					r := p.run(t, root, image, n)
					for _, port := range p.ports() {
						if slices.Contains(i.closed, port) {
							continue
						}
						for _, address := range n.asked {
							if err := r.ask(net.JoinHostPort(address, fmt.Sprint(port)), i.asks[port]); err != nil {
								t.Fatalf("%v; the pod said:\n%s", err, r.said)
							}
						}
					}
					if i.says != "" && !strings.Contains(r.said.String(), fmt.Sprintf(i.says, n.address)) {
						t.Errorf("the pod does not say %q: %s", i.says, r.said)
					}
				})
			}
		})
	}
}

// ask asks until the answer is there.
func (r *running) ask(address string, q question) error {
	end := time.Now().Add(serverIn)
	for {
		err := r.askOnce(address, q)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not answer: %w", address, err)
		}
		if r.ended() {
			return fmt.Errorf("the pod has ended: %w", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (r *running) askOnce(address string, q question) error {
	conn, err := r.dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if q == (question{}) {
		return nil
	}
	if _, err := io.WriteString(conn, q.says); err != nil {
		return err
	}
	err = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer := make([]byte, 0, 1024)
	for err == nil && !strings.Contains(string(answer), q.wants) && len(answer) < cap(answer) {
		var n int
		n, err = conn.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
	}
	if !strings.Contains(string(answer), q.wants) {
		return errors.Join(fmt.Errorf("it answers %q in place of %q", answer, q.wants), err)
	}
	return nil
}
