// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// settleTime is how long pods that were asked for stay after requests were given to them: that long autoscalers look
// back before they take pods away, and metrics of these requests are there long before.
const settleTime = 5 * time.Minute

// allRequests is the weight of all of them.
const allRequests = 100

// start has a step begin: its weight is raised once the pods are there that it asks for.
func start(i *aiv1.Inference, p aiv1.CanaryProgress, step int32, now time.Time) aiv1.CanaryProgress {
	p.Step = step
	p = turn(p, aiv1.CanaryStarting, now)
	weight := i.Spec.Canary.Steps[step].Weight
	if p.Pods = asked(i, weight); p.Pods > 1 {
		p.Message = fmt.Sprintf("the weight %d waits until %d pods of the canary are ready", weight, p.Pods)
	}
	return p
}

// asked is how many pods a part of the requests, in percent, asks for, where autoscalers decide how many there are; 0
// where they do not. Each side has enough for its part of the requests now, so that the fewer of what follows from one
// side and from the other are enough.
func asked(i *aiv1.Inference, weight int32) int32 {
	if i.Spec.MaxReplicas == 0 || i.Spec.HTTPRoute == nil {
		return 0
	}
	now := i.Status.Canary
	if now == nil {
		now = &aiv1.InferenceCanaryStatus{}
	}
	most := i.Spec.MaxReplicas
	for _, side := range []struct{ pods, weight int32 }{
		{max(i.Status.Replicas-now.Replicas, 0), allRequests - now.Weight}, {now.Replicas, now.Weight},
	} {
		if side.weight > 0 {
			most = min(most, (side.pods*weight+side.weight-1)/side.weight)
		}
	}
	return max(most, 1)
}

// settle gives the number of pods back to the autoscalers once they have seen the requests. While the other pods change
// to the version of the canary, they are made as many as all requests ask for, since they take over from it.
func settle(i *aiv1.Inference, d decision, now time.Time) decision {
	p := &d.progress
	switch {
	case i.Spec.ModelRef != i.Spec.Canary.ModelRef || p.Phase.Out():
		p.MainPods = 0
	case p.MainPods == 0:
		p.MainPods = asked(i, allRequests)
	}
	if p.Pods == 0 || p.Phase == aiv1.CanaryStarting {
		return d
	}
	switch ends := p.Since.Add(settleTime); {
	case p.Phase.Out() || !now.Before(ends):
		p.Pods = 0
	case d.wake.IsZero() || ends.Before(d.wake):
		d.wake = ends
	}
	return d
}

// released is what stays on record, and for how long, of a canary that was taken out: how many pods took over from it.
// It is nil for nothing.
func released(i *aiv1.Inference, now time.Time) (*aiv1.CanaryProgress, time.Time) {
	p := i.RecordedCanary()
	if i.Spec.Canary != nil || p.MainPods == 0 || !runs(i) {
		return nil, time.Time{}
	}
	if p.Of != "" {
		p = aiv1.CanaryProgress{MainPods: p.MainPods, Since: metav1.NewTime(now.Truncate(time.Second))}
	}
	ends := p.Since.Add(settleTime)
	if !now.Before(ends) {
		return nil, time.Time{}
	}
	return &p, ends
}
