// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

// calmGap is less than any restart of a process takes clients: what they see of a machine with two cores that is busy otherwise.
const calmGap = 3 * time.Second

// TestRedisParameters changes parameters of a Redis that is written to, alone, with replicas, and under Sentinel, and of one that speaks TLS: what CONFIG SET takes
// restarts nothing, is in force in every pod, and is there again when a pod is made anew; the rest restarts processes, the primary's last. A Redis Cluster has
// the same in TestRedisCluster.
func TestRedisParameters(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "parameters")
	for _, c := range []struct {
		name     string
		replicas int
		settings []setting
	}{
		{"alone", 0, nil},
		{"replicas", 2, []setting{withReplicas(2)}},
		{"tls", 1, []setting{withReplicas(1), speaksTLS(nil)}},
		{"sentinel", 2, []setting{withReplicas(2), withSentinels(3), version("8.0")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := s.in(t).redis(c.name, append(c.settings, safe())...)
			p := &parameterized{instance: i, replicas: c.replicas}
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
	*instance
	replicas int
}

// settled waits until all servers have what is asked for, and the status names them.
func (p *parameterized) settled() {
	p.Helper()
	if p.replicas == 0 {
		p.ready()
	} else {
		p.following(p.replicas)
	}
	p.eventually(settleIn, "the status names all servers", func() error {
		if members := p.object().Status.Members; len(members) != p.replicas+1 {
			return fmt.Errorf("status says %v", members)
		}
		return nil
	})
}

// everywhere reads settings back from each pod.
func (p *parameterized) everywhere(want map[string]string) {
	p.Helper()
	for name, value := range want {
		p.wantEverywhere(name, value)
	}
}

// pods are those of the servers, with their identities.
func (p *parameterized) pods() map[string]types.UID {
	p.Helper()
	all := map[string]types.UID{}
	for _, m := range p.object().Status.Members {
		pod := &corev1.Pod{}
		p.mustGet(m.Name, pod)
		all[m.Name] = pod.UID
	}
	return all
}

// whileWriting makes a change while somebody writes, who speaks no TLS.
func (p *parameterized) whileWriting(what string, limit time.Duration, edit setting) {
	p.Helper()
	if p.account().ca != "" {
		p.update(edit)
		p.settled()
		return
	}
	w := p.startWriter()
	p.update(edit)
	p.settled()
	w.resumed()
	w.stop()
	w.judge(what, limit)
}

// calmly makes a change while somebody writes: no process may be restarted, and the writer must see nothing of it.
func (p *parameterized) calmly(what string, edit setting) {
	p.Helper()
	pods, runs := p.pods(), p.runIDs()
	p.whileWriting(what, calmGap, edit)
	if now := p.pods(); !maps.Equal(pods, now) {
		p.Errorf("%s: the pods were %v and are %v", what, pods, now)
	}
	if now := p.runIDs(); !maps.Equal(runs, now) {
		p.Errorf("%s: the processes were %v and are %v", what, runs, now)
	}
}

// dynamicParameters are some that CONFIG SET takes, and what the servers say of them then.
var dynamicParameters = platformv1.Parameters{
	"maxclients": "400", "hz": "25", "slowlog-log-slower-than": "-1", "notify-keyspace-events": "AKE", "latency-tracking-info-percentiles": "10 20.5",
	"client-output-buffer-limit": "normal 0 0 0 replica 64mb 32mb 30 pubsub 8mb 2mb 60",
}

func (p *parameterized) hasDynamic() {
	p.Helper()
	p.everywhere(map[string]string{
		"maxclients": "400", "hz": "25", "slowlog-log-slower-than": "-1", "notify-keyspace-events": "AKE", "latency-tracking-info-percentiles": "10 20.5",
		"client-output-buffer-limit": "normal 0 0 0 slave 67108864 33554432 30 pubsub 8388608 2097152 60", "maxmemory-policy": "allkeys-lru",
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
	name := p.podName()
	if p.replicas > 0 {
		name = p.role("replica")[0]
	}
	pod := &corev1.Pod{}
	p.mustGet(name, pod)
	p.delete(pod, graceZero)
	p.eventually(readyIn, "pod "+name+" is made anew", func() error {
		now := &corev1.Pod{}
		if err := p.get(name, now); err != nil {
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
		"maxclients": "10000", "hz": "10", "slowlog-log-slower-than": "10000", "notify-keyspace-events": "", "latency-tracking-info-percentiles": "50 99 99.9",
		"client-output-buffer-limit": "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", "maxmemory-policy": "noeviction",
	})
}

// restartsForTheRest changes what only a start does, and with it what CONFIG SET would: each process is restarted in its pod, and a primary has
// handed over before.
func (p *parameterized) restartsForTheRest() {
	p.Helper()
	pods, runs, primary := p.pods(), p.runIDs(), p.object().Status.Primary
	p.whileWriting("a parameter that only a start changes", failoverGap, func(spec *databasev1.RedisSpec) {
		spec.Parameters = platformv1.Parameters{"databases": "20", "hz": "30"}
	})
	if now := p.pods(); !maps.Equal(pods, now) {
		p.Errorf("the pods were %v and are %v", pods, now)
	}
	for pod, run := range p.runIDs() {
		if runs[pod] == run {
			p.Errorf("the process of %s is the one before", pod)
		}
	}
	if now := p.object().Status.Primary; p.replicas > 0 && now == primary {
		p.Errorf("%s was restarted as the primary", primary)
	}
	p.everywhere(map[string]string{"databases": "20", "hz": "30"})
}

// isRefused sets what the schema takes and the server does not: the object says which parameter and why, and so does the record; servers go on.
func (p *parameterized) isRefused() {
	p.Helper()
	runs := p.runIDs()
	const name, says = "hash-max-listpack-value", "argument must be between"
	p.update(func(spec *databasev1.RedisSpec) {
		spec.Parameters = platformv1.Parameters{"databases": "20", "hz": "30", name: "8888888888gb"}
	})
	named := func(text string) bool { return strings.Contains(text, name) && strings.Contains(text, says) }
	p.eventually(settleIn, "the object says what the server does not take", func() error {
		r := p.object()
		stalled := meta.FindStatusCondition(r.Status.Conditions, platformv1.StalledCondition)
		if stalled == nil || stalled.Reason != platformv1.ReasonConfigurationPending || !named(stalled.Message) {
			return fmt.Errorf("it says: %s", describe(r.Status.Conditions))
		}
		return nil
	})
	p.eventually(settleIn, "the record says so too", func() error {
		var records platformv1.OperationList
		if err := world.client.List(p.ctx, &records, client.InNamespace(p.space.name)); err != nil {
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
	p.update(func(spec *databasev1.RedisSpec) { delete(spec.Parameters, name) })
	p.settled()
	p.everywhere(map[string]string{"hz": "30", name: "64"})
	if now := p.runIDs(); !maps.Equal(runs, now) {
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
