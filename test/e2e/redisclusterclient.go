// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

func (r *redisCluster) account() account {
	r.Helper()
	return r.accountIn(r.object().Status.BindingName)
}

// at is a client of one server.
func (r *redisCluster) at(pod string) *redis.Client {
	r.Helper()
	return r.as(pod, "", r.account().password)
}

// as is a client of one server as a user, or without a name as the user default.
func (r *redisCluster) as(pod, user, password string) *redis.Client {
	r.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.way(pod), Username: user, Password: password, TLSConfig: r.security(r.account(), pod),
		DialTimeout: answerIn, ReadTimeout: answerIn, MaxRetries: 1, Protocol: 2, DisableIdentity: true})
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// security is how a client speaks to a pod, which is reached by another way than its name; nil without TLS.
func (r *redisCluster) security(a account, pod string) *tls.Config {
	return trusting([]byte(a.ca), pod+"."+r.application()+"-node-headless."+r.space.name+".svc")
}

// client for Redis Cluster, which reaches servers where they say that they are.
func (r *redisCluster) client() *redis.ClusterClient {
	r.Helper()
	a := r.account()
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"any:0", "any:1", "any:2"}, CredentialsProviderContext: r.bound(r.object().Status.BindingName), Protocol: 2, DisableIdentity: true,
		DialTimeout: answerIn, ReadTimeout: answerIn, MaxRedirects: 8, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			pod, err := r.podAt(ctx, address)
			if err != nil {
				return nil, err
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, r.way(pod))
			if err != nil {
				return nil, err
			}
			return secured(ctx, conn, r.security(a, pod))
		},
	})
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// bound tells each new connection what the binding has then.
func (r *redisCluster) bound(binding string) func(context.Context) (string, string, error) {
	return func(ctx context.Context) (string, string, error) {
		secret := &corev1.Secret{}
		err := world.client.Get(ctx, client.ObjectKey{Namespace: r.space.name, Name: binding}, secret)
		return "", string(secret.Data["password"]), err
	}
}

// podAt is the pod with an address, or one of them all.
func (r *redisCluster) podAt(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	var list corev1.PodList
	if err := world.client.List(ctx, &list, client.InNamespace(r.space.name), client.MatchingLabels{platformv1.ApplicationLabel: r.application()}); err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(port)
	for i, pod := range list.Items {
		if pod.DeletionTimestamp == nil && pod.Labels[platformv1.ComponentLabel] != "" && (pod.Status.PodIP == host || strings.HasPrefix(host, pod.Name+".") || host == "any" && i == n) {
			return pod.Name, nil
		}
	}
	return "", fmt.Errorf("no pod has the address %s: %w", address, io.ErrUnexpectedEOF)
}

// clusterLoad are clients that write, and what was acknowledged with a replica.
type clusterLoad struct {
	*redisCluster
	client *redis.ClusterClient
	stop   context.CancelFunc
	all    sync.WaitGroup
	mu     sync.Mutex
	// times of the acknowledged writes of each client.
	times [clients][]time.Time
}

// load begins to write and returns when each client has.
func (r *redisCluster) load() *clusterLoad {
	r.Helper()
	ctx, stop := context.WithCancel(r.ctx)
	l := &clusterLoad{redisCluster: r, client: r.client(), stop: stop}
	for i := range clients {
		l.all.Go(func() { l.write(ctx, i) })
	}
	r.eventually(settleIn, "each client has written", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
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
	return fmt.Sprintf("%s:%d:%d", l.Name(), client, number)
}

// write writes the next key until it is acknowledged with a replica, again and again.
func (l *clusterLoad) write(ctx context.Context, client int) {
	for number := 0; ctx.Err() == nil; {
		if l.put(ctx, l.key(client, number)) != nil {
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

// put writes a key and waits, on the same connection, until a replica has it.
func (l *clusterLoad) put(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	return l.client.Watch(ctx, func(tx *redis.Tx) error {
		if err := tx.Set(ctx, key, key, 0).Err(); err != nil {
			return err
		}
		replicas, err := tx.Wait(ctx, 1, answerIn/2).Result()
		if err == nil && replicas < 1 {
			err = errors.New("no replica has it")
		}
		return err
	}, key)
}

// clusterFault is one thing that is done to a Redis Cluster, how many shards it has then, and the gap of one client at which its test fails.
type clusterFault struct {
	fault
	shards int
	does   func(r *redisCluster)
}

// judge ends the writing, reads all back, and says what the fault has cost.
func (l *clusterLoad) judge(f clusterFault) {
	l.Helper()
	over := time.Now()
	l.eventually(settleIn, "each client writes after all", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, times := range l.times {
			if !times[len(times)-1].After(over) {
				return fmt.Errorf("client %d does not", i)
			}
		}
		return nil
	})
	l.stop()
	l.all.Wait()
	var v verdict
	for i, times := range l.times {
		v.acknowledged += len(times)
		v.gap = max(v.gap, longestGap(times))
		v.lost += l.lost(i, len(times))
	}
	v.vacancy = v.gap
	v.tell(f.name)
	v.hold(l.T, f.name, f.limit)
}

// lost counts the writes of a client that cannot be read back.
func (l *clusterLoad) lost(client, count int) int {
	l.Helper()
	lost := 0
	for start := 0; start < count; start += readBack {
		end := min(start+readBack, count)
		var answers []redis.Cmder
		l.eventually(settleIn, "the primaries tell what they have", func() error {
			// The error is that of the first command that has one, which may be that there is no such key.
			answers, _ = l.client.Pipelined(l.ctx, func(p redis.Pipeliner) error {
				for number := start; number < end; number++ {
					p.Get(l.ctx, l.key(client, number))
				}
				return nil
			})
			for _, answer := range answers {
				if err := answer.Err(); err != nil && !errors.Is(err, redis.Nil) {
					return err
				}
			}
			return nil
		})
		for i, answer := range answers {
			if answer.(*redis.StringCmd).Val() != l.key(client, start+i) {
				lost++
			}
		}
	}
	return lost
}
