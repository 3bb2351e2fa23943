// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

var began = time.Date(2026, 2, 3, 5, 0, 0, 0, time.UTC)

// behindDoor is an Inference that is ready, with a phase on record; none for Active.
func behindDoor(t *testing.T, phase aiv1.IdlePhase) *aiv1.Inference {
	t.Helper()
	i := &aiv1.Inference{}
	i.Generation = 3
	i.Spec.Idle = &aiv1.InferenceIdle{}
	i.Status.ObservedGeneration = 3
	i.Status.Conditions = []metav1.Condition{{Type: platformv1.ReadyCondition, Status: metav1.ConditionTrue}}
	if phase != aiv1.IdleActive {
		text, err := json.Marshal(aiv1.IdleProgress{Phase: phase, Since: metav1.NewTime(began)})
		if err != nil {
			t.Fatal(err)
		}
		i.Annotations = map[string]string{aiv1.IdleProgressAnnotation: string(text)}
	}
	return i
}

func TestDecide(t *testing.T) {
	notReady := func(i *aiv1.Inference) { i.Status.Conditions[0].Status = metav1.ConditionFalse }
	edited := func(i *aiv1.Inference) { i.Generation++ }
	scaled := func(i *aiv1.Inference) { i.Spec.MinReplicas, i.Spec.MaxReplicas = 1, 3 }
	noDoor := func(i *aiv1.Inference) { i.Spec.Idle = nil }
	for name, c := range map[string]struct {
		was     aiv1.IdlePhase
		change  func(*aiv1.Inference)
		doors   []demand
		servers bool
		want    aiv1.IdlePhase
	}{
		"no request for long":             {aiv1.IdleActive, nil, []demand{quiet, quiet}, true, aiv1.IdleNoServers},
		"a request at one door":           {aiv1.IdleActive, nil, []demand{quiet, active}, true, aiv1.IdleActive},
		"a request that waits":            {aiv1.IdleActive, nil, []demand{waiting}, true, aiv1.IdleActive},
		"a door that reports nothing":     {aiv1.IdleActive, nil, []demand{quiet, unknown}, true, aiv1.IdleActive},
		"no door yet":                     {aiv1.IdleActive, nil, nil, true, aiv1.IdleActive},
		"it is not ready":                 {aiv1.IdleActive, notReady, []demand{quiet}, true, aiv1.IdleActive},
		"it is edited":                    {aiv1.IdleActive, edited, []demand{quiet}, true, aiv1.IdleActive},
		"there is to be no door":          {aiv1.IdleActive, noDoor, []demand{quiet}, true, aiv1.IdleActive},
		"a lost record":                   {aiv1.IdleActive, nil, []demand{quiet}, false, aiv1.IdleActive},
		"a lost record and an autoscaler": {aiv1.IdleActive, scaled, []demand{quiet}, false, aiv1.IdleStarting},
		"none while nobody asks":          {aiv1.IdleNoServers, nil, []demand{quiet, quiet}, false, aiv1.IdleNoServers},
		"none and a door begins anew":     {aiv1.IdleNoServers, nil, []demand{active, unknown}, false, aiv1.IdleNoServers},
		"none and a request":              {aiv1.IdleNoServers, nil, []demand{quiet, waiting}, false, aiv1.IdleStarting},
		"a request while servers go":      {aiv1.IdleNoServers, nil, []demand{waiting}, true, aiv1.IdleStarting},
		"none and the door is taken out":  {aiv1.IdleNoServers, noDoor, nil, false, aiv1.IdleStarting},
		"servers are made":                {aiv1.IdleStarting, nil, []demand{waiting}, false, aiv1.IdleStarting},
		"the client has gone meanwhile":   {aiv1.IdleStarting, nil, []demand{quiet}, false, aiv1.IdleStarting},
		"servers are there":               {aiv1.IdleStarting, nil, []demand{waiting}, true, aiv1.IdleActive},
	} {
		i := behindDoor(t, c.was)
		if c.change != nil {
			c.change(i)
		}
		now := began.Add(time.Hour)
		got := decide(i, facts{now: now, doors: c.doors, servers: c.servers})
		if got.Phase != c.want {
			t.Errorf("%s: it is %s, want %s", name, got.Phase, c.want)
		}
		want := time.Time{}
		switch {
		case c.want == aiv1.IdleActive:
		case c.want == i.IdleProgress().Phase:
			want = began
		default:
			want = now
		}
		if !got.Since.Time.Equal(want) {
			t.Errorf("%s: it is so since %s, want %s", name, got.Since, want)
		}
	}
}
