// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/test/bench/audit"
)

var update = flag.Bool("update", false, "write the golden files")

// sample keeps all budgets.
func sample() Run {
	tally := func(writes int) *audit.Tally {
		return &audit.Tally{Writes: writes, Reads: 3, Verbs: map[string]int{"patch": writes, "get": 3},
			Changes: map[string]int{"patch pods": writes}}
	}
	curve := func(last float64) []float64 {
		points := make([]float64, 101)
		for i := range points {
			points[i] = last * float64(i) / 100
		}
		return points
	}
	return Run{
		Applications: 10, Pods: 30, Namespaces: 2, Nodes: 3, Seconds: 200.4,
		StatefulSets: Phase{Seconds: 8, Ready: curve(8), Requests: map[string]*audit.Tally{Controllers: tally(100)}},
		Create: Phase{Seconds: 12, CPUSeconds: 3.3,
			Programs: map[string]float64{"kube-apiserver": 7.5, "operator": 3.3, "kwok": 0}, Ready: curve(12),
			Requests: map[string]*audit.Tally{Operator: tally(570), Agents: tally(30), Bench: tally(10)}},
		Parameter: Phase{Seconds: 5, CPUSeconds: 1,
			Requests: map[string]*audit.Tally{Operator: tally(60), Agents: tally(30)}},
		Annotation: Phase{Seconds: 1, Requests: map[string]*audit.Tally{Bench: tally(10)}},
		Restart: Phase{Seconds: 30, CPUSeconds: 0.5,
			Requests: map[string]*audit.Tally{Operator: {Reads: 12, Verbs: map[string]int{"list": 12}}}},
		Memory:   Memory{Empty: 40, Rest: 42.5, Peak: 300, Restarted: 41, RestartedPeak: 50},
		Poisoned: Poisoned{Healthy: 10, Beside: 12, Without: []float64{9, 10}},
	}
}

func missed(r Run) (what []string) {
	for _, v := range r.Judge() {
		if v.Met != Kept {
			what = append(what, v.What)
		}
	}
	return what
}

func TestBudgetsAreKeptAtTheirLimits(t *testing.T) {
	if got := missed(sample()); len(got) > 0 {
		t.Errorf("missed: %q", got)
	}
}

func TestEachBudgetCanBeMissed(t *testing.T) {
	breaks := map[string]func(*Run){
		"multiple":        func(r *Run) { r.Create.Seconds = 12.1 },
		"most memory":     func(r *Run) { r.Memory.RestartedPeak = 301 },
		"memory per":      func(r *Run) { r.Memory.Rest += 0.1 },
		"writes per":      func(r *Run) { r.Create.Requests[Agents].Writes++ },
		"conflicts":       func(r *Run) { r.Create.Requests[Operator].Conflicts = 1 },
		"idle":            func(r *Run) { r.Idle.Requests = map[string]*audit.Tally{Agents: {Writes: 1}} },
		"annotation":      func(r *Run) { r.Annotation.Requests[Operator] = &audit.Tally{Writes: 1} },
		"replaced":        func(r *Run) { r.PodsReplaced = 1 },
		"until caught up": func(r *Run) { r.Restart.Seconds = 30.1 },
		"restarted: API":  func(r *Run) { r.Restart.Requests[Operator].Writes = 1 },
		"pods touched":    func(r *Run) { r.PodsTouched = 1 },
		"cannot be made":  func(r *Run) { r.Poisoned.Without[1] = 9.9 },
	}
	for what, spoil := range breaks {
		run := sample()
		spoil(&run)
		if got := missed(run); len(got) != 1 || !strings.Contains(got[0], what) {
			t.Errorf("%s: missed are %q", what, got)
		}
	}
	if judged := sample().Judge(); len(judged) != len(breaks) {
		t.Errorf("there are %d budgets, and %d of them can be missed", len(judged), len(breaks))
	}
}

// The bench fails for what is counted and for the ratio of one run, whatever the machine, and never for seconds or
// memory.
func TestFirmBudgetsFailTheBench(t *testing.T) {
	if err := (Report{Runs: []Run{sample(), sample()}}).Failed(); err != nil {
		t.Errorf("it fails with all budgets kept: %v", err)
	}
	for what, spoil := range map[string]func(*Run){
		"API writes while idle is 1, budget ≤ 0": func(r *Run) {
			r.Idle.Requests = map[string]*audit.Tally{Agents: {Writes: 1}}
		},
		"API writes after an annotation": func(r *Run) {
			r.Annotation.Requests[Operator] = &audit.Tally{Writes: 1}
		},
		"API writes per Application until Ready":              func(r *Run) { r.Create.Requests[Agents].Writes++ },
		"conflicts while they are made is 1":                  func(r *Run) { r.Create.Requests[Operator].Conflicts = 1 },
		"pods replaced":                                       func(r *Run) { r.PodsReplaced = 1 },
		"operator restarted: API writes":                      func(r *Run) { r.Restart.Requests[Operator].Writes = 1 },
		"operator restarted: pods touched":                    func(r *Run) { r.PodsTouched = 1 },
		"beside 3 that cannot be made, as a multiple of that": func(r *Run) { r.Poisoned.Beside = 12.1 },
	} {
		run := sample()
		spoil(&run)
		if err := (Report{Runs: []Run{sample(), run}}).Failed(); err == nil ||
			!strings.Contains(err.Error(), "10 Applications: ") || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: it says %v", what, err)
		}
	}
	slow := sample()
	slow.Create.Seconds, slow.Restart.Seconds, slow.Memory.Peak, slow.Memory.Rest = 100, 100, 1000, 1000
	if got := missed(slow); len(got) != 4 {
		t.Errorf("missed are %q", got)
	}
	if err := (Report{Runs: []Run{slow}}).Failed(); err != nil {
		t.Errorf("it fails for what depends on the machine: %v", err)
	}
	unmeasured := sample()
	unmeasured.Poisoned = Poisoned{}
	if err := (Report{Runs: []Run{unmeasured}}).Failed(); err == nil {
		t.Error("it does not fail without a figure")
	}
}

func TestNoFigureIsNoSuccess(t *testing.T) {
	run := sample()
	run.StatefulSets.Seconds, run.Create.Seconds = 0, 0
	if got := missed(run); len(got) != 1 {
		t.Errorf("0/0 passes for a ratio: missed are %q", got)
	}
}

func TestPercentiles(t *testing.T) {
	var ready []time.Duration
	for i := range 200 {
		ready = append(ready, time.Duration(200-i)*time.Second)
	}
	got := Percentiles(ready)
	if len(got) != 101 || got[0] != 1 || got[50] != 100 || got[100] != 200 {
		t.Errorf("%d points: %v, %v, %v", len(got), got[0], got[50], got[100])
	}
	if one := Percentiles(ready[:1]); one[0] != 200 || one[100] != 200 {
		t.Errorf("of one: %v", one)
	}
	if Percentiles(nil) != nil {
		t.Error("nothing has percentiles")
	}
}

func TestGrowthLeavesOutWhatIsThereAtOnce(t *testing.T) {
	small, large := sample(), sample()
	large.Applications, large.Memory.Rest = 110, small.Memory.Rest+20
	if got, found := (Report{Runs: []Run{small, large}}).Growth(); !found || got != 0.2 {
		t.Errorf("got %v, %v; want 0.2", got, found)
	}
	if _, found := (Report{Runs: []Run{small}}).Growth(); found {
		t.Error("one run shows a growth")
	}
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{"0": 0, "1000": 1000, "123": 123.4, "12.3": 12.34, "1.23": 1.234,
		"0.012": 0.0123} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestCeiling(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 1: 1, 1.2: 1.5, 8: 10, 99: 100, 101: 150, 0.3: 0.3} {
		if got := ceiling(v); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("above %v comes %v, want %v", v, got, want)
		}
	}
}

func report() Report {
	spoilt := sample()
	spoilt.Applications, spoilt.Pods, spoilt.Create.Seconds = 20, 60, 20
	return Report{
		Machine: Machine{Processor: "P <1>", Cores: 2, MemoryGiB: 16, Kernel: "6.1", Load: "0.10", Date: "2026-01-01",
			Commit: "abc", Components: map[string]string{"KWOK": "v1", "Kubernetes": "v2"}},
		Runs: []Run{sample(), spoilt},
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at it, and run the test with -update:\n%s", path, got)
	}
}

func TestMarkdown(t *testing.T) { golden(t, "testdata/report.md", report().Markdown("plot.svg")) }

func TestSVG(t *testing.T) {
	picture := report().SVG()
	golden(t, "testdata/report.svg", picture)
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}
