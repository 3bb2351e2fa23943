// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
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

// haScript writes growing numbers through the Service and has each wait until a replica has it. It notes the server's time and the
// number, in the next line how many replicas have it, and then the name of the connection: redis-cli makes another one, which has
// none, when a connection breaks, and WAIT on that says nothing about the write before.
const haScript = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
cd /tmp
(
  i=0
  while [ ! -e "$1.stop" ]; do
    { echo "CLIENT SETNAME judge"; seq $((i+1)) $((i+20)) | sed "s/.*/EVAL \"local t=redis.call('TIME') redis.call('SET',KEYS[1],ARGV[1]) return 'w '..t[1]..' '..t[2]..' '..ARGV[1]\" 1 w:& &\nWAIT 1 1000\nCLIENT GETNAME/"; } |
      timeout 3 redis-cli -h "$2" -p "$3" 2>/dev/null
    i=$((i+20))
  done >"$1.writes"
  : >"$1.done"
) </dev/null >/dev/null 2>&1 &
shift_=$1
shift 3
for member in "$@"; do
  (
    while [ ! -e "$shift_.stop" ]; do
      timeout 1 redis-cli -h "$member" -p 6379 EVAL "local t=redis.call('TIME') redis.call('SET',KEYS[1],t[1]) return 'p '..t[1]..' '..t[2]..' '..ARGV[1]" 1 "probe:$member" "${member%%.*}" 2>/dev/null
      sleep 0.1
    done | grep '^p ' >"$shift_.probe.${member%%.*}"
  ) </dev/null >/dev/null 2>&1 &
done
`

// haSession is one connection of a client that was cut off with the server.
const haSession = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
(
  while [ ! -e "/tmp/$1.stop" ]; do
    echo "EVAL \"local t=redis.call('TIME') redis.call('SET',KEYS[1],t[1]) return 'p '..t[1]..' '..t[2]..' '..ARGV[1]\" 1 probe:session $3"
    sleep 0.1
  done | redis-cli -h "$2" 2>/dev/null | grep '^p ' >"/tmp/$1.session"
  : >"/tmp/$1.ended"
) </dev/null >/dev/null 2>&1 &
`

// connectionName is what a connection of haScript is called.
const connectionName = "judge"

// signalScript sends a signal to the processes of a server, again and again for some seconds.
const signalScript = `end=$(( $(date +%s) + $2 ))
while :; do
  for p in /proc/[0-9]*; do
    read -r name <"$p/comm" && [ "$name" = "$3" ] && kill "-$1" "${p#/proc/}"
  done 2>/dev/null
  [ "$(date +%s)" -lt "$end" ] || exit 0
  sleep 0.05
done`

// signalUntilScript does so until its input ends, but no longer than that.
const signalUntilScript = "(" + signalScript + `) &
timeout "$2" cat >/dev/null
kill "$!"
exit 0`

// replicated is a middleware of one primary and its replicas, where the engine says who writes.
type replicated struct {
	*application
	kind *replicatedKind
}

// replicatedKind is what tells one of them from another.
type replicatedKind struct {
	// component of the plugin, and container that runs the server, whose processes are called process.
	component, process string
	// client is a pod with its client, and a container of the same name, and load the script that runs there. It is given the name of its files,
	// host and port of the Service, and the names of all members; the password is its first line of input.
	client func(*space) string
	load   string
	// session is a script that runs in a pod of the image beside a member: one session that stays and goes on to write, whose writes wait for no
	// other member. It is given the name of its file, the member's address and its name.
	image, session string
	// acknowledged are the writes of the load's output that another member had, and kept those of them that are there.
	acknowledged func(lines []string) []stamped
	kept         func(t *trial, writes []stamped) map[string]bool
}

// redisReplicated is Redis.
var redisReplicated = &replicatedKind{component: redisComponent, process: "redis-server", client: (*space).clientPod, load: haScript, image: redisImage, session: haSession,
	acknowledged: redisAcknowledged, kept: redisKept}

func (s *space) replicatedRedis(name string, changes ...func(*platformv1.ApplicationSpec)) *replicated {
	s.Helper()
	spec := platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0", Topology: "replication",
		DeletionPolicy: platformv1.DeletionPolicyDelete,
		Components: []platformv1.ApplicationComponent{{Name: redisComponent,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			Storage: &platformv1.Storage{Size: resource.MustParse("64Mi")},
			// With "everysec" a Redis whose disk is slow holds back what goes into its file: one that is killed then starts again without that.
			Parameters: platformv1.Parameters{"appendfsync": "always"},
		}}}
	for _, change := range changes {
		change(&spec)
	}
	return &replicated{s.apply(name, spec), redisReplicated}
}

// set is the WorkloadSet of its pods.
func (r *replicated) set() *platformv1.WorkloadSet {
	r.Helper()
	set := &platformv1.WorkloadSet{}
	r.mustGet(platformv1.WorkloadSetNameFor(r.name, r.kind.component, platformv1.DefaultSet), set)
	return set
}

// whole waits until all pods are members and one of them writes, and returns it with its term.
func (r *replicated) whole() (primary string, term int64) {
	r.Helper()
	r.eventually(readyIn, "the Application is ready and all its pods are members", func() error {
		app := &platformv1.Application{}
		if err := r.get(r.name, app); err != nil {
			return err
		}
		if err := readyNow(app, app.Status.ObservedGeneration); err != nil {
			return err
		}
		w := r.set().Status.Writer
		if w == nil || w.Primary == nil || w.Previous != nil || len(w.List.Members) != 3 || w.Primary.Name != app.Status.Primary || w.Term != app.Status.Term {
			return fmt.Errorf("the record is %+v, the Application says %q in term %d", w, app.Status.Primary, app.Status.Term)
		}
		primary, term = w.Primary.Name, w.Term
		return nil
	})
	return primary, term
}

// signal sends a signal to the process of a pod, for some seconds again and again.
func (r *replicated) signal(pod, signal string, seconds int) {
	r.Helper()
	r.kind.signal(r.space, pod, signal, seconds)
}

// signal sends a signal to the server's process in a pod, for some seconds again and again.
func (k *replicatedKind) signal(s *space, pod, signal string, seconds int) {
	s.Helper()
	if _, err := run(s.ctx, s.name, pod, k.component, "", "sh", "-c", signalScript, "signal", signal, strconv.Itoa(seconds), k.process); err != nil {
		s.Fatal(err)
	}
}

// killedUntil has the process of a pod killed again and again until something has come of that: how long that takes is for a busy machine to say. What
// is to happen before is a script, with its input and its fourth argument; empty for nothing.
func (k *replicatedKind) killedUntil(s *space, pod, input, before, argument string, comes func()) {
	s.Helper()
	stdin, enough := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		var said bytes.Buffer
		command := []string{"sh", "-c", before + signalUntilScript, "signal", "KILL", strconv.Itoa(int(settleIn.Seconds())), k.process, argument}
		if err := stream(s.ctx, s.name, pod, k.component, command, io.MultiReader(strings.NewReader(input), stdin), io.Discard, &said); err != nil {
			ended <- fmt.Errorf("cannot kill what pod %s runs: %w: %s", pod, err, said.String())
		}
		close(ended)
	}()
	comes()
	enough.Close()
	if err := <-ended; err != nil {
		s.Fatal(err)
	}
}

// killedUntilChanged has the writer killed until another pod writes.
func (r *replicated) killedUntilChanged(primary string) {
	r.Helper()
	r.kind.killedUntil(r.space, primary, "", "", "", func() { r.changed(primary, settleIn) })
}

// trial is one fault under load.
type trial struct {
	*replicated
	file string
	a    account
}

// begin starts to write and to probe.
func (r *replicated) begin() *trial {
	r.Helper()
	t := &trial{replicated: r, file: "ha" + strconv.FormatInt(time.Now().UnixNano(), 36), a: r.accountIn(r.object().Status.Binding.Name)}
	command := []string{"sh", "-c", r.kind.load, "ha", t.file, t.a.host, t.a.port}
	for _, pod := range r.pods() {
		command = append(command, pod.Name+"."+r.name+"-"+r.kind.component+"-headless."+r.space.name+".svc")
	}
	if _, err := run(r.ctx, r.space.name, r.kind.client(r.space), r.kind.client(r.space), t.a.password+"\n", command...); err != nil {
		r.Fatal(err)
	}
	r.eventually(settleIn, "a write is acknowledged and there", func() error {
		if len(t.acknowledged()) == 0 {
			return fmt.Errorf("none yet")
		}
		return nil
	})
	return t
}

// stay has one session go on to write to the server of a pod from another pod of its node, as a client does that is cut off with it. What is
// returned ends it, and has its writes judged with those of the prober.
func (t *trial) stay(name string) (leave func()) {
	t.Helper()
	pod := &corev1.Pod{}
	t.mustGet(name, pod)
	beside := "beside-" + t.file
	t.runClient(beside, t.kind.image, func(client *corev1.Pod) { client.Spec.NodeName = pod.Spec.NodeName })
	if _, err := run(t.ctx, t.space.name, beside, beside, t.a.password+"\n", "sh", "-c", t.kind.session, "session", t.file, pod.Status.PodIP, name); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		var taken string
		t.eventually(settleIn, "the session at "+name+" ends", func() (err error) {
			taken, err = run(t.ctx, t.space.name, beside, beside, "", "sh", "-c", `: >"/tmp/$1.stop"; [ -e "/tmp/$1.ended" ] && cat "/tmp/$1.session"`, "session", t.file)
			return err
		})
		client := t.kind.client(t.space)
		if _, err := run(t.ctx, t.space.name, client, client, taken+"\n", "sh", "-c", "cat >/tmp/"+t.file+".probe.session"); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(taken, "\n")
		last, ok := parseStamped(lines[len(lines)-1], "p")
		if !ok {
			t.Fatalf("the session at %s says %q", name, taken)
		}
		t.Logf("the session at %s took %d writes, the last at %s", name, len(lines), last.at.Format("15:04:05.000"))
	}
}

func (t *trial) read(suffix string) []string {
	t.Helper()
	out, err := run(t.ctx, t.space.name, t.kind.client(t.space), t.kind.client(t.space), "", "sh", "-c", "cat /tmp/"+t.file+suffix)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(out, "\n")
}

// stamped is a write that the server has taken at a time.
type stamped struct {
	at   time.Time
	what string
}

func parseStamped(line, kind string) (stamped, bool) {
	fields := strings.Fields(line)
	if len(fields) != 4 || fields[0] != kind {
		return stamped{}, false
	}
	seconds, err1 := strconv.ParseInt(fields[1], 10, 64)
	micros, err2 := strconv.ParseInt(fields[2], 10, 64)
	return stamped{time.Unix(seconds, micros*1000), fields[3]}, err1 == nil && err2 == nil
}

// acknowledged are the writes that another member had, in order of time.
func (t *trial) acknowledged() []stamped {
	t.Helper()
	return t.kind.acknowledged(t.read(".writes"))
}

func redisAcknowledged(lines []string) []stamped {
	var list []stamped
	for i, line := range lines {
		write, ok := parseStamped(line, "w")
		if !ok || i+2 >= len(lines) {
			continue
		}
		if replicas, err := strconv.Atoi(lines[i+1]); err == nil && replicas >= 1 && lines[i+2] == connectionName {
			list = append(list, write)
		}
	}
	return list
}

// probes are the writes that were taken from the prober, in order of time.
func (t *trial) probes() []stamped {
	t.Helper()
	var list []stamped
	for _, line := range t.read(".probe.*") {
		if probe, ok := parseStamped(line, "p"); ok {
			list = append(list, probe)
		}
	}
	slices.SortFunc(list, func(a, b stamped) int { return a.at.Compare(b.at) })
	return list
}

// end waits until writes are acknowledged again, stops writing and judges.
func (t *trial) end() verdict {
	t.Helper()
	over := time.Now()
	t.eventually(settleIn, "a write is acknowledged with a replica after all", func() error {
		if writes := t.acknowledged(); len(writes) == 0 || !writes[len(writes)-1].at.After(over) {
			return fmt.Errorf("of %d none was after %s", len(writes), over)
		}
		return nil
	})
	if _, err := run(t.ctx, t.space.name, t.kind.client(t.space), t.kind.client(t.space), "", "touch", "/tmp/"+t.file+".stop"); err != nil {
		t.Fatal(err)
	}
	t.eventually(settleIn, "the writer has ended", func() error {
		_, err := run(t.ctx, t.space.name, t.kind.client(t.space), t.kind.client(t.space), "", "ls", "/tmp/"+t.file+".done")
		return err
	})
	var v verdict
	writes := t.acknowledged()
	v.acknowledged, v.gap = len(writes), longestGap(moments(writes))
	probes := t.probes()
	v.vacancy = longestGap(moments(probes))
	for i := 1; i < len(probes); i++ {
		if probes[i].what != probes[i-1].what {
			v.changes++
		}
	}
	have := t.kind.kept(t, writes)
	for _, write := range writes {
		if !have[write.what] {
			v.lost++
		}
	}
	return v
}

func redisKept(t *trial, writes []stamped) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	for start := 0; start < len(writes); start += readBack {
		arguments := []string{"MGET"}
		for _, write := range writes[start:min(start+readBack, len(writes))] {
			arguments = append(arguments, "w:"+write.what)
		}
		var out string
		t.eventually(spreadIn, "the primary tells what it has", func() (err error) {
			out, err = t.redisCLI(t.a, arguments...)
			return err
		})
		for _, value := range strings.Split(out, "\n") {
			have[value] = true
		}
	}
	return have
}

func moments(list []stamped) []time.Time {
	times := make([]time.Time, 0, len(list))
	for _, write := range list {
		times = append(times, write.at)
	}
	return times
}

// judge says what a trial showed, and what of it must never be: a write lost that a replica had, or two that take writes, which shows
// as more changes between members than there were terms. It returns who writes, and in which term, since the trial has ended: before that
// a writer may be deposed for what was done to it a moment ago.
func (t *trial) judge(name string, before int64, limit time.Duration) (primary string, after int64) {
	t.Helper()
	v := t.end()
	primary, after = t.whole()
	faults.add(name, v)
	t.Logf("%s: term %d to %d, longest gap at any member %s", name, before, after, seconds(v.vacancy))
	v.hold(t.T, name, limit)
	if v.changes > after-before {
		t.Errorf("%s: another member took writes %d times in %d changes of the term: two of them did at once", name, v.changes, after-before)
	}
	return primary, after
}

// tellChanges logs when the engine deposed and named writers.
func (r *replicated) tellChanges() {
	r.Helper()
	list, err := world.kube.EventsV1().Events(r.space.name).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	for _, event := range list.Items {
		if strings.HasPrefix(event.Reason, "Writer") {
			r.Logf("%s %s: %s", event.EventTime.Format("15:04:05.000"), event.Reason, event.Note)
		}
	}
}

// changed waits until another pod writes than the one given.
func (r *replicated) changed(from string, limit time.Duration) {
	r.Helper()
	took := r.eventually(limit, "another pod than "+from+" writes", func() error {
		app := r.object()
		if app.Status.Primary == "" || app.Status.Primary == from {
			return fmt.Errorf("%q writes in term %d: %s", app.Status.Primary, app.Status.Term, describe(app.Status.Conditions))
		}
		return nil
	})
	r.Logf("another pod writes after %s", seconds(took))
}

// switchTo has a pod take over as planned.
func (r *replicated) switchTo(from, to string) {
	r.Helper()
	r.ask("Switchover", platformv1.Parameters{"to": platformv1.ParameterValue(to)})
	r.changed(from, settleIn)
}
