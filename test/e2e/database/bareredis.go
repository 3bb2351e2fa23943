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
	"testing"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// bareClusterScript runs a server of a Redis Cluster with the options that it is given. The others learn of the pod's
	// present address from it.
	bareClusterScript = `exec redis-server --dir /data --protected-mode no --cluster-enabled yes --cluster-announce-ip ` +
		`"$POD_IP" "$@"`
	// bareServerScript runs a server under Sentinel. The file of its configuration begins with the lines that follow the
	// domain of the pods and the first primary, and is then for the Sentinels to change.
	bareServerScript = `self="$POD_NAME.$1" primary=$2
shift 2
if [ ! -e /data/redis.conf ]; then
  printf '%s\n' "port 6379" "dir /data" "protected-mode no" "replica-announce-ip $self" "$@" >/data/new.conf
  [ "$self" = "$primary" ] || echo "replicaof $primary 6379" >>/data/new.conf
  mv /data/new.conf /data/redis.conf
fi
exec redis-server /data/redis.conf`
	// bareSentinelScript runs a Sentinel likewise.
	bareSentinelScript = `self="$POD_NAME.$1" primary=$2
shift 2
if [ ! -e /data/sentinel.conf ]; then
  until getent hosts "$primary" >/dev/null; do sleep 0.5; done
  printf '%s\n' "port 26379" "dir /data" "protected-mode no" "sentinel resolve-hostnames yes" \
    "sentinel announce-hostnames yes" "sentinel announce-ip $self" \
    "sentinel announce-port 26379" "sentinel monitor mymaster $primary 6379 2" "$@" >/data/new.conf
  mv /data/new.conf /data/sentinel.conf
fi
exec redis-server /data/sentinel.conf --sentinel`
)

// bareServers are servers of Redis that nobody looks after but themselves and the kubelet.
type bareServers struct {
	*bareSet
	ways *framework.PortForwards
}

// at is a client of one server, for a moment.
func (b *bareServers) at(pod string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: b.ways.Address(pod, redisPort), DialTimeout: framework.AnswerTimeout,
		ReadTimeout: framework.AnswerTimeout, MaxRetries: 1, Protocol: 2, DisableIdentity: true})
}

// roles says of each server whether it is a primary ("master") or a replica ("slave"), and has an error where one does
// not answer or does not hear its primary.
func (b *bareServers) roles() (map[string]string, error) {
	roles := map[string]string{}
	var problems []error
	for _, pod := range b.pods() {
		info, err := b.replication(pod.Name)
		role := framework.InfoField(info, "role")
		if err == nil && role == "slave" && framework.InfoField(info, "master_link_status") != "up" {
			err = fmt.Errorf("%s does not hear its primary at %s", pod.Name, framework.InfoField(info, "master_host"))
		}
		if roles[pod.Name] = role; err != nil {
			roles[pod.Name] = ""
			problems = append(problems, err)
		}
	}
	if len(roles) != int(b.replicas) {
		problems = append(problems, fmt.Errorf("there are %d pods", len(roles)))
	}
	return roles, errors.Join(problems...)
}

func (b *bareServers) replication(pod string) (string, error) {
	to := b.at(pod)
	defer to.Close()
	return to.Info(b.Ctx, "replication").Result()
}

// primaries are the pods that take writes, in order of name.
func (b *bareServers) primaries() []string {
	b.Helper()
	roles, err := b.roles()
	if err != nil {
		b.Fatal(err)
	}
	maps.DeleteFunc(roles, func(_, role string) bool { return role != "master" })
	return slices.Sorted(maps.Keys(roles))
}

// rests waits until servers are whole, and replaces those that the kubelet would not start at once again.
func (b *bareServers) rests(whole func() error) {
	b.Helper()
	b.freshen()
	b.Eventually(framework.ReadyTimeout, "the servers are whole", whole)
}

// heals waits until servers are as they were before a fault. What does not come back by itself is said, and gets what a
// person would do: the servers that do not answer, or do not hear their primary, are started anew.
func (b *bareServers) heals(whole func() error) {
	b.Helper()
	_, err := framework.Poll(b.Ctx, framework.SettleTimeout, "the servers are whole by themselves", whole)
	if err == nil {
		return
	}
	b.Logf("without an operator somebody has to look after them: %v", err)
	roles, _ := b.roles()
	for _, pod := range slices.Sorted(maps.Keys(roles)) {
		if roles[pod] == "" {
			b.ReplacePod(pod)
		}
	}
	b.Eventually(framework.ReadyTimeout, "the servers are whole again", whole)
}

// bareCluster is a Redis Cluster of three primaries with a replica each.
type bareCluster struct{ *bareServers }

// createBareCluster makes one with settings of redis.conf, as somebody would who has just pods and redis-cli.
func createBareCluster(s *framework.Namespace, name string, settings map[string]string) *bareCluster {
	s.Helper()
	command := []string{"sh", "-c", bareClusterScript, name}
	for _, setting := range slices.Sorted(maps.Keys(settings)) {
		command = append(command, "--"+setting, settings[setting])
	}
	b := &bareCluster{&bareServers{createBareSet(s, name, 6, redisPort, command...), s.NewPortForwards()}}
	b.ready()
	create := []string{"redis-cli", "--cluster", "create"}
	for _, pod := range b.pods() {
		create = append(create, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(redisPort)))
	}
	out, err := framework.Run(s.Ctx, s.Name, s.ClientPod(), framework.ClientPodName, "",
		append(create, "--cluster-replicas", "1", "--cluster-yes")...)
	if err != nil {
		s.Fatal(err)
	}
	s.Log(out)
	b.Eventually(framework.ReadyTimeout, "the bare cluster is whole", b.whole)
	return b
}

func (b *bareCluster) in(t *testing.T) *bareCluster {
	return &bareCluster{&bareServers{&bareSet{b.Namespace.In(t), b.name, b.replicas}, b.ways}}
}

// client for this Redis Cluster, like that for one of ours.
func (b *bareCluster) client() *redis.ClusterClient {
	b.Helper()
	return (&servers{Namespace: b.Namespace, ways: b.ways,
		pods: []client.ListOption{client.MatchingLabels{bareLabel: b.name}}}).client()
}

// whole says what is missing until each server says that all slots are served and none is open, and that it hears all
// others.
func (b *bareCluster) whole() error {
	roles, err := b.roles()
	if err != nil {
		return err
	}
	count := map[string]int{}
	for pod, role := range roles {
		count[role]++
		if err := b.wholeFor(pod); err != nil {
			return fmt.Errorf("%s: %w", pod, err)
		}
	}
	if count["master"] != 3 {
		return fmt.Errorf("the servers are %v", roles)
	}
	return nil
}

func (b *bareCluster) wholeFor(pod string) error {
	ctx, cancel := context.WithTimeout(b.Ctx, framework.AnswerTimeout)
	defer cancel()
	to := b.at(pod)
	defer to.Close()
	return saysWhole(ctx, to, int(b.replicas))
}

// bareElected is a Redis with two replicas, whose primary three Sentinels elect.
type bareElected struct {
	*bareServers
	sentinels *bareSet
}

// createBareElected makes one with settings of redis.conf, and with what each Sentinel is to do.
func createBareElected(s *framework.Namespace, name string, settings, watching map[string]string) *bareElected {
	s.Helper()
	domain := name + "." + s.Name + ".svc.cluster.local"
	primary := name + "-0." + domain
	command := []string{"sh", "-c", bareServerScript, name, domain, primary}
	for _, setting := range slices.Sorted(maps.Keys(settings)) {
		command = append(command, setting+" "+strconv.Quote(settings[setting]))
	}
	b := &bareElected{bareServers: &bareServers{createBareSet(s, name, 3, redisPort, command...), s.NewPortForwards()}}
	b.addressed()
	watchers := name + "-sentinel"
	command = []string{"sh", "-c", bareSentinelScript, watchers, watchers + "." + s.Name + ".svc.cluster.local", primary}
	for _, setting := range slices.Sorted(maps.Keys(watching)) {
		command = append(command, "sentinel "+setting+" mymaster "+watching[setting])
	}
	b.sentinels = createBareSet(s, watchers, 3, sentinelPort, command...)
	b.sentinels.addressed()
	b.Eventually(framework.ReadyTimeout, "the bare Sentinels watch their primary", b.whole)
	return b
}

func (b *bareElected) in(t *testing.T) *bareElected {
	s := b.Namespace.In(t)
	return &bareElected{&bareServers{&bareSet{s, b.name, b.replicas}, b.ways},
		&bareSet{s, b.sentinels.name, b.sentinels.replicas}}
}

// client asks the Sentinels for the primary, like that for one of ours.
func (b *bareElected) client() *redis.Client {
	b.Helper()
	var pods []string
	for _, pod := range b.sentinels.pods() {
		pods = append(pods, pod.Name)
	}
	return redis.NewFailoverClient(asking(b.ways, "mymaster", strconv.Itoa(sentinelPort), pods...))
}

// whole says what is missing until both replicas follow one primary, and all Sentinels name that and know each other.
func (b *bareElected) whole() error {
	roles, err := b.roles()
	if err != nil {
		return err
	}
	primary := ""
	for pod, role := range roles {
		if role == "master" && primary != "" {
			return fmt.Errorf("%s and %s take writes", primary, pod)
		}
		if role == "master" {
			primary = pod
		}
	}
	sentinels := b.sentinels.pods()
	if primary == "" || len(sentinels) != int(b.sentinels.replicas) {
		return fmt.Errorf("the servers are %v, and there are %d Sentinels", roles, len(sentinels))
	}
	for _, pod := range sentinels {
		if err := b.watches(pod, primary); err != nil {
			return fmt.Errorf("%s: %w", pod.Name, err)
		}
	}
	return nil
}

func (b *bareElected) watches(sentinel corev1.Pod, primary string) error {
	to := redis.NewSentinelClient(&redis.Options{Addr: b.ways.Address(sentinel.Name, sentinelPort),
		DialTimeout: framework.AnswerTimeout, ReadTimeout: framework.AnswerTimeout, DisableIdentity: true, Protocol: 2})
	defer to.Close()
	told, err := to.Master(b.Ctx, "mymaster").Result()
	if err != nil {
		return err
	}
	if told["flags"] != "master" || told["num-slaves"] != "2" || told["num-other-sentinels"] != "2" ||
		!strings.HasPrefix(told["ip"], primary+".") {
		return fmt.Errorf("it says that %s is %s with %s replicas, and knows %s others", told["ip"], told["flags"],
			told["num-slaves"], told["num-other-sentinels"])
	}
	return nil
}
