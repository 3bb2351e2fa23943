// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	setName    = "kv-node-a"
	namespaced = "shop"
	// podDomain leads nowhere, as when the cluster's DNS is down: the agents know the addresses from before.
	podDomain  = "kv.shop.svc.invalid"
	writesPort = "6400"
	// entitiesFile is where the driver of a pod keeps entities.
	entitiesFile = "config/entities.conf"
)

// set is some pods of one WorkloadSet on addresses of their own, and what stands between them.
type set struct {
	*testing.T
	ca      *testpki.Authority
	members []*memberPod
	// writes is the log of all instances.
	writes string

	mu     sync.Mutex
	record permission.Record
}

// memberPod is one pod of a set.
type memberPod struct {
	*pod
	set     *set
	name    string
	ip      string
	api     *apiServer
	to      map[string]*link
	process *container
	// binary of the process manager.
	binary  string
	calls   agentv1.PermissionServiceClient
	control agentv1.ProcessServiceClient
}

// newSet makes the pods and starts their status agents, and no process managers.
func newSet(t *testing.T, pods int) *set {
	t.Helper()
	s := &set{T: t, ca: testpki.New(t), writes: t.TempDir() + "/writes"}
	network := fmt.Sprintf("127.%d.%d", 10+rand.IntN(240), rand.IntN(250))
	for n := range pods {
		m := &memberPod{set: s, name: fmt.Sprintf("%s-%d", setName, n), binary: ownPath(t),
			ip: fmt.Sprintf("%s.%d", network, 1+n), to: map[string]*link{}}
		m.pod = newPod(t)
		m.ca, m.listen = s.ca, net.JoinHostPort(m.ip, strconv.Itoa(plan.ProcessPort))
		s.ca.MountLeaf(t, m.path("tls"), testpki.Pod(m.name, namespaced), s.ca)
		s.members = append(s.members, m)
	}
	for n, m := range s.members {
		addresses := map[string]string{}
		for o, other := range s.members {
			if o == n {
				continue
			}
			via := fmt.Sprintf("%s.%d", network, 100+10*n+o)
			m.to[other.name] = newLink(t, net.JoinHostPort(via, strconv.Itoa(plan.ProcessPort)), other.listen)
			addresses[other.name] = via
		}
		data, err := json.Marshal(addresses)
		if err != nil {
			t.Fatal(err)
		}
		m.write("run/peers.json", string(data))
		m.mount(m.plan())
		m.api = newAPIServer(t, s, m)
		m.startStatus()
		m.calls, m.control = agentv1.NewPermissionServiceClient(m.dialOperator()), m.client()
	}
	return s
}

// plan of the pod.
func (m *memberPod) plan() *plan.Plan {
	m.Helper()
	server := []plan.EnvVar{{Name: asMiddleware, Value: "server"}, {Name: writesFile, Value: m.set.writes}}
	as := []plan.EnvVar{{Name: asMiddleware, Value: "control"}}
	primary := map[string]string{"primary": "string"}
	return &plan.Plan{
		Version: 1, Digest: digest(1), RestartDigest: digest(1000), Domain: podDomain,
		Process: plan.Process{Command: []string{ownPath(m.T), m.name, net.JoinHostPort(m.ip, writesPort)}, Env: server,
			Dir: m.path("data")},
		Probe: plan.Probe{Command: []string{"true"}},
		Writing: &plan.Writing{
			Set: setName, PrimaryArgs: []string{"writer"}, ReplicaArgs: []string{"follower", "${primary.fqdn}"},
			Promote: &plan.Action{Name: "promote", Command: []string{ownPath(m.T), "writer"}, Env: as},
			Follow: &plan.Action{Name: "follow", Command: []string{ownPath(m.T), "follower", "${parameters.primary}"}, Env: as,
				Parameters: primary},
			Rejoin: &plan.Action{Name: "rejoin", Command: []string{ownPath(m.T), "rejoined", "${parameters.primary}"}, Env: as,
				Parameters: primary},
		},
		Driver: &plan.Driver{Protocol: plan.ProtocolRedis, Address: "127.0.0.1:1", EntitiesFile: m.path(entitiesFile)},
	}
}

// begin starts the middleware's container as PID 1 of a namespace.
func (m *memberPod) begin() {
	m.Helper()
	argv := append(append(namespace(), m.binary, "run", "--tls-dir", m.path("tls"), "--listen", m.listen), m.flags()...)
	c := m.start(m.stdout, m.stderr, []string{"POD_NAME=" + m.name}, argv)
	// Before the end that start has for it: unshare takes no SIGTERM.
	m.Cleanup(func() { c.stop(syscall.SIGKILL) })
	m.process = c
}

func (m *memberPod) startStatus() {
	m.Helper()
	m.write("account/token", "token")
	m.write("account/ca.crt", string(m.api.ca()))
	host, port, err := net.SplitHostPort(m.api.Listener.Addr().String())
	if err != nil {
		m.Fatal(err)
	}
	env := []string{"POD_NAME=" + m.name, "POD_NAMESPACE=" + namespaced, "KUBERNETES_SERVICE_HOST=" + host,
		"KUBERNETES_SERVICE_PORT=" + port}
	argv := append([]string{ownPath(m.T), "status", "--listen", "127.0.0.1:0", "--service-account-dir", m.path("account")},
		m.flags()...)
	m.start(io.Discard, &output{}, env, argv)
}

// dialOperator connects as an operator, past all links.
func (m *memberPod) dialOperator() *grpc.ClientConn {
	m.Helper()
	return m.dialAs(m.ca.ClientConfig(m.T, m.ca, testpki.Client(testpki.Operator)))
}

// dialAs connects with another certificate.
func (m *memberPod) dialAs(config *tls.Config) *grpc.ClientConn {
	m.Helper()
	conn, err := grpc.NewClient(m.listen, grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { conn.Close() })
	return conn
}

// status of the member; nil while the process manager does not know it.
func (m *memberPod) status() *agentv1.MemberStatus {
	status, err := m.calls.GetMember(m.ctx(), &agentv1.GetMemberRequest{})
	if err != nil {
		return nil
	}
	return status
}

// awaits waits until the condition holds for the member.
func (m *memberPod) awaits(what string, holds func(*agentv1.MemberStatus) bool) *agentv1.MemberStatus {
	m.Helper()
	var last *agentv1.MemberStatus
	eventually(m.T, func() error {
		if last = m.status(); last == nil || !holds(last) {
			return fmt.Errorf("%s: waiting for %s; the status is %v; output %q; log:\n%s", m.name, what, last, m.stdout,
				m.stderr)
		}
		return nil
	})
	return last
}

func (m *memberPod) awaitsWriting() *agentv1.MemberStatus {
	m.Helper()
	return m.awaits("the primary", (*agentv1.MemberStatus).GetWriting)
}

// says waits until the server has said in which role it is.
func (m *memberPod) says(role string) {
	m.Helper()
	m.awaitOutput(role + "\n")
}

// starts waits until the server was started as the primary so often.
func (m *memberPod) starts(want int) {
	m.Helper()
	eventually(m.T, func() error {
		if got := strings.Count(m.stdout.String(), "writer\n"); got != want {
			return fmt.Errorf("the primary was started %d times, want %d; log:\n%s", got, want, m.stderr)
		}
		return nil
	})
}

func (m *memberPod) fqdn() string { return m.name + "." + podDomain }

// member is who the pod is.
func (m *memberPod) member() permission.Member {
	m.Helper()
	status := m.awaits("its identity", func(s *agentv1.MemberStatus) bool { return s.GetIdentity() != "" })
	return permission.Member{Name: m.name, Identity: status.GetIdentity()}
}

// server is the process as seen from outside of its namespace; 0 when there is none.
func (m *memberPod) server() int {
	m.Helper()
	server, _ := m.below()
	return server
}

// below are the process and the sentinel; 0 where there is none, or more than one.
func (m *memberPod) below() (server, sentinel int) {
	m.Helper()
	var servers, sentinels []int
	for _, child := range children(m.T, m.process.inner()) {
		if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); err == nil &&
			strings.Contains(string(args), "\x00"+writing.SentinelCommand) {
			sentinels = append(sentinels, child)
		} else {
			servers = append(servers, child)
		}
	}
	only := func(pids []int) int {
		if len(pids) == 1 {
			return pids[0]
		}
		return 0
	}
	return only(servers), only(sentinels)
}

// cut has everything that the pod sends to other pods, and the API server sends, get lost; open connections stay open.
// mend ends that.
func (m *memberPod) cutPeers() {
	for _, link := range m.allLinks() {
		link.cut.Store(true)
	}
}

func (m *memberPod) mend() {
	for _, link := range m.allLinks() {
		link.mend()
	}
	m.api.down.Store(false)
}

// allLinks are those from and to the pod.
func (m *memberPod) allLinks() []*link {
	var all []*link
	for link := range maps.Values(m.to) {
		all = append(all, link)
	}
	for _, other := range m.set.members {
		if link := other.to[m.name]; link != nil {
			all = append(all, link)
		}
	}
	return all
}

// Record is what the API server has.
func (s *set) get() permission.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

func (s *set) put(r permission.Record, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record = r
}

// bootstrap begins all pods and names the first one, as the engine does.
func (s *set) bootstrap() {
	s.Helper()
	var all []permission.Member
	for _, m := range s.members {
		m.begin()
	}
	for _, m := range s.members {
		all = append(all, m.member())
	}
	s.put(permission.Record{}.Bootstrap(all))
	s.promise(s.members[0])
	s.put(s.get().Name(all[0]))
	s.tell(s.members...)
}

// promise has a candidate promise the present term.
func (s *set) promise(m *memberPod) {
	s.Helper()
	status, err := m.calls.Promise(m.ctx(), &agentv1.PromiseRequest{Term: s.get().Term})
	if err != nil || status.GetPromised() != s.get().Term {
		s.Fatalf("Promise: %v, %v", status, err)
	}
}

// tell has pods learn the record.
func (s *set) tell(members ...*memberPod) {
	s.Helper()
	for _, m := range members {
		if _, err := m.calls.Learn(m.ctx(), &agentv1.LearnRequest{Record: wire(s.get())}); err != nil {
			s.Fatal(err)
		}
	}
}

// wire is the record as an operator sends it.
func wire(r permission.Record) *agentv1.PrimaryRecord {
	list := func(l permission.List) *agentv1.MemberList {
		wired := &agentv1.MemberList{Version: l.Version, SynchronousReplicas: int32(l.SynchronousReplicas)}
		for _, m := range l.Members {
			wired.Members = append(wired.Members, &agentv1.Member{Name: m.Name, Identity: m.Identity})
		}
		return wired
	}
	wired := &agentv1.PrimaryRecord{Term: r.Term, List: list(r.List)}
	if r.Primary != nil {
		wired.Primary = &agentv1.Member{Name: r.Primary.Name, Identity: r.Primary.Identity}
	}
	if r.Previous != nil {
		wired.Previous = list(*r.Previous)
	}
	return wired
}

// writingClients keeps a connection open to each server, and writes on it without a pause, until the returned function
// is called.
func (s *set) writingClients() (stop func()) {
	var ended atomic.Bool
	var group sync.WaitGroup
	for _, m := range s.members {
		group.Go(func() {
			dials, writes := time.NewTicker(10*time.Millisecond), time.NewTicker(time.Millisecond)
			defer dials.Stop()
			defer writes.Stop()
			for n := 0; !ended.Load(); <-dials.C {
				conn, err := net.DialTimeout("tcp", net.JoinHostPort(m.ip, writesPort), time.Second)
				if err != nil {
					continue
				}
				for answers := bufio.NewReader(conn); err == nil && !ended.Load(); n++ {
					if err = conn.SetDeadline(time.Now().Add(time.Second)); err == nil {
						_, err = fmt.Fprintln(conn, n)
					}
					if err == nil {
						_, err = answers.ReadString('\n')
					}
					<-writes.C
				}
				conn.Close()
			}
		})
	}
	return func() { ended.Store(true); group.Wait() }
}

// primaryPeriod is a run of writes at one instance.
type primaryPeriod struct {
	instance    string
	first, last time.Duration
	writes      int
}

// primaryPeriods reads the log of all instances. Where two were written at once, they take turns.
func (s *set) primaryPeriods() []primaryPeriod {
	s.Helper()
	data, err := os.ReadFile(s.writes)
	if err != nil {
		s.Fatal(err)
	}
	type write struct {
		at       time.Duration
		instance string
	}
	var all []write
	for line := range strings.Lines(string(data)) {
		var w write
		var pid, n int
		if _, err := fmt.Sscan(line, &w.at, &w.instance, &pid, &n); err != nil {
			s.Fatalf("line %q: %v", line, err)
		}
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b write) int { return cmp.Compare(a.at, b.at) })
	var found []primaryPeriod
	for _, w := range all {
		if len(found) == 0 || found[len(found)-1].instance != w.instance {
			found = append(found, primaryPeriod{instance: w.instance, first: w.at})
		}
		last := &found[len(found)-1]
		last.last, last.writes = w.at, last.writes+1
	}
	return found
}

// wantPrimaryPeriods checks that the instances were written one after the other, in this order.
func (s *set) wantPrimaryPeriods(instances ...*memberPod) []primaryPeriod {
	s.Helper()
	found := s.primaryPeriods()
	var got, want []string
	for _, r := range found {
		got = append(got, r.instance)
	}
	for _, m := range instances {
		want = append(want, m.name)
	}
	if !slices.Equal(got, want) {
		s.Fatalf("writes came to %v, want %v: %+v", got, want, found)
	}
	return found
}

// awaitWrites waits until the instance was the last to be written.
func (s *set) awaitWrites(m *memberPod) {
	s.Helper()
	eventually(s.T, func() error {
		data, err := os.ReadFile(s.writes)
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		if err != nil || !strings.Contains(lines[len(lines)-1], " "+m.name+" ") {
			return fmt.Errorf("the last write is %q, %v; %v", lines[len(lines)-1], err, m.status())
		}
		return nil
	})
}
