// SPDX-License-Identifier: Apache-2.0

// Package agents stands in for the agents of pods on simulated nodes. Towards the API
// server and the operator it does what agents do: a pod that runs reports once, over
// the pod's annotation; the process manager of each pod answers on the pod's own
// address with the pod's own certificate, and what it was told shows in the next report.
package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// fieldOwner is that of the status agent.
	fieldOwner = "zeroinfra-status-agent"
	// writers is how many reports are written at a time; real agents do not wait for each other.
	writers = 64
	// retryAfter a report that could not be written.
	retryAfter = 200 * time.Millisecond
)

// Options say who the simulator is.
type Options struct {
	// Kubelet reads Secrets and plans, as mounts would bring them.
	Kubelet *rest.Config
	// Agents write the reports.
	Agents *rest.Config
	Scheme *runtime.Scheme
}

// Simulator is all agents of all pods.
type Simulator struct {
	cache   cache.Cache
	kubelet client.Reader
	agents  client.Client
	pods    *registry
	// work holds one token for each report that is being written.
	work chan struct{}
}

// New returns a simulator; Run has it work.
func New(o Options) (*Simulator, error) {
	reader, err := client.New(o.Kubelet, client.Options{Scheme: o.Scheme})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	writer, err := client.New(o.Agents, client.Options{Scheme: o.Scheme})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	ours := labels.SelectorFromSet(labels.Set{platformv1.ManagedByLabel: "zeroinfra"})
	watched, err := cache.New(o.Kubelet, cache.Options{Scheme: o.Scheme, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: ours},
	}})
	if err != nil {
		return nil, fmt.Errorf("cannot make a cache: %w", err)
	}
	return &Simulator{cache: watched, kubelet: reader, agents: writer, pods: newRegistry(),
		work: make(chan struct{}, writers)}, nil
}

// Run works until the context ends.
func (s *Simulator) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := s.cache.GetInformer(ctx, &platformv1.WorkloadSet{}); err != nil {
		return fmt.Errorf("cannot watch WorkloadSets: %w", err)
	}
	pods, err := s.cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("cannot watch pods: %w", err)
	}
	_, err = pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.seen(ctx, obj) },
		UpdateFunc: func(_, obj any) { s.seen(ctx, obj) },
		DeleteFunc: func(obj any) { s.gone(obj) },
	})
	if err != nil {
		return fmt.Errorf("cannot watch pods: %w", err)
	}
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- s.serve(ctx)
	}()
	if err := s.cache.Start(ctx); err != nil {
		return fmt.Errorf("cannot watch pods: %w", err)
	}
	return <-served
}

// seen takes notice of a pod that runs, once.
func (s *Simulator) seen(ctx context.Context, obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
		return
	}
	member, fresh := s.pods.begin(pod)
	if fresh {
		go s.begin(ctx, member)
	}
}

func (s *Simulator) gone(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		s.pods.end(pod)
	}
}

// begin gives a pod the plan of its set, as the mount does, and reports.
func (s *Simulator) begin(ctx context.Context, m *member) {
	for ctx.Err() == nil {
		p, err := s.planOf(ctx, m)
		if err == nil {
			m.start(p)
			s.report(ctx, m)
			return
		}
		wait(ctx, retryAfter)
	}
}

func (s *Simulator) planOf(ctx context.Context, m *member) (plan.Plan, error) {
	set := &platformv1.WorkloadSet{}
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: m.name.Namespace, Name: m.set}, set); err != nil {
		return plan.Plan{}, err
	}
	var p plan.Plan
	return p, json.Unmarshal(set.Spec.Plan.Raw, &p)
}

// report writes what is new about a pod until that is written.
func (s *Simulator) report(ctx context.Context, m *member) {
	for ctx.Err() == nil {
		text, news := m.unwritten()
		if !news {
			return
		}
		select {
		case s.work <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := s.write(ctx, m.name, text)
		<-s.work
		switch {
		case err == nil:
			m.wrote(text)
		case apierrors.IsNotFound(err):
			return
		default:
			wait(ctx, retryAfter)
		}
	}
}

// write sends the request that a status agent sends.
func (s *Simulator) write(ctx context.Context, pod types.NamespacedName, text string) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{platformv1.ReportAnnotation: text}}})
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return s.agents.Patch(ctx, target, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldOwner))
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
