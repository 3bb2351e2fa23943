// SPDX-License-Identifier: Apache-2.0

//go:build processes && bench

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/testpostgres"
	"github.com/zeroinfra/agents/internal/teststorage"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// The budgets of a backup: a share of the speed of plain tools, and bytes that are resident, of the mover and what it
// runs together.
const (
	leastSpeed   = 0.8
	mostResident = 256 << 20
)

// The variables that say how much data there is and how often it is kept, and what they are otherwise.
const (
	sizeVariable, roundsVariable = "BACKUP_GIB", "BACKUP_ROUNDS"
	usualSize, usualRounds       = 5, 3
)

func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s must be a whole number from 1 on, and is %q", name, text)
	}
	return n
}

// trial keeps the data of one server in one storage, by a mover and by plain tools.
type trial struct {
	*bucketCarrier
	// bin has the server's own programs.
	bin string
	// Bytes per second of each round: of the mover, of the plain tools together, and of each of those.
	ours, plain, copied, sent []float64
	// memory is the most bytes that a mover and what it runs had in memory.
	memory int64
}

func newTrial(t *testing.T, gib int) *trial {
	t.Helper()
	b := &trial{bucketCarrier: newBucketCarrier(t)}
	b.flags = nil // As in a pod.
	s := testpostgres.New(t, "wal_level = replica", "max_wal_senders = 4", "max_wal_size = 2GB", "log_statement = 'none'")
	s.Start()
	s.SQL("postgres", fmt.Sprintf("CREATE TABLE t AS SELECT n, (SELECT string_agg(md5((n * 16 + i)::text), '') FROM "+
		"generate_series(1, 15) i) FROM generate_series(1, %d) n", gib<<21))
	s.SQL("postgres", "CHECKPOINT")
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_verifybackup")
	if err != nil || len(programs) == 0 {
		t.Fatal("there is no pg_verifybackup: install Debian's package postgresql")
	}
	b.bin = filepath.Dir(programs[len(programs)-1])
	host, port, _ := net.SplitHostPort(s.Address)
	b.env = []string{"PGPASSWORD=" + testpostgres.Password, "PGHOST=" + host, "PGPORT=" + port, "PGUSER=postgres"}
	return b
}

// copying is the command that copies the server's data; what it copies to is added.
func (b *trial) copying() string {
	return b.bin + "/pg_basebackup -Ft -X fetch --checkpoint=fast --no-password -D "
}

// mover is one round of ours.
func (b *trial) mover() {
	b.Helper()
	made, took := b.measured(backup(fmt.Sprintf("mover-%d", len(b.ours)), "exec "+b.copying()+"-"), &b.memory)
	b.ours = append(b.ours, float64(made.RawSize)/took.Seconds())
}

// tools is one round of theirs: pg_basebackup to a folder, and an upload of what that wrote.
func (b *trial) tools() {
	b.Helper()
	folder, object := b.path("plain"), "plain/base.tar"
	begun := time.Now()
	words := strings.Fields(b.copying() + folder)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), b.env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("pg_basebackup: %v: %s", err, said)
	}
	between := time.Now()
	info, err := b.client.FPutObject(b.Context(), teststorage.Bucket, object, filepath.Join(folder, "base.tar"),
		minio.PutObjectOptions{})
	if err != nil {
		b.Fatal(err)
	}
	size := float64(info.Size)
	b.plain = append(b.plain, size/time.Since(begun).Seconds())
	b.copied = append(b.copied, size/between.Sub(begun).Seconds())
	b.sent = append(b.sent, size/time.Since(between).Seconds())
	if err := os.RemoveAll(folder); err != nil {
		b.Fatal(err)
	}
	if err := b.client.RemoveObject(b.Context(), teststorage.Bucket, object, minio.RemoveObjectOptions{}); err != nil {
		b.Fatal(err)
	}
}

// back restores what the mover kept last, has the server's own tool check it, and says how long the mover took.
func (b *trial) back() time.Duration {
	b.Helper()
	into := restore()
	into.Command = shell("mkdir -m 700 target && exec tar -x -C target")
	_, took := b.measured(into, &b.memory)
	if said, err := exec.Command(b.bin+"/pg_verifybackup", b.path("target")).CombinedOutput(); err != nil {
		b.Errorf("what is restored is not what was kept: %v: %s", err, said)
	}
	return took
}

// TestThroughput sets a mover beside the plain tools. Both are on one machine with server and storage, and who is first
// changes from round to round.
func TestThroughput(t *testing.T) {
	gib, rounds := setting(t, sizeVariable, usualSize), setting(t, roundsVariable, usualRounds)
	b := newTrial(t, gib)
	for round := range rounds {
		order := []func(){b.mover, b.tools}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, one := range order {
			one()
		}
	}
	took := b.back()

	t.Logf("medians of %d rounds of %d GiB, in MiB/s of the server's data, and each round:", rounds, gib)
	for _, line := range []struct {
		what   string
		speeds []float64
	}{{"mover, to the storage", b.ours}, {"pg_basebackup and an upload", b.plain},
		{"pg_basebackup alone, to a folder", b.copied}, {"the upload alone", b.sent}} {
		t.Logf("  %-34s %6.0f  (%s)", line.what, median(line.speeds)/(1<<20), each(line.speeds))
	}
	t.Logf("  restored by the mover in %.1f s; resident at most %d MiB", took.Seconds(), b.memory>>20)
	judge(t, median(b.ours)/median(b.plain), "the plain tools", b.memory)
}

// judge holds the budgets.
func judge(t *testing.T, ratio float64, besides string, memory int64) {
	t.Helper()
	t.Logf("  the mover has %.2f times the speed of %s", ratio, besides)
	if ratio < leastSpeed {
		t.Errorf("the mover has less than %.2f times the speed of %s", leastSpeed, besides)
	}
	if memory > mostResident {
		t.Errorf("more than %d MiB were resident", mostResident>>20)
	}
}

// measured runs a plan that has to end well, says how long it took, and notes what was in memory.
func (m *carrier) measured(plan protocol.Plan, memory *int64) (protocol.Result, time.Duration) {
	m.Helper()
	begun := time.Now()
	p := m.start(plan)
	*memory = max(*memory, resident(p.ended, p.process))
	result := p.end()
	if result.Reason != "" {
		m.Fatalf("%s: %s", result.Reason, result.Message)
	}
	return result, time.Since(begun)
}

// resident waits for a process's end, and is the most bytes that it and its children had in memory at once, shared ones
// counted for each.
func resident(ended <-chan struct{}, process *exec.Cmd) (most int64) {
	for {
		select {
		case <-ended:
			return most
		case <-time.After(50 * time.Millisecond):
			most = max(most, treeOf(process.Process.Pid))
		}
	}
}

// treeOf is what a process and those that it has started have in memory.
func treeOf(pid int) int64 {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	statm, err := os.ReadFile(filepath.Join(proc, "statm"))
	if err != nil {
		return 0 // It has ended.
	}
	var size, pages int64
	_, _ = fmt.Sscan(string(statm), &size, &pages) // The kernel's own format.
	sum := pages * int64(syscall.Getpagesize())
	tasks, _ := filepath.Glob(filepath.Join(proc, "task", "*", "children"))
	for _, task := range tasks {
		children, _ := os.ReadFile(task) // A thread may have ended.
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				sum += treeOf(n)
			}
		}
	}
	return sum
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func each(speeds []float64) string {
	var words []string
	for _, speed := range speeds {
		words = append(words, fmt.Sprintf("%.0f", speed/(1<<20)))
	}
	return strings.Join(words, ", ")
}
