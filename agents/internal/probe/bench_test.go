// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/probe"
)

// BenchmarkRun measures what one probe costs this program, and not its command, as cpu-ns/op.
func BenchmarkRun(b *testing.B) {
	r, err := shared()
	if err != nil {
		b.Fatal(err)
	}
	file := b.TempDir() + "/info"
	if err := os.WriteFile(file, []byte(info), 0o600); err != nil {
		b.Fatal(err)
	}
	measured := redis
	measured.Command = []string{"cat", file}
	p, err := probe.New(measured, planfile.Dirs{}.Secret, r)
	if err != nil {
		b.Fatal(err)
	}
	before := ownTime(b)
	for b.Loop() {
		if got := p.Run(b.Context()); got.Cause != "" {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(ownTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// ownTime is the processor time of this program without its children.
func ownTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
