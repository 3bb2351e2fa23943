// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/bench/acknowledged"
	"github.com/zeroinfra/test/e2e/framework"
)

func (r *redisCluster) account() framework.Account {
	r.Helper()
	return r.AccountIn(r.object().Status.BindingName)
}

// at is a client of one server.
func (r *redisCluster) at(pod string) *redis.Client {
	r.Helper()
	return r.as(pod, "", r.account().Password)
}

// as is a client of one server as a user, or without a name as the user default.
func (r *redisCluster) as(pod, user, password string) *redis.Client {
	r.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.way(pod), Username: user, Password: password,
		TLSConfig:   r.security(r.account(), pod),
		DialTimeout: framework.AnswerTimeout, ReadTimeout: framework.AnswerTimeout, MaxRetries: 1, Protocol: 2,
		DisableIdentity: true})
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// security is how a client speaks to a pod, which is reached by another way than its name; nil without TLS.
func (r *redisCluster) security(a framework.Account, pod string) *tls.Config {
	return framework.TLSConfigFor([]byte(a.CA), pod+"."+r.application()+"-node-headless."+r.Namespace.Name+".svc")
}

// client for Redis Cluster, which reaches servers where they say that they are.
func (r *redisCluster) client() *redis.ClusterClient {
	r.Helper()
	a := r.account()
	return (&servers{
		Namespace: r.Namespace, ways: r.ways, login: r.bound(r.object().Status.BindingName),
		secures: func(pod string) *tls.Config { return r.security(a, pod) },
		// Those of Jobs are of no component.
		pods: []client.ListOption{client.MatchingLabels{platformv1.ApplicationLabel: r.application()},
			client.HasLabels{platformv1.ComponentLabel}},
	}).client()
}

// servers are those of a Redis Cluster, however that was made, as a client outside of the cluster reaches them.
type servers struct {
	*framework.Namespace
	ways *framework.PortForwards
	// pods selects theirs.
	pods []client.ListOption
	// login is asked for user and password of each new connection; nil where there is no password.
	login func(context.Context) (string, string, error)
	// secures says how a pod is spoken to; nil for without TLS.
	secures func(pod string) *tls.Config
}

func (s *servers) client() *redis.ClusterClient {
	s.Helper()
	// A server that is gone keeps the client from asking the others for who has its slots, for as long as it tries to
	// connect.
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"any:0", "any:1", "any:2"}, CredentialsProviderContext: s.login, Protocol: 2, DisableIdentity: true,
		DialTimeout: framework.ProbeTimeout, ReadTimeout: framework.AnswerTimeout, MaxRedirects: 8, DialerRetries: 1,
		ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			pod, err := s.podAt(ctx, address)
			if err != nil {
				return nil, err
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, s.ways.Address(pod, redisPort))
			if err != nil || s.secures == nil {
				return conn, err
			}
			return framework.TLSClient(ctx, conn, s.secures(pod))
		},
	})
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// bound tells each new connection what the binding has then.
func (r *redisCluster) bound(binding string) func(context.Context) (string, string, error) {
	return func(ctx context.Context) (string, string, error) {
		secret := &corev1.Secret{}
		err := framework.Cluster.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace.Name, Name: binding}, secret)
		return "", string(secret.Data["password"]), err
	}
}

// podAt is the pod with an address, or one of them all.
func (s *servers) podAt(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	var list corev1.PodList
	if err := framework.Cluster.Client.List(ctx, &list,
		append([]client.ListOption{client.InNamespace(s.Name)}, s.pods...)...); err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(port)
	for i, pod := range list.Items {
		if pod.DeletionTimestamp == nil && (pod.Status.PodIP == host || strings.HasPrefix(host, pod.Name+".") ||
			host == "any" && i == n) {
			return pod.Name, nil
		}
	}
	return "", fmt.Errorf("no pod has the address %s: %w", address, io.ErrUnexpectedEOF)
}

// clusterLoad are clients that write, and what was acknowledged with a replica.
type clusterLoad struct {
	*framework.Namespace
	client *redis.ClusterClient
	stop   context.CancelFunc
	all    sync.WaitGroup
	mu     sync.Mutex
	// times of the acknowledged writes of each client.
	times [clients][]time.Time
	// taken are the times of the writes of one client more, which waits for no replica.
	taken []time.Time
	// met counts writes that failed by how the servers answered, as answerOf says.
	met map[string]int
}

// load begins to write and returns when each client has.
func (r *redisCluster) load() *clusterLoad {
	r.Helper()
	return loadWith(r.Namespace, r.client())
}

// loadWith is load with a client for any Redis Cluster.
func loadWith(s *framework.Namespace, c *redis.ClusterClient) *clusterLoad {
	s.Helper()
	ctx, stop := context.WithCancel(s.Ctx)
	l := &clusterLoad{Namespace: s, client: c, stop: stop, met: map[string]int{}}
	for i := range clients {
		l.all.Go(func() { l.write(ctx, i) })
	}
	l.all.Go(func() { l.probe(ctx) })
	s.Eventually(framework.SettleTimeout, "each client has written", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.taken) < 3 {
			return fmt.Errorf("the one that waits for no replica has %d times", len(l.taken))
		}
		for i := range clients {
			if len(l.times[i]) < 3 {
				return fmt.Errorf("client %d has %d times", i, len(l.times[i]))
			}
		}
		return nil
	})
	return l
}

// key of a write: each goes to another slot.
func (l *clusterLoad) key(client, number int) string {
	return fmt.Sprintf("%s:%d:%d", l.T.Name(), client, number)
}

// write writes the next key until it is acknowledged with a replica, again and again.
func (l *clusterLoad) write(ctx context.Context, client int) {
	for number := 0; ctx.Err() == nil; {
		if err := l.put(ctx, l.key(client, number)); err != nil {
			l.mu.Lock()
			l.met[answerOf(err)]++
			l.mu.Unlock()
			// A transaction, other than a command, does not have the client ask another server when its own is gone.
			l.client.ReloadState(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		l.mu.Lock()
		l.times[client] = append(l.times[client], time.Now())
		l.mu.Unlock()
		number++
	}
}

// probe writes to one slot after the other without waiting for a replica: while nobody takes writes for some slots it
// comes no further.
func (l *clusterLoad) probe(ctx context.Context) {
	pace := time.NewTicker(framework.WriteEvery)
	defer pace.Stop()
	for number := 0; ctx.Err() == nil; {
		within, cancel := context.WithTimeout(ctx, framework.ProbeTimeout)
		err := l.client.Set(within, fmt.Sprintf("%s:probe:%d", l.T.Name(), number), number, 0).Err()
		cancel()
		if err == nil {
			l.mu.Lock()
			l.taken = append(l.taken, time.Now())
			l.mu.Unlock()
			number++
		}
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
}

// put writes a key and waits, on the same connection, until a replica has it.
func (l *clusterLoad) put(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, framework.AnswerTimeout)
	defer cancel()
	return acknowledged.Set(ctx, l.client, key, framework.AnswerTimeout/2)
}

// clusterFault is one thing that is done to a Redis Cluster, how many shards it has then, and the gap of one client at
// which its test fails.
type clusterFault struct {
	framework.Fault
	shards int
	does   func(r *redisCluster)
}

// judge ends the writing, reads all back, and says what the fault has cost.
func (l *clusterLoad) judge(f clusterFault) {
	l.Helper()
	v := l.end()
	v.Record(f.Name)
	v.ExpectWithin(l.T, f.Name, f.Limit)
}

// end waits until each client writes again, ends the writing and reads all back.
func (l *clusterLoad) end() framework.Verdict {
	l.Helper()
	over := time.Now()
	l.Eventually(framework.SettleTimeout, "each client writes after all", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, times := range l.times {
			if !times[len(times)-1].After(over) {
				return fmt.Errorf("client %d does not", i)
			}
		}
		if !l.taken[len(l.taken)-1].After(over) {
			return errors.New("the one that waits for no replica does not")
		}
		return nil
	})
	l.stop()
	l.all.Wait()
	var v framework.Verdict
	for i, times := range l.times {
		v.Acknowledged += len(times)
		v.Gap = max(v.Gap, framework.LongestGap(times))
		for _, number := range l.lost(i, len(times)) {
			v.Losses = append(v.Losses, framework.Loss{Key: l.key(i, number), At: times[number]})
		}
	}
	if v.Lost = len(v.Losses); v.Lost > 0 {
		l.explain(v.Losses)
	}
	v.Vacancy = framework.LongestGap(l.taken)
	return v
}

// answerOf is how a server answered that could not do what it was asked: the first word, and of what has no word of its
// own all of it. It is empty for what is no answer, as a connection that broke.
func answerOf(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	if word == "ERR" {
		return answer.Error()
	}
	return word
}
