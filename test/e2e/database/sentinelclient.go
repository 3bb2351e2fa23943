// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/test/e2e/framework"
)

// elected is a Redis whose primary Sentinels elect, as its clients see it: they ask a Sentinel for the primary.
type elected struct {
	*framework.Instance
	ways *framework.PortForwards
}

func (e *elected) in(t *testing.T) *elected {
	return &elected{Instance: &framework.Instance{Namespace: e.Namespace.In(t), Name: e.Name}, ways: e.ways}
}

// client is one that knows the Sentinels' names, their port and what the primary is called, and what else the binding
// says.
func (e *elected) client() *redis.Client {
	e.Helper()
	secret := &corev1.Secret{}
	e.MustGet(e.Object().Status.BindingName, secret)
	host, port, master := string(secret.Data["sentinel-host"]), string(secret.Data["sentinel-port"]),
		string(secret.Data["sentinel-master-name"])
	if want := e.Object().Status.SentinelEndpoint; host == "" || host+":"+port != want || master == "" {
		e.Fatalf("the binding has Sentinels at %s:%s with the primary %q, and the status says %q", host, port, master, want)
	}
	var pods []string
	for n := range 3 {
		pods = append(pods, fmt.Sprintf("%s-sentinel-main-%d", e.Application(), n))
	}
	o := asking(e.ways, master, port, pods...)
	o.Password, o.SentinelPassword = string(secret.Data["password"]), string(secret.Data["password"])
	// Each is reached by another way than its name, and shows a certificate for that.
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := e.ways.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		name, _, _ := net.SplitHostPort(address)
		if !strings.Contains(name, ".") {
			name = host
		}
		return framework.TLSClient(ctx, conn, framework.TLSConfigFor(secret.Data["ca.crt"], name))
	}
	return redis.NewFailoverClient(o)
}

// asking are the options of a client that asks Sentinels, by the names of their pods, for a primary.
func asking(w *framework.PortForwards, primary, port string, sentinels ...string) *redis.FailoverOptions {
	o := &redis.FailoverOptions{MasterName: primary, Dialer: w.Dial, MaxRetries: -1, DialTimeout: framework.AnswerTimeout,
		ReadTimeout: framework.AnswerTimeout, PoolSize: 2}
	for _, pod := range sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, net.JoinHostPort(pod, port))
	}
	return o
}

// electedWriter writes without pause, and keeps what was acknowledged with a replica, and when.
type electedWriter struct {
	*framework.Namespace
	redis *redis.Client
	stop  context.CancelFunc
	done  chan struct{}
	mu    sync.Mutex
	times map[int]time.Time
	// problem is what the client was last told.
	problem error
}

// writes begins to write and returns once a write was acknowledged with a replica.
func (e *elected) writes(from int) *electedWriter {
	e.Helper()
	return writesWith(e.Instance.Namespace, e.client(), from)
}

// writesWith is writes with a client that asks any Sentinels.
func writesWith(s *framework.Namespace, c *redis.Client, from int) *electedWriter {
	s.Helper()
	ctx, stop := context.WithCancel(s.Ctx)
	w := &electedWriter{Namespace: s, redis: c, stop: stop, done: make(chan struct{}), times: map[int]time.Time{}}
	go func() {
		defer close(w.done)
		for n := from; ctx.Err() == nil; n++ {
			w.write(ctx, n)
		}
	}()
	s.Eventually(framework.SettleTimeout, "a write is acknowledged with a replica",
		func() error { return w.after(time.Time{}) })
	return w
}

// write writes one number. Both commands go over one connection: on another one WAIT would say nothing of the write.
func (w *electedWriter) write(ctx context.Context, n int) {
	pipe := w.redis.Pipeline()
	set := pipe.Set(ctx, "w:"+strconv.Itoa(n), n, 0)
	wait := pipe.Do(ctx, "WAIT", 1, time.Second.Milliseconds())
	_, err := pipe.Exec(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	replicas, waited := wait.Int()
	if w.problem = errors.Join(err, waited); w.problem == nil && set.Err() == nil && replicas >= 1 {
		w.times[n] = time.Now()
	}
}

// after says what is wrong unless a write was acknowledged after a time.
func (w *electedWriter) after(moment time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.times {
		if at.After(moment) {
			return nil
		}
	}
	return fmt.Errorf("none of %d is: %v", len(w.times), w.problem)
}

// judge waits until writes are acknowledged again, ends, and says how many there were, how many of them are lost, and
// the longest time without one.
func (w *electedWriter) judge() framework.Verdict {
	w.Helper()
	over := time.Now()
	w.Eventually(framework.ReadyTimeout, "a write is acknowledged with a replica after all",
		func() error { return w.after(over) })
	w.stop()
	<-w.done
	defer func() { _ = w.redis.Close() }()
	v := framework.Verdict{Acknowledged: len(w.times),
		Gap: framework.LongestGap(slices.SortedFunc(maps.Values(w.times), time.Time.Compare))}
	numbers := slices.Sorted(maps.Keys(w.times))
	for chunk := range slices.Chunk(numbers, framework.ReadBackScript) {
		var keys []string
		for _, n := range chunk {
			keys = append(keys, "w:"+strconv.Itoa(n))
		}
		var values []any
		w.Eventually(framework.SettleTimeout, "the primary tells what it has", func() (err error) {
			values, err = w.redis.MGet(w.Ctx, keys...).Result()
			return err
		})
		for i, n := range chunk {
			if values[i] != strconv.Itoa(n) {
				v.Lost++
			}
		}
	}
	return v
}
