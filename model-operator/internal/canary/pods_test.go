// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// scaled has autoscalers decide how many pods there are, from 1 to 12, where a Gateway splits the requests. There are
// so many pods of the others, and of the canary, which has a weight.
func scaled(i *aiv1.Inference, step, others, pods, weight int32) *aiv1.Inference {
	i.Spec.MinReplicas, i.Spec.MaxReplicas = 1, 12
	i.Spec.HTTPRoute = &aiv1.InferenceHTTPRoute{Host: "chat.example.com", Gateway: "public"}
	i.Spec.ModelRef = aiv1.InferenceModelReference{Name: "chat", Version: "v1"}
	i.Status.Replicas = others + pods
	return routed(showing(i, step, pods, pods, weight))
}

// recording has the record of an Inference be this.
func recording(t *testing.T, i *aiv1.Inference, p aiv1.CanaryProgress) *aiv1.Inference {
	t.Helper()
	i.Annotations = map[string]string{aiv1.CanaryProgressAnnotation: onRecord(t, p)}
	return i
}

func onRecord(t *testing.T, p aiv1.CanaryProgress) string {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A weight asks for as many pods as its part of the requests takes, by what either side needs for its part now.
func TestAskedPods(t *testing.T) {
	for name, c := range map[string]struct{ others, pods, now, weight, want int32 }{
		"at first":                      {10, 0, 0, 10, 1},
		"a half at first":               {9, 0, 0, 50, 5},
		"from a tenth to a half":        {9, 1, 10, 50, 5},
		"from a half to all":            {5, 5, 50, 100, 10},
		"the others have not gone yet":  {9, 5, 50, 100, 10},
		"the canary has not gone yet":   {1, 5, 50, 50, 1},
		"one for a tenth, then for all": {1, 1, 10, 100, 2},
		"to less":                       {5, 5, 50, 10, 1},
		"more than there may be":        {12, 12, 50, 100, 12},
		"all, again":                    {1, 7, 100, 100, 7},
		"nobody is there":               {0, 0, 0, 50, 1},
	} {
		if got := asked(scaled(at(t, "", 0), 1, c.others, c.pods, c.now), c.weight); got != c.want {
			t.Errorf("%s: it asks for %d pods, want %d", name, got, c.want)
		}
	}
	byNumber := scaled(at(t, "", 0), 1, 9, 1, 10)
	byNumber.Spec.MaxReplicas = 0
	unsplit := scaled(at(t, "", 0), 1, 9, 1, 10)
	unsplit.Spec.HTTPRoute = nil
	for name, i := range map[string]*aiv1.Inference{"replicas decide": byNumber, "no Gateway splits": unsplit} {
		if got := asked(i, 50); got != 0 {
			t.Errorf("%s: it asks for %d pods", name, got)
		}
	}
}

// A step says how many pods it waits for, and that number does not grow with them.
func TestStepAsksForItsPodsOnce(t *testing.T) {
	i := scaled(at(t, aiv1.CanaryMeasuring, 0), 1, 9, 3, 25)
	p := decide(i, facts{now: began.Add(time.Minute)}).progress
	if p.Phase != aiv1.CanaryStarting || p.Step != 1 || p.Pods != 6 ||
		p.Message != "the weight 50 waits until 6 pods of the canary are ready" {
		t.Errorf("it begins as %+v", p)
	}
	i = scaled(recording(t, i, p), 2, 9, 5, 25)
	d := decide(i, facts{now: began.Add(2 * time.Minute)})
	if onRecord(t, d.progress) != onRecord(t, p) || !d.wake.Equal(began.Add(11*time.Minute)) {
		t.Errorf("with some of them it is %+v, until %s", d.progress, d.wake)
	}
	d = decide(i, facts{now: began.Add(11 * time.Minute)})
	if p := d.progress; p.Phase != aiv1.CanaryRolledBack || p.Pods != 0 || !strings.Contains(p.Message,
		"its weight is 25") {
		t.Errorf("without them it ends as %+v", p)
	}
	i.Status.Canary.Message = "the weight 50 waits until 6 pods of the canary are ready"
	if got := standing(i); !strings.HasSuffix(got, i.Status.Canary.Message) {
		t.Errorf("it says %q", got)
	}
}

// The autoscaler is free once it has seen the requests, in the step and after the last one.
func TestPodsAreGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		phase aiv1.CanaryPhase
		after time.Duration
		pods  int32
		wake  time.Duration
	}{
		"measured":             {aiv1.CanaryMeasuring, time.Second, 4, settleTime},
		"measured for long":    {aiv1.CanaryMeasuring, settleTime, 0, time.Hour},
		"complete":             {aiv1.CanaryComplete, time.Second, 4, settleTime},
		"complete since long":  {aiv1.CanaryComplete, settleTime, 0, 0},
		"rolled back":          {aiv1.CanaryRolledBack, time.Second, 0, 0},
		"complete for a while": {aiv1.CanaryComplete, 4 * time.Minute, 4, settleTime},
	} {
		i := scaled(at(t, c.phase, 1), 2, 4, 4, 50)
		i.Spec.Canary.Steps[1].Pause.Duration = time.Hour
		recording(t, i, aiv1.CanaryProgress{Of: i.Spec.Canary.Digest(), Phase: c.phase, Step: 1,
			Since: metav1.NewTime(began), Pods: 4})
		d := decide(i, facts{now: began.Add(c.after)})
		if d.progress.Phase != c.phase || d.progress.Pods != c.pods {
			t.Errorf("%s: %+v, want %d pods", name, d.progress, c.pods)
		}
		if want := began.Add(c.wake); c.wake == 0 && !d.wake.IsZero() || c.wake > 0 && !d.wake.Equal(want) {
			t.Errorf("%s: the next look is at %s, want %s", name, d.wake, want)
		}
	}
}

// The others are as many as all requests ask for while they change to the version of the canary, and for a while after
// it was taken out.
func TestOthersTakeOver(t *testing.T) {
	i := scaled(at(t, aiv1.CanaryComplete, 1), 2, 1, 7, 100)
	if p := decide(i, facts{now: began}).progress; p.MainPods != 0 {
		t.Errorf("before that there is %+v", p)
	}
	i.Spec.ModelRef = i.Spec.Canary.ModelRef
	p := decide(i, facts{now: began}).progress
	if p.MainPods != 7 {
		t.Errorf("they are to be %d pods, want 7", p.MainPods)
	}
	i = scaled(recording(t, i, p), 2, 7, 9, 100)
	i.Spec.ModelRef = i.Spec.Canary.ModelRef
	if again := decide(i, facts{now: began}).progress; again.MainPods != 7 {
		t.Errorf("with more pods they are to be %d", again.MainPods)
	}
	i.Spec.Canary = nil
	left := began.Add(time.Hour)
	kept, wake := released(i, left)
	if kept == nil || kept.Of != "" || kept.MainPods != 7 || !kept.Since.Time.Equal(left) ||
		!wake.Equal(left.Add(settleTime)) {
		t.Fatalf("without the canary there is %+v, until %s", kept, wake)
	}
	recording(t, i, *kept)
	if again, _ := released(i, left.Add(time.Minute)); again == nil ||
		onRecord(t, *again) != onRecord(t, *kept) {
		t.Errorf("a minute after there is %+v, want %+v", again, kept)
	}
	if gone, _ := released(i, left.Add(settleTime)); gone != nil {
		t.Errorf("in the end there is %+v", gone)
	}
}
