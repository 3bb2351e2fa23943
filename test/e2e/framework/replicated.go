// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// SignalScript sends a signal to the processes of a server.
const SignalScript = `for p in /proc/[0-9]*; do
  read -r name <"$p/comm" && [ "$name" = "$2" ] && kill "-$1" "${p#/proc/}"
done 2>/dev/null
`

// endScript kills a server that cannot start again while what it starts with is not to be read, which is until the
// input ends, or for some seconds.
const endScript = `mode=$(stat -c %a "$3") && [ "$mode" != 0 ] && trap 'chmod "$mode" "$3"' EXIT && chmod 0 "$3" ||
  exit 1
` + SignalScript + `timeout "$4" cat >/dev/null
exit 0`

// Replicated is a middleware of one primary and its replicas, where the engine says who writes.
type Replicated struct {
	*Application
	Kind *ReplicatedKind
}

// ReplicatedKind is what tells one of them from another.
type ReplicatedKind struct {
	// title of the middleware in tables.
	title string
	// Component of the plugin, and container that runs the server, whose processes are called process.
	Component, Process string
	// data is what a server cannot start without being able to read, as long as it is there. For a Redis that is no
	// folder: where it cannot look into that, it begins to make one anew.
	data string
	// port of its members for clients.
	port string
	// connect opens a session of a client at an address, and probe has a server take one write that waits for no other
	// member: it says when, by the server's clock. kept says which numbers are there.
	connect func(ctx context.Context, to Target) (session, error)
	probe   func(ctx context.Context, to Target) (time.Time, error)
	kept    func(ctx context.Context, to Target, numbers []int64) (map[int64]bool, error)
	// SessionScript runs in a pod of the image on the node of a member: one session that stays and goes on to write, whose
	// writes wait for no other member. It is given the name of its file, the member's address and its name.
	image, SessionScript string
	// Failover is when another one takes over; nil for the plugin's default.
	Failover *platformv1.Failover
}

// ReplicatedRedisKind is Redis.
var ReplicatedRedisKind = &ReplicatedKind{title: "Redis", Component: RedisComponent, Process: "redis-server",
	data: "/data/appendonlydir/appendonly.aof.manifest", port: "6379",
	connect: connectRedis, probe: probeRedis, kept: keptInRedis, image: RedisImage, SessionScript: redisSession,
	// What the kind Redis asks for.
	Failover: &platformv1.Failover{After: &metav1.Duration{Duration: time.Second}}}

// CreateReplicatedRedis creates an Application of the plugin redis with replicas.
func (s *Namespace) CreateReplicatedRedis(name string, changes ...func(*platformv1.ApplicationSpec)) *Replicated {
	s.Helper()
	spec := platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0", Topology: "replication",
		DeletionPolicy: platformv1.DeletionPolicyDelete, Failover: ReplicatedRedisKind.Failover.DeepCopy(),
		Components: []platformv1.ApplicationComponent{{Name: RedisComponent,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
					corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			Storage: &platformv1.Storage{Size: resource.MustParse("64Mi")},
			// With "everysec" a Redis whose disk is slow holds back what goes into its file: one that is killed then starts
			// again without that.
			Parameters: platformv1.Parameters{"appendfsync": "always"},
		}}}
	for _, change := range changes {
		change(&spec)
	}
	return &Replicated{s.CreateApplication(name, spec), ReplicatedRedisKind}
}

// WorkloadSet is the WorkloadSet of its pods.
func (r *Replicated) WorkloadSet() *platformv1.WorkloadSet {
	r.Helper()
	set := &platformv1.WorkloadSet{}
	r.MustGet(platformv1.WorkloadSetNameFor(r.Name, r.Kind.Component, platformv1.DefaultSet), set)
	return set
}

// WaitForPrimary waits until all pods are members and one of them writes, and returns it with its term.
func (r *Replicated) WaitForPrimary() (primary string, term int64) {
	r.Helper()
	r.Eventually(ReadyTimeout, "the Application is ready and all its pods are members", func() error {
		app := &platformv1.Application{}
		if err := r.Get(r.Name, app); err != nil {
			return err
		}
		if err := ReadyNow(app, app.Status.ObservedGeneration); err != nil {
			return err
		}
		w := r.WorkloadSet().Status.Primary
		if w == nil || w.Member == nil || w.Previous != nil || len(w.List.Members) != 3 ||
			w.Member.Name != app.Status.Primary || w.Term != app.Status.Term {
			return fmt.Errorf("the record is %+v, the Application says %q in term %d", w, app.Status.Primary, app.Status.Term)
		}
		primary, term = w.Member.Name, w.Term
		return nil
	})
	return primary, term
}

// Signal sends a signal to the process of a pod.
func (r *Replicated) Signal(pod, signal string) {
	r.Helper()
	r.Kind.Signal(r.Namespace, pod, signal)
}

// Signal sends a signal to the server's process in a pod.
func (k *ReplicatedKind) Signal(s *Namespace, pod, signal string) {
	s.Helper()
	command := []string{"sh", "-c", SignalScript + "exit 0", "signal", signal, k.Process}
	if _, err := Run(s.Ctx, s.Name, pod, k.Component, "", command...); err != nil {
		s.Fatal(err)
	}
}

// KillUntil has the process of a pod killed, and not able to start before something has come of that. What is to happen
// first is a script, with its input and its fifth argument; empty for nothing.
func (k *ReplicatedKind) KillUntil(s *Namespace, pod, input, before, argument string, comes func()) {
	s.Helper()
	stdin, enough := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		var said bytes.Buffer
		command := []string{"sh", "-c", before + endScript, "end", "KILL", k.Process, k.data,
			strconv.Itoa(int(SettleTimeout.Seconds())), argument}
		if err := Exec(s.Ctx, s.Name, pod, k.Component, command, io.MultiReader(strings.NewReader(input), stdin), io.Discard,
			&said); err != nil {
			ended <- fmt.Errorf("cannot end what pod %s runs: %w: %s", pod, err, said.String())
		}
		close(ended)
	}()
	comes()
	enough.Close()
	if err := <-ended; err != nil {
		s.Fatal(err)
	}
}

// KillUntilPrimaryChanges has the writer be killed and not start before another pod writes.
func (r *Replicated) KillUntilPrimaryChanges(primary string) {
	r.Helper()
	r.Kind.KillUntil(r.Namespace, primary, "", "", "", func() { r.WaitForPrimaryChange(primary, SettleTimeout) })
}

// StopAndVerify says what a trial showed, and what of it must never be: a write lost that a replica had, or two that
// take writes, which shows as more changes between members than there were terms. It returns who writes, and in which
// term, since the trial has ended: before that a writer may be deposed for what was done to it a moment ago.
func (t *Trial) StopAndVerify(name string, before int64, limit time.Duration) (primary string, after int64) {
	t.Helper()
	v := t.End()
	if story := t.story(); story != "" {
		t.Log(story)
	}
	primary, after = t.WaitForPrimary()
	v.Record(t.Kind.title + ": " + name)
	t.Logf("%s: term %d to %d, longest gap at any member %s", name, before, after, FormatSeconds(v.Vacancy))
	v.ExpectWithin(t.T, name, limit)
	if v.changes > after-before {
		t.Errorf("%s: another member took writes %d times in %d changes of the term: two of them did at once", name,
			v.changes, after-before)
	}
	return primary, after
}

// LogChanges logs when the engine deposed and named writers.
func (r *Replicated) LogChanges() {
	r.Helper()
	list, err := Cluster.Kube.EventsV1().Events(r.Namespace.Name).List(r.Ctx, metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	for _, event := range list.Items {
		if strings.HasPrefix(event.Reason, "Primary") {
			r.Logf("%s %s: %s", event.EventTime.Format("15:04:05.000"), event.Reason, event.Note)
		}
	}
}

// WaitForPrimaryChange waits until another pod writes than the one given.
func (r *Replicated) WaitForPrimaryChange(from string, limit time.Duration) {
	r.Helper()
	took := r.Eventually(limit, "another pod than "+from+" writes", func() error {
		app := r.Object()
		if app.Status.Primary == "" || app.Status.Primary == from {
			return fmt.Errorf("%q writes in term %d: %s", app.Status.Primary, app.Status.Term, Describe(app.Status.Conditions))
		}
		return nil
	})
	r.Logf("another pod writes after %s", FormatSeconds(took))
}

// SwitchOver has a pod take over as planned.
func (r *Replicated) SwitchOver(from, to string) {
	r.Helper()
	r.Query("Switchover", platformv1.Parameters{"to": platformv1.ParameterValue(to)})
	r.WaitForPrimaryChange(from, SettleTimeout)
}
