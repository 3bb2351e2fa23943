// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// handoverIn is how long a new password takes that processes take over beside the one before: three times as long as at once.
const handoverIn = 3 * rotationIn

// TestRotationOfMembers has servers that log in at each other get another password while clients write: none is kept out by another, and no client that reads
// the binding Secret when it connects loses a write. It runs alone because it measures.
func TestRotationOfMembers(t *testing.T) {
	t.Run("RedisCluster", func(t *testing.T) { newSpace(t, "clusterrotation").redisCluster("shop").rotates() })
	t.Run("Redis with replicas", func(t *testing.T) {
		newSpace(t, "replicarotation").redis("db", safe(), withReplicas(2)).rotates(inPlaceGap)
	})
	t.Run("Redis with Sentinels", func(t *testing.T) {
		newSpace(t, "sentinelrotation").redis("db", safe(), withReplicas(2), withSentinels(3)).rotates(failoverGap)
	})
}

func (r *redisCluster) rotates() {
	r.Helper()
	r.ready()
	r.whole(3)
	old, uids := r.account().password, r.uids()
	load := r.load()
	r.create(operation("rotate", "RotateCredentials", r.reference()))
	r.rotated("rotate")
	r.whole(3)
	load.judge(clusterFault{fault: fault{name: "cluster: password made anew", limit: failoverGap}, shards: 3})
	if r.account().password == old {
		r.Error("clients are told the former password")
	}
	for _, pod := range r.pods() {
		if pod.UID != uids[pod.Name] {
			r.Errorf("pod %s was replaced", pod.Name)
		}
		if role, link := r.info(pod.Name, "replication", "role"), r.info(pod.Name, "replication", "master_link_status"); role != "master" && link != "up" {
			r.Errorf("%s is a %s whose link is %q", pod.Name, role, link)
		}
		if err := r.as(pod.Name, "", old).Ping(r.ctx).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			r.Errorf("%s says of the former password: %v", pod.Name, err)
		}
	}
}

func (i *instance) rotates(limit time.Duration) {
	i.Helper()
	i.following(2)
	former := map[string]account{}
	for _, m := range i.object().Status.Members {
		former[m.Name] = i.at(m.Name)
	}
	i.create(operation("rotate", "RotateCredentials", i.reference()))
	var numbers []int
	var times []time.Time
	// Each write is a client of its own, with what the binding has then.
	put := func(number int) {
		if _, err := i.do("SET", fmt.Sprintf("rotated:%d", number), fmt.Sprint(number)); err == nil {
			numbers, times = append(numbers, number), append(times, time.Now())
		}
	}
	op := &platformv1.Operation{}
	number := 0
	i.eventually(handoverIn, "the password is made anew", func() error {
		put(number)
		number++
		i.mustGet("rotate", op)
		if op.Status.Phase != platformv1.OperationSucceeded && op.Status.Phase != platformv1.OperationFailed {
			return fmt.Errorf("it is %q: %s", op.Status.Phase, describe(op.Status.Conditions))
		}
		return nil
	})
	i.rotated("rotate")
	i.following(2)
	put(number)
	lost := 0
	for _, number := range numbers {
		if got := i.must("GET", fmt.Sprintf("rotated:%d", number)); got != fmt.Sprint(number) {
			lost++
		}
	}
	gap := longestGap(times)
	verdict{acknowledged: len(numbers), lost: lost, gap: gap, vacancy: gap}.hold(i.T, "password made anew", limit)
	if len(former) != 3 {
		i.Errorf("there were %d members", len(former))
	}
	for pod, a := range former {
		if i.at(pod).password == a.password {
			i.Error("clients are told the former password")
		}
		if said, err := i.redisCLI(a, "PING"); err == nil && said == "PONG" {
			i.Errorf("%s lets the former password in", pod)
		}
	}
}

// rotated waits until an Operation that makes a password anew has succeeded.
func (s *space) rotated(name string) {
	s.Helper()
	if ended := s.finished(name, handoverIn); ended.Status.Phase != platformv1.OperationSucceeded {
		s.Fatalf("it is %s: %s", ended.Status.Phase, ended.Status.Error)
	}
}
