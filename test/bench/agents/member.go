// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Roles of the bench's plugin: the first pod of a set takes writes.
const (
	primary = "primary"
	replica = "replica"
)

// version is what the middleware says of itself.
const version = "1.0.0"

// member is one pod with its agents.
type member struct {
	name types.NamespacedName
	uid  types.UID
	// set is the WorkloadSet that the pod is of.
	set  string
	role string

	mu      sync.Mutex
	now     report.Report
	written string
}

// start has the process run with the plan.
func (m *member) start(p plan.Plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = report.Report{
		Health: report.Healthy, Role: m.role, Version: version,
		ConfigDigest: p.Digest, RestartDigest: p.RestartDigest, Starts: 1,
	}
}

// effect is what a call does to the process.
type effect string

const (
	restarts effect = "Restart"
	reloads  effect = "Reload"
)

// call carries out a call to the process manager: at once, and once for each key.
func (m *member) call(what effect, key string, text []byte) (report.Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.now.LastCall; last != nil && last.Key == key {
		return *last, nil
	}
	if m.now.Health == "" {
		return report.Call{}, fmt.Errorf("the process of pod %q has not started", m.name)
	}
	if len(text) > 0 {
		var p plan.Plan
		if err := json.Unmarshal(text, &p); err != nil {
			return report.Call{}, fmt.Errorf("cannot read the plan: %w", err)
		}
		if what == reloads && p.RestartDigest != m.now.RestartDigest {
			return report.Call{Key: key, Phase: report.CallFailed, Reason: report.ReasonRestartRequired,
				Message: "a restart is required"}, nil
		}
		m.now.ConfigDigest, m.now.RestartDigest = p.Digest, p.RestartDigest
	}
	if what == restarts {
		m.now.Starts++
	}
	m.now.LastCall = &report.Call{Key: key, Phase: report.CallSucceeded}
	return *m.now.LastCall, nil
}

// unwritten returns the report when it differs from the one that was written last.
func (m *member) unwritten() (text string, news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text = m.now.String()
	return text, text != m.written
}

func (m *member) wrote(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written = text
}

// registry knows the pods that run.
type registry struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*member
}

func newRegistry() *registry { return &registry{pods: map[types.NamespacedName]*member{}} }

// begin returns the pod, and whether it was not known before.
func (r *registry) begin(pod *corev1.Pod) (m *member, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if known := r.pods[name]; known != nil && known.uid == pod.UID {
		return known, false
	}
	m = &member{name: name, uid: pod.UID, role: replica, written: pod.Annotations[platformv1.ReportAnnotation]}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		m.set = owner.Name
	}
	if pod.Labels[platformv1.OrdinalLabel] == "0" {
		m.role = primary
	}
	r.pods[name] = m
	return m, true
}

func (r *registry) end(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if known := r.pods[name]; known != nil && known.uid == pod.UID {
		delete(r.pods, name)
	}
}

func (r *registry) find(name types.NamespacedName) (*member, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.pods[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("there is no pod %q", name)
}
