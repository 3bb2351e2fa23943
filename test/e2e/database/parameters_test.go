// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// calmGap is less than any restart of a process takes clients: what they see of a machine with two cores that is busy
// otherwise.
const calmGap = 3 * time.Second

// TestRedisParameters changes parameters of a Redis that is written to, alone, with replicas, and under Sentinel, and
// of one that speaks TLS: what CONFIG SET takes restarts nothing, is in force in every pod, and is there again when a
// pod is made anew; the rest restarts processes, the primary's last. A Redis Cluster has the same in TestRedisCluster.
func TestRedisParameters(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "parameters")
	for _, c := range []struct {
		name     string
		replicas int
		settings []framework.Setting
	}{
		{"alone", 0, nil},
		{"replicas", 2, []framework.Setting{framework.WithReplicas(2)}},
		{"tls", 1, []framework.Setting{framework.WithReplicas(1), speaksTLS(nil)}},
		{"sentinel", 2, []framework.Setting{framework.WithReplicas(2), framework.WithSentinels(3),
			framework.WithVersion("8.0")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := s.In(t).CreateRedis(c.name, append(c.settings, framework.WithFsyncAlways())...)
			p := &parameterized{Instance: i, replicas: c.replicas}
			p.settled()
			p.everywhere(map[string]string{"maxmemory": fmt.Sprint(72 << 20), "hz": "10"})
			p.setsWhileItRuns()
			p.outlivesAPod()
			p.goesBack()
			p.restartsForTheRest()
			p.isRefused()
			p.followsItsLimit()
		})
	}
}

// parameterized is a Redis whose parameters change.
type parameterized struct {
	*framework.Instance
	replicas int
}

// settled waits until all servers have what is asked for, and the status names them.
func (p *parameterized) settled() {
	p.Helper()
	if p.replicas == 0 {
		p.WaitReady()
	} else {
		p.WaitForReplicas(p.replicas)
	}
	p.Eventually(framework.SettleTimeout, "the status names all servers", func() error {
		if members := p.Object().Status.Members; len(members) != p.replicas+1 {
			return fmt.Errorf("status says %v", members)
		}
		return nil
	})
}

// everywhere reads settings back from each pod.
func (p *parameterized) everywhere(want map[string]string) {
	p.Helper()
	for name, value := range want {
		wantEverywhere(p.Instance, name, value)
	}
}

// pods are those of the servers, with their identities.
func (p *parameterized) pods() map[string]types.UID {
	p.Helper()
	all := map[string]types.UID{}
	for _, m := range p.Object().Status.Members {
		pod := &corev1.Pod{}
		p.MustGet(m.Name, pod)
		all[m.Name] = pod.UID
	}
	return all
}

// whileWriting makes a change while somebody writes, who speaks no TLS.
func (p *parameterized) whileWriting(what string, limit time.Duration, edit framework.Setting) {
	p.Helper()
	if p.Account().CA != "" {
		p.Update(edit)
		p.settled()
		return
	}
	w := p.StartWriter()
	p.Update(edit)
	p.settled()
	w.WaitForWrite()
	w.Stop()
	w.StopAndVerify(what, limit)
}

// calmly makes a change while somebody writes: no process may be restarted, and the writer must see nothing of it.
func (p *parameterized) calmly(what string, edit framework.Setting) {
	p.Helper()
	pods, runs := p.pods(), runIDs(p.Instance)
	p.whileWriting(what, calmGap, edit)
	if now := p.pods(); !maps.Equal(pods, now) {
		p.Errorf("%s: the pods were %v and are %v", what, pods, now)
	}
	if now := runIDs(p.Instance); !maps.Equal(runs, now) {
		p.Errorf("%s: the processes were %v and are %v", what, runs, now)
	}
}

// dynamicParameters are some that CONFIG SET takes, and what the servers say of them then.
var dynamicParameters = platformv1.Parameters{
	"maxclients": "400", "hz": "25", "slowlog-log-slower-than": "-1", "notify-keyspace-events": "AKE",
	"latency-tracking-info-percentiles": "10 20.5",
	"client-output-buffer-limit":        "normal 0 0 0 replica 64mb 32mb 30 pubsub 8mb 2mb 60",
}

func (p *parameterized) hasDynamic() {
	p.Helper()
	p.everywhere(map[string]string{
		"maxclients": "400", "hz": "25", "slowlog-log-slower-than": "-1", "notify-keyspace-events": "AKE",
		"latency-tracking-info-percentiles": "10 20.5",
		"client-output-buffer-limit":        "normal 0 0 0 slave 67108864 33554432 30 pubsub 8388608 2097152 60",
		"maxmemory-policy":                  "allkeys-lru",
	})
}

func (p *parameterized) setsWhileItRuns() {
	p.Helper()
	p.calmly("parameters set", func(spec *databasev1.RedisSpec) {
		spec.Parameters, spec.MaxmemoryPolicy = dynamicParameters, "allkeys-lru"
	})
	p.hasDynamic()
}

// outlivesAPod deletes a pod: the one that is made anew has the parameters from its start.
func (p *parameterized) outlivesAPod() {
	p.Helper()
	name := p.PodName()
	if p.replicas > 0 {
		name = p.PodsInRole("replica")[0]
	}
	pod := &corev1.Pod{}
	p.MustGet(name, pod)
	p.Delete(pod, framework.GraceZero)
	p.Eventually(framework.ReadyTimeout, "pod "+name+" is made anew", func() error {
		now := &corev1.Pod{}
		if err := p.Get(name, now); err != nil {
			return err
		}
		if now.UID == pod.UID {
			return fmt.Errorf("it is still the old one")
		}
		return nil
	})
	p.settled()
	p.hasDynamic()
}

func (p *parameterized) goesBack() {
	p.Helper()
	p.calmly("parameters taken out", func(spec *databasev1.RedisSpec) { spec.Parameters, spec.MaxmemoryPolicy = nil, "" })
	p.everywhere(map[string]string{
		"maxclients": "10000", "hz": "10", "slowlog-log-slower-than": "10000", "notify-keyspace-events": "",
		"latency-tracking-info-percentiles": "50 99 99.9",
		"client-output-buffer-limit":        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
		"maxmemory-policy":                  "noeviction",
	})
}

// restartsForTheRest changes what only a start does, and with it what CONFIG SET would: each process is restarted in
// its pod, and a primary has handed over before.
func (p *parameterized) restartsForTheRest() {
	p.Helper()
	pods, runs, primary := p.pods(), runIDs(p.Instance), p.Object().Status.Primary
	p.whileWriting("a parameter that only a start changes", framework.FailoverGapLimit, func(spec *databasev1.RedisSpec) {
		spec.Parameters = platformv1.Parameters{"databases": "20", "hz": "30"}
	})
	if now := p.pods(); !maps.Equal(pods, now) {
		p.Errorf("the pods were %v and are %v", pods, now)
	}
	for pod, run := range runIDs(p.Instance) {
		if runs[pod] == run {
			p.Errorf("the process of %s is the one before", pod)
		}
	}
	if now := p.Object().Status.Primary; p.replicas > 0 && now == primary {
		p.Errorf("%s was restarted as the primary", primary)
	}
	p.everywhere(map[string]string{"databases": "20", "hz": "30"})
}

// isRefused sets what the schema takes and the server does not: the object says which parameter and why, and so does
// the record; servers go on.
func (p *parameterized) isRefused() {
	p.Helper()
	runs := runIDs(p.Instance)
	const name, says = "hash-max-listpack-value", "argument must be between"
	p.Update(func(spec *databasev1.RedisSpec) {
		spec.Parameters = platformv1.Parameters{"databases": "20", "hz": "30", name: "8888888888gb"}
	})
	named := func(text string) bool { return strings.Contains(text, name) && strings.Contains(text, says) }
	p.Eventually(framework.SettleTimeout, "the object says what the server does not take", func() error {
		r := p.Object()
		stalled := meta.FindStatusCondition(r.Status.Conditions, platformv1.StalledCondition)
		if stalled == nil || stalled.Reason != platformv1.ReasonConfigurationPending || !named(stalled.Message) {
			return fmt.Errorf("it says: %s", framework.Describe(r.Status.Conditions))
		}
		return nil
	})
	p.Eventually(framework.SettleTimeout, "the record says so too", func() error {
		var records platformv1.OperationList
		if err := framework.Cluster.Client.List(p.Ctx, &records, client.InNamespace(p.Namespace.Name)); err != nil {
			return err
		}
		for _, op := range records.Items {
			if op.Status.Phase == platformv1.OperationFailed && named(op.Status.Error) {
				return nil
			}
		}
		return fmt.Errorf("none of %d Operations failed with it", len(records.Items))
	})
	p.everywhere(map[string]string{"hz": "30", name: "64"})
	p.Update(func(spec *databasev1.RedisSpec) { delete(spec.Parameters, name) })
	p.settled()
	p.everywhere(map[string]string{"hz": "30", name: "64"})
	if now := runIDs(p.Instance); !maps.Equal(runs, now) {
		p.Errorf("the processes were %v and are %v", runs, now)
	}
}

// followsItsLimit gives the containers more memory and less: what Redis uses follows, while it runs.
func (p *parameterized) followsItsLimit() {
	p.Helper()
	for _, c := range []struct {
		limit string
		most  int
	}{{"256Mi", 168 << 20}, {"96Mi", 48 << 20}} {
		p.calmly("a limit of "+c.limit, func(spec *databasev1.RedisSpec) {
			spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(c.limit)}
		})
		p.everywhere(map[string]string{"maxmemory": fmt.Sprint(c.most)})
	}
}
