// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

var three, five, lastTwo = []int{0, 1, 2}, []int{0, 1, 2, 3, 4}, []int{3, 4}

// begins: the first pod begins the cluster, when it is told to, and no other does.
func (e *etcdPods) begins() {
	e.Helper()
	for _, n := range three {
		e.starts(n)
	}
	e.wants(1, three, nil, false, "Waiting", "store-etcd-main-0 has yet to begin")
	e.wants(0, three, nil, false, "Working", "store-etcd-main-0 begins the cluster")
	e.settles(0, three, nil, false)
	e.isMade(0, three)
}

// isMade checks that a member names those of the pods and no others, none of which learns; it returns their IDs.
func (e *etcdPods) isMade(by int, pods []int) map[string]string {
	e.Helper()
	list, err := e.ctl(by, "member", "list")
	if err != nil {
		e.Fatalf("member list: %v: %s", err, list)
	}
	ids := map[string]string{}
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) == 6 && fields[1] == "started" && fields[5] == "false" {
			ids[fields[2]] = fields[0]
		}
	}
	for _, n := range pods {
		if ids[etcdName(n)] == "" {
			e.Errorf("pod %d is no member:\n%s", n, list)
		}
	}
	if strings.Count(list, "\n")+1 != len(pods) {
		e.Errorf("there are not %d members:\n%s", len(pods), list)
	}
	return ids
}

// scalesOut: a step is cut off after a member was added and before its pod starts; it is not added again.
func (e *etcdPods) scalesOut() {
	e.Helper()
	before := e.isMade(0, three)
	e.names(3)
	e.wants(1, five, nil, true, "Working", "store-etcd-main-3 is added")
	cut := e.asked(1, "step", five, nil, true)
	if err := cut.Start(); err != nil {
		e.Fatal(err)
	}
	added := func() string {
		if list, err := e.ctl(0, "member", "list"); err != nil || !strings.Contains(list, "unstarted") {
			return list
		}
		return ""
	}
	e.until("a member is added", added)
	_ = syscall.Kill(-cut.Process.Pid, syscall.SIGKILL)
	_ = cut.Wait()
	e.wants(0, five, nil, true, "Waiting", "store-etcd-main-3 joins")
	phase, reason := e.says(2, "step", five, nil, true)
	if phase != "Waiting" || !strings.Contains(reason, "store-etcd-main-3 joins") {
		e.Errorf("a step without the pod says %s: %s", phase, reason)
	}
	if list, _ := e.ctl(0, "member", "list"); strings.Count(list, "\n") != 3 {
		e.Errorf("after a step that was cut off there are not four members:\n%s", list)
	}
	e.starts(4)
	e.starts(3)
	e.settles(1, five, nil, true)
	after := e.isMade(4, five)
	for name, id := range before {
		if after[name] != id {
			e.Errorf("%s was %s and is %s", name, id, after[name])
		}
	}
}

// scalesIn: the leader is among those that leave, and hands over before. Their processes run on and are no members.
func (e *etcdPods) scalesIn() {
	e.Helper()
	ids := e.isMade(0, five)
	e.until("pod 4 leads", func() string {
		for _, n := range five {
			if _, err := e.ctl(n, "move-leader", ids[etcdName(4)]); err == nil {
				return ""
			}
		}
		return "no member hands over"
	})
	e.until("a look says that pod 4 hands over or pod 3 goes", func() string {
		phase, reason := e.says(0, "look", three, []int{4, 3}, true)
		if phase == "Working" && strings.Contains(reason, "store-etcd-main-4, which leads, hands over to store-etcd-main-0") {
			return ""
		}
		return phase + ": " + reason
	})
	// A member that stays and does not serve: nobody leaves.
	e.stops(1)
	e.wants(0, three, lastTwo, true, "Waiting", "the member of store-etcd-main-1 does not serve")
	e.starts(1)
	e.settles(0, three, []int{4, 3}, true)
	e.isMade(0, three)
	e.until("the pods that left know it", func() string {
		for _, n := range lastTwo {
			if _, err := e.ctl(n, "endpoint", "status"); err == nil {
				return "pod " + strconv.Itoa(n) + " serves"
			}
		}
		return ""
	})
	for _, n := range lastTwo {
		e.stops(n)
	}
}

// comesAgain scales out once more onto the volumes of members that were removed.
func (e *etcdPods) comesAgain() {
	e.Helper()
	e.starts(3)
	e.starts(4)
	e.settles(2, five, nil, true)
	e.isMade(3, five)
	e.settles(2, three, lastTwo, true)
	for _, n := range lastTwo {
		e.stops(n)
	}
}

// losesVolume: a member whose volume is gone is another one.
func (e *etcdPods) losesVolume() {
	e.Helper()
	before := e.isMade(0, three)
	e.stops(1)
	e.loses(1)
	e.starts(1)
	e.settles(0, three, nil, true)
	if after := e.isMade(0, three); after[etcdName(1)] == before[etcdName(1)] {
		e.Errorf("the member that has lost its volume is %s as before", after[etcdName(1)])
	}
}

// beginsOnce: while the others are down, the first pod does not begin another cluster on an empty volume.
func (e *etcdPods) beginsOnce() {
	e.Helper()
	for _, n := range three {
		e.stops(n)
	}
	e.loses(0)
	e.starts(0)
	e.wants(0, three, nil, true, "Waiting", "no majority of the members serves")
	if phase, reason := e.says(0, "step", three, nil, true); phase != "Waiting" {
		e.Errorf("without the others a step says %s: %s", phase, reason)
	}
	e.starts(1)
	e.starts(2)
	e.settles(0, three, nil, true)
	e.isMade(0, three)
}

// etcdWriter writes without pause and keeps what was acknowledged.
type etcdWriter struct {
	mu    sync.Mutex
	acked []string
	end   chan struct{}
	done  chan struct{}
}

// startWriter writes through the first three members, which stay.
func (e *etcdPods) startWriter() *etcdWriter {
	w := &etcdWriter{end: make(chan struct{}), done: make(chan struct{})}
	endpoints := e.client(0) + "," + e.client(1) + "," + e.client(2)
	go func() {
		defer close(w.done)
		for i := 0; ; i++ {
			select {
			case <-w.end:
				return
			default:
			}
			key := "w:" + strconv.Itoa(i)
			if e.command(0, "etcdctl", "--endpoints="+endpoints, "--command-timeout=5s", "put", key, "x").Run() == nil {
				w.mu.Lock()
				w.acked = append(w.acked, key)
				w.mu.Unlock()
			}
		}
	}()
	return w
}

func (w *etcdWriter) stop() {
	close(w.end)
	<-w.done
}

// checkWrites: what was acknowledged is there, in the member that came last.
func (e *etcdPods) checkWrites(w *etcdWriter) {
	e.Helper()
	out, err := e.ctl(0, "get", "--prefix", "w:", "--keys-only")
	if err != nil {
		e.Fatalf("%v: %s", err, out)
	}
	kept, lost := strings.Fields(out), 0
	slices.Sort(kept)
	for _, key := range w.acked {
		if _, found := slices.BinarySearch(kept, key); !found {
			lost++
		}
	}
	e.Logf("%d acknowledged writes, %d lost", len(w.acked), lost)
	if lost > 0 || len(w.acked) < 20 {
		e.Errorf("of %d acknowledged writes %d are lost", len(w.acked), lost)
	}
}
