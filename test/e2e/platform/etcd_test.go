// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// etcdComponent is the plugin's name of the component, and of the container that runs the member.
const etcdComponent = "etcd"

func etcdApplication() platformv1.ApplicationSpec {
	return platformv1.ApplicationSpec{
		Plugin: "etcd", PluginVersion: "1.0.0", Version: "3.5", Topology: "cluster",
		DeletionPolicy: platformv1.DeletionPolicyDelete,
		Components: []platformv1.ApplicationComponent{{
			Name: etcdComponent,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"),
					corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			Storage: &platformv1.Storage{Size: resource.MustParse("256Mi")},
			// Elections on a busy machine of two cores.
			Parameters: platformv1.Parameters{"heartbeat-interval": "100", "election-timeout": "5000"},
		}},
	}
}

// etcd is an etcd cluster of a test.
type etcd struct {
	*framework.Application
	// scheme of its addresses: http, or https where it speaks TLS.
	scheme string
}

// in returns the same cluster for a subtest.
func (e *etcd) in(t *testing.T) *etcd {
	return &etcd{Application: &framework.Application{Namespace: e.Namespace.In(t), Name: e.Name}, scheme: e.scheme}
}

// service is the address that clients use.
func (e *etcd) service() string { return e.scheme + "://" + e.Name + ":2379" }

// local is the address of a member in its own container.
func (e *etcd) local() string { return e.scheme + "://127.0.0.1:2379" }

// trust has etcdctl trust the CA that the pod has, where there is one.
const trust = "ETCDCTL_CACERT=/zeroinfra/certs/ca.crt"

// client is a command of a client of the cluster, to be run in the container of a member.
func (e *etcd) client(command ...string) []string {
	if e.scheme != "https" {
		return command
	}
	return append([]string{"env", trust}, command...)
}

// ctl runs etcdctl in the container of a member.
func (e *etcd) ctl(pod, endpoint string, arguments ...string) (string, error) {
	command := e.client(append([]string{"etcdctl", "--endpoints=" + endpoint, "--command-timeout=5s"}, arguments...)...)
	return framework.Run(e.Ctx, e.Namespace.Name, pod, etcdComponent, "", command...)
}

// mustCtl is ctl for what has to succeed.
func (e *etcd) mustCtl(pod, endpoint string, arguments ...string) string {
	e.Helper()
	var out string
	// On a busy machine a member may lead no more, or a command take longer than it may; each may be given twice.
	e.Eventually(framework.SettleTimeout, fmt.Sprintf("etcdctl %v", arguments), func() (err error) {
		out, err = e.ctl(pod, endpoint, arguments...)
		return err
	})
	return out
}

// byRole returns the names of the pods by the role that the engine gave them.
func (e *etcd) byRole() map[string][]string {
	e.Helper()
	roles := map[string][]string{}
	for _, pod := range e.Pods() {
		role := pod.Labels[platformv1.RoleLabel]
		roles[role] = append(roles[role], pod.Name)
	}
	return roles
}

// led waits until one pod is labelled as the leader, two as followers, and etcd says the same. It returns their names.
func (e *etcd) led() (leader string, followers []string) {
	e.Helper()
	e.Eventually(framework.SettleTimeout, "one pod leads and two follow, as etcd says", func() error {
		roles := e.byRole()
		if len(roles["leader"]) != 1 || len(roles["follower"]) != 2 {
			return fmt.Errorf("the roles are %v", roles)
		}
		leader, followers = roles["leader"][0], roles["follower"]
		for _, pod := range append([]string{leader}, followers...) {
			out, err := e.ctl(pod, e.local(), "endpoint", "status", "--write-out=fields")
			if err != nil {
				return err
			}
			if leads := statusField(out, "Leader") == statusField(out, "MemberID"); leads != (pod == leader) {
				return fmt.Errorf("pod %q has the role of a leader: %v, and leads: %v", pod, pod == leader, leads)
			}
		}
		return nil
	})
	return leader, followers
}

func statusField(out, name string) string {
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.Trim(strings.TrimSpace(key), `"`) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// etcdWriterScript puts growing numbers and prints those that etcd acknowledged, and as errors those that it did not.
const etcdWriterScript = `i=0
while [ ! -e "$1" ]; do
  i=$((i+1))
  if etcdctl --endpoints="$2" --command-timeout=5s put "w:$i" "$i" >/dev/null 2>&1
  then echo "$i"; else echo "$i" >&2; fi
done
true`

// etcdWriter writes without pause, and keeps outside of the cluster what was acknowledged and when.
type etcdWriter struct {
	*etcd
	pod, stopFile string
	log, failed   lineLog
	done          chan error
}

// StartWriter begins to write through the Service from the container of a member and returns once the first write was
// acknowledged.
func (e *etcd) startWriter(pod string) *etcdWriter { return e.startWriterTo(pod, e.service()) }

// startWriterTo is StartWriter with the addresses that the client chooses from.
func (e *etcd) startWriterTo(pod, endpoints string) *etcdWriter {
	e.Helper()
	w := &etcdWriter{etcd: e, pod: pod, stopFile: "/data/stop-" + strconv.FormatInt(time.Now().UnixNano(), 36),
		done: make(chan error, 1)}
	go func() {
		w.done <- framework.Exec(context.WithoutCancel(e.Ctx), e.Namespace.Name, pod, etcdComponent,
			e.client("sh", "-c", etcdWriterScript, "writer", w.stopFile, endpoints), nil, &w.log, &w.failed)
	}()
	w.acknowledgedAgain()
	return w
}

// acknowledgedAgain waits until a write is acknowledged after now.
func (w *etcdWriter) acknowledgedAgain() {
	w.Helper()
	before := w.log.count()
	w.Eventually(framework.SettleTimeout, "a write is acknowledged", func() error {
		if w.log.count() == before {
			return errors.New("there was none")
		}
		return nil
	})
}

// stop ends the writer, and has the test fail where an acknowledged write is not there, or the longest time between two
// of them is beyond the limit.
func (w *etcdWriter) stop(limit time.Duration) {
	w.Helper()
	if _, err := framework.Run(w.Ctx, w.Namespace.Name, w.pod, etcdComponent, "", "touch", w.stopFile); err != nil {
		w.Fatal(err)
	}
	if err := <-w.done; err != nil {
		w.Fatalf("the writer failed: %v", err)
	}
	lines, times := w.log.all()
	kept := map[string]bool{}
	for key := range strings.Lines(w.mustCtl(w.pod, w.service(), "get", "--prefix", "w:", "--keys-only")) {
		kept[strings.TrimSpace(key)] = true
	}
	v := framework.Verdict{Acknowledged: len(lines), Gap: framework.LongestGap(times)}
	for _, number := range lines {
		if !kept["w:"+number] {
			v.Lost++
		}
	}
	v.ExpectWithin(w.T, "etcd", limit)
}

// checkRetries holds that after a write that failed the next one is acknowledged.
func (w *etcdWriter) checkRetries() {
	w.Helper()
	failed, _ := w.failed.all()
	w.Logf("%d writes were not acknowledged: %v", len(failed), failed)
	for n := 1; n < len(failed); n++ {
		if a, err := strconv.Atoi(failed[n-1]); err == nil && failed[n] == strconv.Itoa(a+1) {
			w.Errorf("the writes %s and %s both failed: one retry was not enough", failed[n-1], failed[n])
		}
	}
}

// TestEtcd proves with etcdctl that a plugin without a line of Go gives a cluster that keeps what it acknowledged.
func TestEtcd(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "etcd")
	e := &etcd{Application: s.CreateApplication("locks", etcdApplication()), scheme: "http"}
	t.Logf("apply to Ready of three members: %s", framework.FormatSeconds(e.WaitReady()))
	for _, part := range []struct {
		name string
		run  func(*etcd)
	}{
		{"every member has what one was told", (*etcd).checkMembers},
		{"an even number is refused", (*etcd).checkEven},
		{"the leader is killed", (*etcd).checkKill},
		{"a parameter rolls through", (*etcd).checkRoll},
		{"a member that has lost its volume joins anew", (*etcd).checkRebuild},
		{"space that is used up is freed by an Operation", (*etcd).checkSpace},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(e.in(t)) })
	}
}

func (e *etcd) checkMembers() {
	leader, followers := e.led()
	e.mustCtl(followers[0], e.service(), "put", "kept", "yes")
	for _, pod := range append(followers, leader) {
		if out := e.mustCtl(pod, e.local(), "get", "kept", "--print-value-only"); out != "yes" {
			e.Errorf("pod %q has %q for what was put, want yes", pod, out)
		}
	}
	// Among themselves they speak TLS in any case.
	plain := 0
	if e.scheme == "http" {
		plain = 3
	}
	if out := e.mustCtl(leader, e.service(), "member", "list"); strings.Count(out, "started") != 3 ||
		strings.Count(out, "http://") != plain || strings.Count(out, "https://") != 6-plain {
		e.Errorf("the members are not three that speak TLS with each other:\n%s", out)
	}
	e.checkNames()
	app := e.Object()
	if app.Status.Binding == nil {
		e.Fatal("the status names no binding")
	}
	secret := &corev1.Secret{}
	e.MustGet(app.Status.Binding.Name, secret)
	uri := string(secret.Data["uri"])
	if string(secret.Data["type"]) != "etcd" || uri != e.scheme+"://"+e.Name+"."+e.Namespace.Name+".svc:2379" ||
		secret.Data["password"] != nil {
		e.Errorf("the binding has type %q, uri %q and keys %v", secret.Data["type"], uri, framework.SortedKeys(secret.Data))
	}
	if out := e.mustCtl(leader, uri, "get", "kept", "--print-value-only"); out != "yes" {
		e.Errorf("by the binding's address the value is %q, want yes", out)
	}
	if app.Status.Version != "3.5.16" && !strings.HasPrefix(app.Status.Version, "3.5.") {
		e.Errorf("the version that was read back is %q, want 3.5", app.Status.Version)
	}
}

// checkNames: the headless Service has a SRV record of each member that is ready.
func (e *etcd) checkNames() {
	domain := e.Name + "-" + etcdComponent + "-headless." + e.Namespace.Name + ".svc.cluster.local."
	e.Eventually(framework.SettleTimeout, "DNS names three members", func() error {
		_, found, err := e.Namespace.NewExternalClient().Resolver.LookupSRV(e.Ctx, "client", "tcp", domain)
		if err != nil {
			return err
		}
		var hosts []string
		for _, record := range found {
			hosts = append(hosts, fmt.Sprintf("%s:%d", record.Target, record.Port))
		}
		slices.Sort(hosts)
		var want []string
		for n := range 3 {
			want = append(want, fmt.Sprintf("%s-%d.%s:2379",
				platformv1.WorkloadSetNameFor(e.Name, etcdComponent, platformv1.DefaultSet), n, domain))
		}
		if !slices.Equal(hosts, want) {
			return fmt.Errorf("it names %v, want %v", hosts, want)
		}
		return nil
	})
}

// checkEven: an even number of members stands no more failures than one member less.
func (e *etcd) checkEven() {
	before := e.UIDs()
	rejects(e.Application, framework.WithComponentReplicas(etcdComponent, 4), platformv1.ReasonInvalidSpec, etcdComponent,
		"takes 1, 3 or 5")
	e.Update(framework.WithComponentReplicas(etcdComponent, 3))
	e.WaitReady()
	if after := e.UIDs(); !maps.Equal(before, after) {
		e.Errorf("the pods were %v and are %v: what is refused must touch nothing", before, after)
	}
}

// checkKill kills the leader's process as the kernel would: another one leads, and the old one comes back in the same
// pod.
func (e *etcd) checkKill() {
	leader, followers := e.led()
	before := e.UIDs()
	w := e.startWriter(followers[0])
	if _, err := framework.Run(e.Ctx, e.Namespace.Name, leader, etcdComponent, "", "busybox", "killall", "-9",
		"etcd"); err != nil {
		e.Fatal(err)
	}
	w.acknowledgedAgain()
	e.Eventually(framework.SettleTimeout, "the killed member is back", func() error {
		_, err := e.ctl(leader, e.local(), "endpoint", "health")
		return err
	})
	e.WaitReady()
	e.led()
	// An election takes one to two timeouts of 5 s, and a client may try a member that is gone for as long.
	w.stop(framework.FailoverGapLimit)
	if after := e.UIDs(); !maps.Equal(before, after) {
		e.Errorf("the pods were %v and are %v: the process restarts in place", before, after)
	}
}

// term returns etcd's own count of elections, as a member knows it.
func (e *etcd) term(pod string) int {
	e.Helper()
	out := e.mustCtl(pod, e.local(), "endpoint", "status", "--write-out=fields")
	term, err := strconv.Atoi(statusField(out, "RaftTerm"))
	if err != nil {
		e.Fatalf("the member tells no term: %v\n%s", err, out)
	}
	return term
}

// handedOver checks that the leader handed over to a follower that had changed already, and that etcd elected just
// once.
func (e *etcd) handedOver(leader string, term int) {
	e.Helper()
	set := &platformv1.WorkloadSet{}
	e.MustGet(platformv1.WorkloadSetNameFor(e.Name, etcdComponent, platformv1.DefaultSet), set)
	s := set.Status.Switchover
	if s == nil || s.Phase != platformv1.SwitchoverSucceeded || s.From != leader || s.Attempt > 2 {
		e.Fatalf("the status tells of the switchover %+v, want one from %q at the first attempt, or at the second on a "+
			"busy machine", s, leader)
	}
	now, _ := e.led()
	if now != s.To {
		e.Errorf("%q leads, want %q, which took over", now, s.To)
	}
	elections := e.term(now) - term
	e.Logf("%s handed over to %s; elections: %d", s.From, s.To, elections)
	if elections < 1 || elections > 2 {
		e.Errorf("etcd elected %d times, want once, and once more at most", elections)
	}
}

// checkRoll changes a static parameter: the members restart in place, one after the other and the leader last, which
// has handed over before. Writes go on: what fails once does not fail again.
func (e *etcd) checkRoll() {
	leader, followers := e.led()
	before, term := e.UIDs(), e.term(leader)
	var endpoints []string
	for _, pod := range append(slices.Clone(followers), leader) {
		endpoints = append(endpoints, e.scheme+"://"+pod+"."+e.Name+"-"+etcdComponent+"-headless:2379")
	}
	w := e.startWriterTo(followers[0], strings.Join(endpoints, ","))
	e.Update(framework.WithComponent(etcdComponent, func(c *platformv1.ApplicationComponent) {
		c.Parameters = maps.Clone(c.Parameters)
		c.Parameters["heartbeat-interval"] = "200"
	}))
	e.WaitReady()
	for _, pod := range append(slices.Clone(followers), leader) {
		out, err := framework.Run(e.Ctx, e.Namespace.Name, pod, etcdComponent, "", "sh", "-c",
			`tr '\0' '\n' < /proc/$(busybox pidof etcd)/environ`)
		if err != nil || !strings.Contains(out, "ETCD_HEARTBEAT_INTERVAL=200\n") {
			e.Errorf("pod %q runs without the new heartbeat interval: %v", pod, err)
		}
	}
	e.handedOver(leader, term)
	w.stop(restartGap)
	w.checkRetries()
	if after := e.UIDs(); !maps.Equal(before, after) {
		e.Errorf("the pods were %v and are %v: a parameter replaces no pod", before, after)
	}
}
