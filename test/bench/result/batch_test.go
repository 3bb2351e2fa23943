// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// batchSample keeps both budgets just so.
func batchSample() Batch {
	curve := make([]float64, 101)
	for i := range curve {
		curve[i] = float64(i) * 2 / 99
	}
	m := Machine{Processor: "test", Cores: 2, Date: "2027-01-01"}
	return Batch{
		Workflows: &BatchRun{Machine: m, BatchFigures: BatchFigures{Objects: 2000, Seconds: 100, Ended: curve, Took: curve,
			Writes: 9.5, Resources: map[string]float64{"workflows": 3, "jobs": 1.25}, CPUMilliseconds: 30, PeakMiB: 90}},
		CronJobs: &BatchRun{Machine: m, BatchFigures: BatchFigures{Objects: 20000, Took: curve, Writes: 2, PeakMiB: 300}},
	}
}

func TestBudgetsOfTheBatchOperator(t *testing.T) {
	missed := func(b Batch) (n int) {
		for _, v := range b.Judge() {
			if v.Met == Missed {
				n++
			}
		}
		return n
	}
	b := batchSample()
	if got := b.Judge(); len(got) != 2 || missed(b) != 0 {
		t.Errorf("at the limits: %+v", got)
	}
	b.Workflows.Seconds, b.CronJobs.Took[99] = 100.1, 2.01
	if got := missed(b); got != 2 {
		t.Errorf("%d are missed", got)
	}
	if got := (Batch{}).Judge(); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

// Each bench can be run without the other.
func TestPageAndPlotOfTheBatchOperator(t *testing.T) {
	whole := batchSample()
	for _, b := range []Batch{whole, {Workflows: whole.Workflows}, {CronJobs: whole.CronJobs}, {}} {
		decoder := xml.NewDecoder(strings.NewReader(b.SVG()))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("the plot is no XML: %v", err)
			}
		}
		page := b.Markdown("batch.svg")
		if got := strings.Contains(page, "## 2000 Workflows"); got != (b.Workflows != nil) {
			t.Errorf("Workflows are on the page: %v", got)
		}
		if got := strings.Contains(page, "## 20000 CronJobs"); got != (b.CronJobs != nil) {
			t.Errorf("CronJobs are on the page: %v", got)
		}
	}
	for _, want := range []string{"| 1200 | ≥ 1200 | kept |", "within | 2 s |", "| 9.50 |",
		"| jobs 1.25, workflows 3 |", "](batch.svg)"} {
		if !strings.Contains(whole.Markdown("batch.svg"), want) {
			t.Errorf("the page lacks %q:\n%s", want, whole.Markdown("batch.svg"))
		}
	}
}
