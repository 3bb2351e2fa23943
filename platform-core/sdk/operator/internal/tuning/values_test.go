// SPDX-License-Identifier: Apache-2.0

package tuning

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var defaults = Values{Workers: 10, QPS: 200, Burst: 400, ClusterDomain: "cluster.local"}

func TestParse(t *testing.T) {
	got, err := Parse(map[string]string{
		KeyWorkers: "3", KeyQPS: "2.5", KeyBurst: "7", KeyImageRegistry: "registry.example.com:5000/mirror",
		KeyClusterDomain: "corp.example", KeyEntityInterval: "30s", KeyLogLevel: "debug",
		KeyGitOpsManagers: "argocd-controller,flux", KeyForce: "true",
		KeyHistoryTTL: "720h", KeyHistoryLimit: "0",
	}, defaults)
	want := Values{3, 2.5, 7, "registry.example.com:5000/mirror", "corp.example", 30 * time.Second, zapcore.DebugLevel,
		"argocd-controller,flux", 720 * time.Hour, 0}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := Parse(nil, defaults); err != nil || got != defaults {
		t.Errorf("nothing set: %+v, %v", got, err)
	}
	if got, err := Parse(map[string]string{KeyImageRegistry: ""},
		Values{Workers: 1, QPS: 1, Burst: 1, ImageRegistry: "r"}); err != nil || got.ImageRegistry != "" {
		t.Errorf("an empty registry is one as well: %+v, %v", got, err)
	}
	kept := map[string]string{KeyHistoryTTL: "", KeyHistoryLimit: ""}
	if got, err := Parse(kept, Values{Workers: 1, QPS: 1, Burst: 1, HistoryTTL: 1, HistoryLimit: 1}); err != nil ||
		got.HistoryTTL != 0 || got.HistoryLimit != -1 {
		t.Errorf("empty texts keep all: %+v, %v", got, err)
	}
}

func TestParseRefusesWhatCannotWork(t *testing.T) {
	for text, data := range map[string]map[string]string{
		"workers is \"0\"":          {KeyWorkers: "0"},
		"entityInterval is \"1s\"":  {KeyEntityInterval: "1s"},
		"entityInterval is \"off\"": {KeyEntityInterval: "off"},
		"operationHistory.ttl is":   {KeyHistoryTTL: "-1h"},
		"or empty for ever":         {KeyHistoryTTL: "long"},
		"operationHistory.limit is": {KeyHistoryLimit: "-1"},
		"from 0 to 10000":           {KeyHistoryLimit: "10001"},
		"from 1 to 100":             {KeyWorkers: "101"},
		"workers is \"many\"":       {KeyWorkers: "many"},
		"number above 0":            {KeyQPS: "0"},
		"kubeApi.qps is \"NaN\"":    {KeyQPS: "NaN"},
		"kubeApi.qps is \"Inf\"":    {KeyQPS: "Inf"},
		"kubeApi.burst is":          {KeyBurst: "1.5"},
		"cannot be below":           {KeyBurst: "100"},
		"imageRegistry is":          {KeyImageRegistry: "a b"},
		"clusterDomain is \"\"":     {KeyClusterDomain: ""},
		"logLevel is \"loud\"":      {KeyLogLevel: "loud"},
		"must be debug, info, warn": {KeyLogLevel: "fatal"},
		"must be true or false":     {KeyForce: "yes"},
		"wrokers is not known":      {"wrokers": "3"},
		"known are clusterDomain":   {"wrokers": "3"},
	} {
		got, err := Parse(data, defaults)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: got %v, want %q", data, err, text)
		}
		if got != defaults {
			t.Errorf("%v: something of it is used: %+v", data, got)
		}
	}
	_, err := Parse(map[string]string{KeyWorkers: "0", KeyLogLevel: "loud"}, defaults)
	if err == nil || !strings.Contains(err.Error(), KeyWorkers) || !strings.Contains(err.Error(), KeyLogLevel) {
		t.Errorf("not every problem is told: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(KeyWorkers, "10")
	f.Add(KeyQPS, "1e300")
	f.Add(KeyImageRegistry, "registry.example.com/x")
	f.Fuzz(func(t *testing.T, key, text string) {
		v, err := Parse(map[string]string{key: text}, defaults)
		if err != nil {
			return
		}
		if v.Workers < 1 || !(v.QPS > 0) || float64(v.Burst) < v.QPS || v.ClusterDomain == "" {
			t.Errorf("%q=%q gives %+v", key, text, v)
		}
	})
}

func TestKeeperKeepsTheLastGoodSettings(t *testing.T) {
	var used []Values
	k := &Keeper{Key: types.NamespacedName{Namespace: "zeroinfra", Name: "s"}, Defaults: defaults,
		Use: func(v Values) { used = append(used, v) }, Log: logr.Discard()}
	data := func(data map[string]string) *corev1.ConfigMap { return &corev1.ConfigMap{Data: data} }
	broken := data(map[string]string{KeyWorkers: "none"})
	if err := k.Take(broken); err == nil || !strings.Contains(err.Error(), "zeroinfra/s") {
		t.Errorf("got %v, want a refusal that names the ConfigMap", err)
	}
	steps := []struct {
		found   *corev1.ConfigMap
		workers int
	}{
		{data(map[string]string{KeyWorkers: "3"}), 3},
		{broken, 3},
		{data(map[string]string{KeyWorkers: "3"}), 3},
		{nil, 10},
		{data(map[string]string{KeyWorkers: "4"}), 4},
	}
	for i, step := range steps {
		_ = k.Take(step.found) // The refusal was looked at above.
		if got := used[len(used)-1].Workers; got != step.workers {
			t.Errorf("step %d: %d workers, want %d", i, got, step.workers)
		}
	}
	if len(used) != 4 {
		t.Errorf("settings took effect %d times, want once for each change: %+v", len(used), used)
	}
}

// The limit of requests holds for all who share it, and a change of it is felt at once, also by those who wait.
func TestLimiterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(0.01, 2)
		for range 2 {
			if !l.TryAccept() {
				t.Error("the burst is not allowed")
			}
		}
		if l.TryAccept() {
			t.Error("more than the burst is allowed")
		}
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(short); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("a wait that is given up: %v after %v", err, time.Since(began))
		}
		const waiting = 10
		done := make(chan error, waiting)
		for range waiting {
			go func() { done <- l.Wait(context.Background()) }()
		}
		synctest.Wait()
		if len(done) != 0 {
			t.Errorf("%d did not wait", len(done))
		}
		began = time.Now()
		l.Set(100, 1)
		for range waiting {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 200*time.Millisecond || took < 50*time.Millisecond {
			t.Errorf("%d at 100 per second took %v", waiting, took)
		}
		if got := l.QPS(); got != 100 {
			t.Errorf("it says %v per second", got)
		}
	})
}
