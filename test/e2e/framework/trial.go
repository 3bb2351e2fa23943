// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// WriteEvery is how often a trial writes, and probeEvery how often it asks each member for whether it takes writes.
	WriteEvery, probeEvery = 10 * time.Millisecond, 100 * time.Millisecond
	// ackTimeout is how long a write waits for another member, and ClientTimeout how long a client waits for an answer
	// before it connects again. A prober gives up after ProbeTimeout.
	ackTimeout, ClientTimeout, ProbeTimeout = time.Second, 2 * time.Second, time.Second
)

// session is one connection of a client.
type session interface {
	// write has the server take a number and another member have it. It is acknowledged without an error.
	write(ctx context.Context, number int64) error
	close()
}

// stamped is what happened at a time: a number that was acknowledged, or a write that a member took.
type stamped struct {
	at     time.Time
	number int64
	member string
}

// Trial is one fault under load. A client outside of the cluster writes growing numbers through the Service and keeps
// those that were acknowledged, and others ask all members for whether they take writes. Neither needs the API server.
type Trial struct {
	*Replicated
	service Target
	stop    func()

	mu             sync.Mutex
	writes, probes []stamped
	failures       []failure
}

// Written counts the numbers of all trials: one that was written in an earlier one is not taken for one of a later one.
var Written atomic.Int64

// StartTrial starts to write and to probe.
func (r *Replicated) StartTrial() *Trial {
	r.Helper()
	a := r.AccountIn(r.Object().Status.Binding.Name)
	t := &Trial{Replicated: r, service: Target{r.Namespace.NewExternalClient(), a, net.JoinHostPort(a.Host, a.Port)}}
	ctx, cancel := context.WithCancel(r.Ctx)
	var busy sync.WaitGroup
	t.stop = func() {
		cancel()
		busy.Wait()
	}
	r.Cleanup(t.stop)
	busy.Go(func() { t.write(ctx) })
	for _, pod := range r.Pods() {
		busy.Go(func() { t.probe(ctx, pod.Name) })
	}
	r.Eventually(SettleTimeout, "a write is acknowledged", func() error { return t.acknowledgedAfter(time.Time{}) })
	return t
}

// write writes until the context ends. What was not acknowledged is not counted, and its number not used again.
func (t *Trial) write(ctx context.Context) {
	pace := time.NewTicker(WriteEvery)
	defer pace.Stop()
	var at session
	for ctx.Err() == nil {
		if number := Written.Add(1); t.acknowledges(ctx, &at, number) {
			t.mu.Lock()
			t.writes = append(t.writes, stamped{at: time.Now(), number: number})
			t.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
	if at != nil {
		at.close()
	}
}

// acknowledges says whether a write is. A session that failed is followed by another one.
func (t *Trial) acknowledges(ctx context.Context, at *session, number int64) bool {
	ctx, cancel := context.WithTimeout(ctx, ClientTimeout)
	defer cancel()
	var err error
	if *at == nil {
		if *at, err = t.Kind.connect(ctx, t.service); err != nil {
			*at = nil
			t.failed("to connect", err)
			return false
		}
	}
	if err = (*at).write(ctx, number); err != nil {
		t.failed("to write", err)
		(*at).close()
		*at = nil
	}
	return err == nil
}

// probe asks a member until the context ends, again and again also while it has not answered.
func (t *Trial) probe(ctx context.Context, member string) {
	to := t.service
	to.address = net.JoinHostPort(member+"."+t.Name+"-"+t.Kind.Component+"-headless."+t.Namespace.Name+".svc", t.Kind.port)
	pace := time.NewTicker(probeEvery)
	defer pace.Stop()
	var asked sync.WaitGroup
	defer asked.Wait()
	for ctx.Err() == nil {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
			defer cancel()
			if at, err := t.Kind.probe(ctx, to); err == nil {
				t.took(stamped{at: at, member: member})
			}
		})
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
}

func (t *Trial) took(probes ...stamped) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.probes = append(t.probes, probes...)
}

// acknowledgedAfter gives an error unless a write was acknowledged after a time.
func (t *Trial) acknowledgedAfter(moment time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.writes) == 0 || !t.writes[len(t.writes)-1].at.After(moment) {
		return fmt.Errorf("of %d none was after %s", len(t.writes), moment)
	}
	return nil
}

// StartIsolatedSession has one session go on to write to the server of a pod from another pod of its node, as a client
// does that is cut off with it. What is returned ends it, and has its writes judged with those of the prober.
func (t *Trial) StartIsolatedSession(name string) (leave func()) {
	t.Helper()
	pod := &corev1.Pod{}
	t.MustGet(name, pod)
	file := "ha" + strconv.FormatInt(time.Now().UnixNano(), 36)
	beside := "beside-" + file
	t.RunClient(beside, t.Kind.image, func(client *corev1.Pod) { client.Spec.NodeName = pod.Spec.NodeName })
	if _, err := Run(t.Ctx, t.Namespace.Name, beside, beside, t.service.Password+"\n", "sh", "-c", t.Kind.SessionScript,
		"session", file, pod.Status.PodIP, name); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		var taken string
		t.Eventually(SettleTimeout, "the session at "+name+" ends", func() (err error) {
			taken, err = Run(t.Ctx, t.Namespace.Name, beside, beside, "", "sh", "-c",
				`: >"/tmp/$1.stop"; [ -e "/tmp/$1.ended" ] && cat "/tmp/$1.session"`, "session", file)
			return err
		})
		var probes []stamped
		for line := range strings.Lines(taken) {
			if probe, ok := parseProbe(line); ok {
				probes = append(probes, probe)
			}
		}
		if len(probes) == 0 {
			t.Fatalf("the session at %s says %q", name, taken)
		}
		t.took(probes...)
		t.Logf("the session at %s took %d writes, the last at %s", name, len(probes),
			probes[len(probes)-1].at.Format("15:04:05.000"))
	}
}

// parseProbe reads what a session says of a write: "p", seconds and microseconds of the server's time, and the member.
func parseProbe(line string) (stamped, bool) {
	fields := strings.Fields(line)
	if len(fields) != 4 || fields[0] != "p" {
		return stamped{}, false
	}
	at, err := serverTime(fields[1], fields[2])
	return stamped{at: at, member: fields[3]}, err == nil
}

// End waits until writes are acknowledged again, stops writing and judges.
func (t *Trial) End() Verdict {
	t.Helper()
	over := time.Now()
	t.Eventually(SettleTimeout, "a write is acknowledged after all", func() error { return t.acknowledgedAfter(over) })
	t.stop()
	slices.SortFunc(t.probes, func(a, b stamped) int { return a.at.Compare(b.at) })
	v := Verdict{Acknowledged: len(t.writes), Gap: LongestGap(moments(t.writes)), Vacancy: LongestGap(moments(t.probes))}
	for i := 1; i < len(t.probes); i++ {
		if t.probes[i].member != t.probes[i-1].member {
			v.changes++
		}
	}
	v.Lost = v.Acknowledged - t.kept()
	return v
}

// kept is how many of the acknowledged writes are there.
func (t *Trial) kept() int {
	t.Helper()
	numbers := make([]int64, 0, len(t.writes))
	for _, write := range t.writes {
		numbers = append(numbers, write.number)
	}
	var have map[int64]bool
	t.Eventually(EndpointTimeout, "the primary tells what it has", func() (err error) {
		have, err = t.Kind.kept(t.Ctx, t.service, numbers)
		return err
	})
	return len(have)
}

func moments(list []stamped) []time.Time {
	times := make([]time.Time, 0, len(list))
	for _, s := range list {
		times = append(times, s.at)
	}
	return times
}
