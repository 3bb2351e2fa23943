// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// healthy is how many instances are made beside those that cannot be made.
const healthy = 50

// brokenInstance is an instance that cannot be made, or not be changed.
type brokenInstance struct {
	app *platformv1.Application
	// condition that tells of it, with its status, and a reason and words that are for the user.
	condition string
	status    metav1.ConditionStatus
	reason    string
	says      []string
}

// TestNobodyIsHeldUp makes many instances beside some that hold on to what they can of the engine: one whose plugin is
// broken, one with an expression that fails for what its spec says, one whose pods an admission is asked about that
// never answers, one whose pod never starts, and one whose agent never answers. Work has to go on while a call hangs,
// however long the machine takes for it: by the end of each such call others must have become ready. In the end nobody
// stands in a queue, and who cannot be made says why.
func TestNobodyIsHeldUp(t *testing.T) {
	before := busy(t)
	run(t, -1)
	brokenInstances, hangups := poison(t)
	namespace := env.Namespace(t)
	node(t, namespace)
	ready := readiness(t, namespace)
	begun := time.Now()
	for i := range healthy {
		app := application(namespace)
		app.Name = fmt.Sprintf("redis-%d", i)
		create(t, app)
	}
	for count, before := 0, -1; count < healthy; {
		select {
		case <-ready:
			count++
		case <-hangups:
			if count == before {
				t.Fatalf("%d of %d instances are ready, and none became so while the last call hung", count, healthy)
			}
			before = count
		}
	}
	t.Logf("%d instances were ready after %.1f s", healthy, time.Since(begun).Seconds())
	// Each of them has one worker of a controller at most, and its own place in the queue.
	testkit.Eventually(t, "nobody but those in trouble waits", func(context.Context) error {
		found := busy(t)
		for _, what := range []string{"workqueue_depth", "controller_runtime_active_workers"} {
			if _, told := found[what+" of workloadset"]; !told {
				return fmt.Errorf("nothing is known of %s", what)
			}
		}
		for what, count := range found {
			if now := count - before[what]; int(now) > len(brokenInstances) {
				return fmt.Errorf("%s is %v", what, now)
			}
		}
		return nil
	})
	for what, brokenInstance := range brokenInstances {
		t.Run(what, func(t *testing.T) { brokenInstance.told(t) })
	}
}

// busy returns how many objects each controller works on, and how many stand in its queue. What engines that have ended
// left there counts as well.
func busy(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		name := family.GetName()
		if name != "workqueue_depth" && name != "controller_runtime_active_workers" {
			continue
		}
		for _, metric := range family.GetMetric() {
			counts[name+" of "+metric.GetLabel()[0].GetValue()] += metric.GetGauge().GetValue()
		}
	}
	return counts
}

// told waits until the condition says what is wrong.
func (x *brokenInstance) told(t *testing.T) {
	t.Helper()
	testkit.WaitFor(t, env.Client, x.app, "says what is wrong", func() error {
		if conditions.IsTrue(x.app, platformv1.ReadyCondition) {
			return errors.New("it is ready")
		}
		found := conditions.Get(x.app, x.condition)
		if found == nil || found.Status != x.status || found.Reason != x.reason {
			return fmt.Errorf("condition %s is %+v", x.condition, found)
		}
		for _, words := range x.says {
			if !strings.Contains(found.Message, words) {
				return fmt.Errorf("%q does not say %q", found.Message, words)
			}
		}
		return nil
	})
	if err := testkit.StatusLint(x.app); err != nil {
		t.Error(err)
	}
}

// readiness tells of each Application of a namespace that becomes ready, once.
func readiness(t *testing.T, namespace string) <-chan struct{} {
	t.Helper()
	live, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	events, err := live.Watch(t.Context(), &platformv1.ApplicationList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	ready := make(chan struct{}, healthy)
	go func() {
		told := map[string]bool{}
		for e := range events.ResultChan() {
			app, ok := e.Object.(*platformv1.Application)
			if ok && !told[app.Name] && conditions.IsTrue(app, platformv1.ReadyCondition) {
				told[app.Name] = true
				ready <- struct{}{}
			}
		}
	}()
	return ready
}

// poison makes those that never become ready and returns when the engine has its trouble with each. The channel tells
// of each call of an admission that hung until somebody gave it up.
func poison(t *testing.T) (map[string]*brokenInstance, <-chan struct{}) {
	t.Helper()
	brokenInstances := map[string]*brokenInstance{
		"a broken plugin":          withBrokenPlugin(t),
		"an expression that fails": withFailingExpression(t),
		"a pod that never starts":  withoutNode(t),
	}
	for _, x := range brokenInstances {
		x.told(t)
	}
	brokenInstances["an agent that never answers"] = withMuteAgent(t)

	hanging := application(env.Namespace(t))
	admission, err := testkit.HangAdmission(t.Context(), env.Client, hanging.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admission.End(); err != nil {
			t.Error(err)
		}
	})
	create(t, hanging)
	testkit.Eventually(t, "a call of the admission that never answers", func(context.Context) error {
		select {
		case <-admission.Begun():
			return nil
		default:
			return fmt.Errorf("nobody has asked it")
		}
	})
	brokenInstances["an admission that never answers"] = &brokenInstance{app: hanging,
		condition: platformv1.ReadyCondition,
		status:    metav1.ConditionFalse,
		reason:    outcome.ReasonFailed, says: []string{"never.answers.example.com", hanging.Name + "-redis-main-0"}}
	return brokenInstances, admission.Ended()
}

// withBrokenPlugin makes an instance of a version of the plugin redis that is refused.
func withBrokenPlugin(t *testing.T) *brokenInstance {
	t.Helper()
	app := application(env.Namespace(t))
	app.Spec.PluginVersion = pluginVersion(t, "6.6.6", "${", "${nowhere.")
	create(t, app)
	return &brokenInstance{app: app, condition: platformv1.StalledCondition, status: metav1.ConditionTrue,
		reason: platformv1.ReasonPluginInvalid, says: []string{"components.yaml:", "nowhere"}}
}

// withFailingExpression makes an instance of a version of the plugin redis that is fine but for one value of a
// parameter, which is this one's.
func withFailingExpression(t *testing.T) *brokenInstance {
	t.Helper()
	const command = `'/zeroinfra/config/redis.conf']}"`
	app := application(env.Namespace(t))
	app.Spec.PluginVersion = pluginVersion(t, "6.6.7", command, command+
		"\n        - \"${string(1 / (int('databases' in params ? params['databases'] : '16') - 7))}\"")
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "redis", Parameters: platformv1.Parameters{"databases": "7"}}}
	create(t, app)
	return &brokenInstance{app: app, condition: platformv1.StalledCondition, status: metav1.ConditionTrue,
		reason: platformv1.ReasonInvalidSpec, says: []string{`component "redis"`, "params['databases']", "division by zero"}}
}

// withoutNode makes an instance whose pod no node takes, as the scheduler would say.
func withoutNode(t *testing.T) *brokenInstance {
	t.Helper()
	app := application(env.Namespace(t))
	create(t, app)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-redis-main-0"}}
	testkit.WaitFor(t, env.Client, pod, "is made", nil)
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available: 3 Insufficient memory.",
	}}
	if err := env.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return &brokenInstance{app: app, condition: platformv1.ReadyCondition, status: metav1.ConditionFalse,
		reason: platformv1.ReasonPodUnschedulable, says: []string{pod.Name, "Insufficient memory"}}
}

// muteAddress is of this machine and nobody's.
const muteAddress = "127.0.66.6"

// withMuteAgent makes an instance whose agent takes calls and never answers, and asks for another value of a parameter,
// which is told to it.
func withMuteAgent(t *testing.T) *brokenInstance {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(muteAddress, strconv.Itoa(plan.ProcessPort)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // Nothing was promised to whoever calls.
	called := make(chan struct{}, healthy)
	go func() {
		for {
			call, err := listener.Accept()
			if err != nil {
				return
			}
			called <- struct{}{}
			go func() {
				_, _ = io.Copy(io.Discard, call) // Until the caller hangs up.
				_ = call.Close()
			}()
		}
	}()
	app := application(env.Namespace(t))
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "redis"}}
	node(t, app.Namespace)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-redis-main-0"}}
	address := fmt.Sprintf(`{"status":{"podIP":%q,"podIPs":[{"ip":%[1]q}]}}`, muteAddress)
	if err := env.Client.Status().Patch(t.Context(), pod,
		client.RawPatch(types.MergePatchType, []byte(address))); err != nil {
		t.Fatal(err)
	}
	parameter("timeout", "30")(app)
	patch(t, app)
	select {
	case <-called:
	case <-time.After(testkit.Patience):
		t.Fatal("nobody has called the agent")
	}
	return &brokenInstance{app: app, condition: platformv1.ReadyCondition, status: metav1.ConditionFalse,
		reason: platformv1.ReasonConfigurationPending,
		says:   []string{pod.Name, "no answer from " + muteAddress, "NetworkPolicies"}}
}

// pluginVersion installs a version of the plugin redis in whose parts one text stands for another, and returns it.
func pluginVersion(t *testing.T, version, former, now string) string {
	t.Helper()
	_, sources, problems := pluginfolder.Load(pluginDirs[0])
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	parts, err := pluginfolder.Package(sources, system)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		cm := part.(*corev1.ConfigMap)
		cm.Name = strings.ReplaceAll(cm.Name, "1.0.0", version)
		for _, texts := range []map[string]string{cm.Data, cm.Labels} {
			for key, text := range texts {
				texts[key] = strings.NewReplacer("1.0.0", version, former, now).Replace(text)
			}
		}
		create(t, cm)
		t.Cleanup(func() {
			if err := env.Client.Delete(context.Background(), cm); err != nil {
				t.Error(err)
			}
		})
	}
	return version
}
