// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// electedFault is one thing that goes wrong, or that is asked for, under load.
type electedFault struct {
	name string
	// moves says that another server is the primary afterwards.
	moves bool
	does  func(e *elected, primary string)
}

// electedFaults of a round. There is one way to another version, and so one round of it.
func electedFaults(round int) []electedFault {
	called := func(name string) string { return fmt.Sprintf("%s-%d", name, round) }
	faults := []electedFault{
		{"process killed", true, func(e *elected, primary string) {
			framework.ReplicatedRedisKind.Signal(e.Namespace, primary, "KILL")
		}},
		{"process does not come back", true, func(e *elected, primary string) { e.killedUntilElected(primary) }},
		{"pod deleted", true, func(e *elected, primary string) { e.deletePods(e.uid(primary), primary) }},
		{"pod and volume deleted", true, func(e *elected, primary string) {
			e.deleteClaimOf(primary)
			e.deletePods(e.uid(primary), primary, framework.GraceZero)
		}},
		{"switched over", true, func(e *elected, _ string) {
			e.Create(framework.NewOperation(called("switch"), "Switchover", e.Reference()))
			e.ExpectOperationSucceeded(called("switch"))
		}},
		{"parameter that restarts", true, func(e *elected, _ string) {
			e.Update(func(spec *databasev1.RedisSpec) {
				spec.Parameters = platformv1.Parameters{"databases": platformv1.ParameterValue(strconv.Itoa(8 + round))}
			})
		}},
		{"restarted by an Operation", true, func(e *elected, _ string) {
			e.Create(framework.NewRestartOperation(called("restart"), e.Reference()))
			e.WaitForOperation(called("restart"))
		}},
		{"another one elected while no operator runs", true, func(e *elected, primary string) {
			e.StopOperator()
			elected := e.killedUntilElected(primary)
			e.StartOperator()
			if now := e.whole(2, 3); now != elected {
				e.Errorf("%s is the primary, and the Sentinels elected %s", now, elected)
			}
		}},
		{"all pods deleted", false, func(e *elected, _ string) {
			for _, pod := range e.allPods() {
				e.Delete(&pod)
			}
		}},
		{"Sentinel and its volume deleted", false, func(e *elected, _ string) {
			sentinel := e.sentinelPod(0)
			e.deleteClaimOf(sentinel)
			e.deletePods(e.uid(sentinel), sentinel, framework.GraceZero)
		}},
		{"more and fewer Sentinels", false, func(e *elected, _ string) {
			e.Update(framework.WithSentinels(5))
			e.watched(5)
			e.Update(framework.WithSentinels(3))
			e.watched(3)
		}},
		{"more and fewer replicas", false, func(e *elected, _ string) {
			e.Update(framework.WithReplicas(3))
			e.replicate(3)
			e.Update(framework.WithReplicas(2))
		}},
		{"all pods deleted, and the primary's volume", true,
			func(e *elected, primary string) { e.losesAll(primary, called("elect")) }},
		{"failed over by an Operation", true, func(e *elected, primary string) { e.failsOver(primary, called("failover")) }},
		{"reloaded by an Operation", false, func(e *elected, _ string) {
			e.Create(framework.NewOperation(called("reload"), "Reload", e.Reference()))
			e.ExpectOperationSucceeded(called("reload"))
		}},
	}
	if round > 0 {
		return faults
	}
	return append(faults,
		electedFault{"another version", true, func(e *elected, _ string) {
			e.Update(func(spec *databasev1.RedisSpec) { spec.Version = "8.0" })
			e.whole(2, 3)
			if got := e.Object().Status.Version; !strings.HasPrefix(got, "8.0.") {
				e.Errorf("the status says version %q", got)
			}
		}},
		electedFault{"pod and volume deleted, another version", true, faults[3].does},
		electedFault{"all pods deleted, another version", false, faults[8].does},
	)
}

// failsOver has the Sentinels elect another server by an Operation.
func (e *elected) failsOver(primary, operation string) {
	e.Helper()
	e.Create(framework.NewOperation(operation, "Failover", e.Reference()))
	done := e.WaitForOperationEnd(operation, framework.SettleTimeout).Status
	if to := done.Steps[1].Outputs["to"]; done.Phase != platformv1.OperationSucceeded || to == "" || to == primary {
		e.Errorf("the Operation is %s, and says that %q took over from %s: %s", done.Phase, to, primary, done.Error)
	}
}

// killedUntilElected has the primary be killed and not start before the Sentinels name another server, and returns
// that.
func (e *elected) killedUntilElected(primary string) (elected string) {
	e.Helper()
	framework.ReplicatedRedisKind.KillUntil(e.Namespace, primary, "", "", "", func() {
		e.Eventually(framework.SettleTimeout, "the Sentinels name another server", func() error {
			told, err := e.asks(0)
			if elected, _, _ = strings.Cut(told["ip"], "."); err == nil && (elected == "" || elected == primary) {
				err = fmt.Errorf("Sentinel 0 names %q", told["ip"])
			}
			return err
		})
	})
	return elected
}

// losesAll deletes all pods and the volume of the primary: nobody is elected until a person says with whose data to go
// on, which is the one that was changed last.
func (e *elected) losesAll(primary, operationName string) {
	e.Helper()
	e.deleteClaimOf(primary)
	was := map[string]types.UID{}
	for _, pod := range e.allPods() {
		was[pod.Name] = pod.UID
		e.Delete(&pod)
	}
	var best, latest string
	e.Eventually(framework.ReadyTimeout, "the others say how old their data is, and nobody writes", func() error {
		r := e.Object()
		if r.Status.Primary != "" || len(e.PodsInRole("replica")) != 2 {
			return fmt.Errorf("%q is the primary of %v", r.Status.Primary, r.Status.Members)
		}
		best, latest = "", ""
		for _, pod := range e.PodsInRole("replica") {
			text, err := framework.Logs(e.Ctx, e.Namespace.Name, pod, framework.RedisComponent)
			if err != nil {
				return err
			}
			_, changed, says := strings.Cut(text, "the data here was last changed at ")
			if e.uid(pod) == was[pod] || !says {
				return fmt.Errorf("%s has yet to say it", pod)
			}
			if changed, _, _ = strings.Cut(changed, "\n"); changed > latest {
				best, latest = pod, changed
			}
		}
		return nil
	})
	e.Logf("%s has the latest data, of %s", best, latest)
	e.CreateApproved(framework.NewOperation(operationName, "Elect", e.Reference(), "pod", best))
	e.WaitForOperation(operationName)
	if now := e.whole(2, 3); now != best {
		e.Errorf("%s is the primary, and %s was to be", now, best)
	}
}

// TestRedisSentinel has Sentinels elect the primary of a Redis that speaks TLS, and proves that a client that asks them
// finds it after each fault, and that no write is lost that a replica had. It runs alone because it measures.
func TestRedisSentinel(t *testing.T) {
	s := framework.NewNamespace(t, "sentinel")
	i := s.CreateRedis("db", framework.WithReplicas(2), framework.WithSentinels(3), speaksTLS(nil),
		framework.WithFsyncAlways())
	took := i.WaitReadyCondition()
	e := &elected{Instance: i, ways: s.NewPortForwards()}
	e.whole(2, 3)
	t.Logf("ready after %s: %v", framework.FormatSeconds(took),
		i.TableColumns(databasev1.GroupVersion.WithResource("redis"), i.Name))
	i.ExpectTableColumns(databasev1.GroupVersion.WithResource("redis"), i.Name, "Pods", "Primary", "Replicas", "Sentinels",
		"Read-Only")
	if got := i.Object().Status.Durability; got != platformv1.DurabilityAsynchronous {
		t.Errorf("status.durability is %q", got)
	}
	e.keepsOut()
	var all []electedFault
	for round := range framework.Config.FaultRounds {
		all = append(all, electedFaults(round)...)
	}
	for n, fault := range all {
		if !t.Run(fault.name, func(t *testing.T) {
			e := e.in(t)
			primary := e.whole(2, 3)
			w := e.writes(n * 1_000_000)
			fault.does(e, primary)
			now := e.whole(2, 3)
			v := w.judge()
			v.Record("Sentinel: " + fault.name)
			t.Logf("%s was the primary, then %s", primary, now)
			v.ExpectWithin(t, fault.name, expiryGap)
			if fault.moves && now == primary {
				t.Errorf("%s is still the primary", now)
			}
		}) {
			return
		}
	}
}

// whole waits until all servers follow one primary and all Sentinels watch that and know each other, and returns it.
func (e *elected) whole(replicas, sentinels int) (primary string) {
	e.Helper()
	e.replicate(replicas)
	e.watched(sentinels)
	return e.Object().Status.Primary
}

// replicate waits until that many replicas follow the primary and have what it is told to wait for, while others may
// write.
func (e *elected) replicate(number int) {
	e.Helper()
	e.Eventually(framework.ReadyTimeout, fmt.Sprintf("%d replicas follow the primary", number), func() error {
		r := e.Object()
		if err := framework.ReadyNow(r, r.Status.ObservedGeneration); err != nil {
			return err
		}
		if want := fmt.Sprintf("%[1]d/%[1]d", number); r.Status.Replicas != want || len(e.PodsInRole("primary")) != 1 {
			return fmt.Errorf("status says %q: %v", r.Status.Replicas, r.Status.Members)
		}
		a := e.AccountAt(r.Status.Primary)
		if got, err := e.RedisCLI(a, "WAIT", fmt.Sprint(number), "1000"); err != nil || got != fmt.Sprint(number) {
			return fmt.Errorf("%s of %d replicas have the last write: %v", got, number, err)
		}
		return nil
	})
}

// watched waits until that many Sentinels watch the primary, and each knows just the others and has the quorum that
// goes with it.
func (e *elected) watched(number int) {
	e.Helper()
	// A server that was scaled in is forgotten by one Sentinel after the other.
	e.Eventually(2*framework.ReadyTimeout,
		fmt.Sprintf("%d Sentinels watch the primary and know each other and its replicas", number), func() error {
			r := &databasev1.Redis{}
			if err := e.Get(e.Name, r); err != nil {
				return err
			}
			if err := framework.ReadyNow(r, r.Status.ObservedGeneration); err != nil {
				return err
			}
			if want := fmt.Sprintf("%[1]d/%[1]d", number); r.Status.Sentinels != want {
				return fmt.Errorf("the status says %q", r.Status.Sentinels)
			}
			for n := range number {
				told, err := e.asks(n)
				if err != nil {
					return err
				}
				if want := fmt.Sprint(*r.Spec.Replicas); told["num-slaves"] != want {
					return fmt.Errorf("Sentinel %d knows of %q replicas, want %s", n, told["num-slaves"], want)
				}
				if told["num-other-sentinels"] != strconv.Itoa(number-1) || told["quorum"] != strconv.Itoa(number/2+1) ||
					told["flags"] != "master" ||
					!strings.HasPrefix(told["ip"], r.Status.Primary+".") {
					return fmt.Errorf("Sentinel %d knows of %s others, has a quorum of %s, and of %s says %q", n,
						told["num-other-sentinels"], told["quorum"], told["ip"], told["flags"])
				}
			}
			return nil
		})
}

func (e *elected) sentinelPod(n int) string {
	return fmt.Sprintf("%s-sentinel-main-%d", e.Application(), n)
}

// sentinelAccount is how a client reaches one of the Sentinels.
func (e *elected) sentinelAccount(n int) framework.Account {
	e.Helper()
	a := e.Account()
	a.Host, a.Port = e.sentinelPod(n)+"."+e.Application()+"-sentinel-headless."+e.Namespace.Name+".svc", "26379"
	return a
}

// asks is what a Sentinel knows of the primary.
func (e *elected) asks(n int) (map[string]string, error) {
	out, err := e.RedisCLI(e.sentinelAccount(n), "SENTINEL", "MASTER", "mymaster")
	if err != nil {
		return nil, err
	}
	told, lines := map[string]string{}, strings.Split(out, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		told[lines[i]] = lines[i+1]
	}
	return told, nil
}

// keepsOut: clients ask Sentinels, and cannot tell them anything; who has no password cannot ask.
func (e *elected) keepsOut() {
	e.Helper()
	a := e.sentinelAccount(0)
	for _, command := range [][]string{{"SENTINEL", "FAILOVER", "mymaster"}, {"SENTINEL", "REMOVE", "mymaster"},
		{"SENTINEL", "SET", "mymaster", "quorum", "1"}, {"SHUTDOWN"}} {
		if out, err := e.RunClientCommand(func() (string, error) { return e.RedisCLI(a, command...) }); err == nil ||
			!strings.Contains(out+err.Error(), "NOPERM") {
			e.Errorf("a client asks for %v and is told %q: %v", command, out, err)
		}
	}
	a.Password = "wrong"
	if out, err := e.RedisCLI(a, "SENTINEL", "MASTERS"); err == nil {
		e.Errorf("with a wrong password, the answer is %q", out)
	}
}

func (e *elected) allPods() []corev1.Pod {
	e.Helper()
	return (&framework.Application{Namespace: e.Namespace, Name: e.Application()}).Pods()
}

func (e *elected) uid(pod string) types.UID {
	e.Helper()
	p := &corev1.Pod{}
	e.MustGet(pod, p)
	return p.UID
}

// deletePods deletes a pod and waits until another one of its name is there.
func (e *elected) deletePods(was types.UID, name string, options ...client.DeleteOption) {
	e.Helper()
	pod := &corev1.Pod{}
	e.MustGet(name, pod)
	e.Delete(pod, options...)
	e.Eventually(framework.ReadyTimeout, "pod "+name+" is there again", func() error {
		p := &corev1.Pod{}
		if err := e.Get(name, p); err != nil {
			return err
		}
		if p.UID == was {
			return fmt.Errorf("it is still the one before")
		}
		return nil
	})
}

// deleteClaimOf deletes the volumes of a pod, which go with the pod.
func (e *elected) deleteClaimOf(pod string) {
	e.Helper()
	for name, claim := range (&framework.Application{Namespace: e.Namespace, Name: e.Application()}).Claims() {
		if strings.HasSuffix(name, pod) {
			e.Delete(&claim)
		}
	}
}
