// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"strings"
	"testing"
)

const (
	sampleStat   = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 150 7 9 20 0 12 0 1000 0 0"
	sampleStatus = "Name:\ta\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\nThreads:\t12\n"
)

func TestParseUsage(t *testing.T) {
	got, err := parseUsage([]byte(sampleStat), []byte(sampleStatus))
	if want := (Usage{CPUSeconds: 4, ResidentMiB: 2, PeakMiB: 4}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestParseUsageRefuses(t *testing.T) {
	for says, sample := range map[string][2]string{
		"no program":  {"42 a S", sampleStatus},
		"2 fields":    {"42 (a) S 1", sampleStatus},
		"none":        {strings.Replace(sampleStat, "250", "x", 1), sampleStatus},
		"no line VmR": {sampleStat, "VmHWM:\t1 kB\n"},
		"no line VmH": {sampleStat, "VmRSS:\t1 kB\n"},
	} {
		if _, err := parseUsage([]byte(sample[0]), []byte(sample[1])); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want an error with %q, got %v", says, err)
		}
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	got, err := usageOf(os.Getpid())
	if err != nil || got.ResidentMiB <= 0 || got.PeakMiB < got.ResidentMiB {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCPUByName(t *testing.T) {
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	// What is counted is in hundredths of a second.
	for own := 0.0; own == 0; {
		seconds, err := CPUByName()
		if err != nil {
			t.Fatal(err)
		}
		var found bool
		if own, found = seconds[strings.TrimSpace(string(name))]; !found {
			t.Fatalf("this process, %s, is not among %v", name, seconds)
		}
	}
}
