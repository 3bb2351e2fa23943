// SPDX-License-Identifier: Apache-2.0

//go:build processes && bench

package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/teststorage"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// The files of the measurement: seven eighths of the data are in large ones. What a backup after the first has to find
// is one of each.
const (
	largeFile, smallFile = 64 << 20, 16 << 10
	smallShare           = 8
)

// fileTrial keeps the files of one folder in one storage, by movers and by restic alone.
type fileTrial struct {
	*fileCarrier
	random *rand.ChaCha8
	// ours and theirs are bytes of files per second, of first backups and of those after them.
	ours, theirs, oursAgain, theirsAgain []float64
	// memory and theirMemory are the most bytes that each of them had in memory.
	memory, theirMemory int64
}

func newFileTrial(t *testing.T, gib int) *fileTrial {
	t.Helper()
	f := &fileTrial{fileCarrier: newFiles(t), random: rand.NewChaCha8([32]byte{1})}
	f.inBucket()
	f.flags = nil // As in a pod.
	small := int64(gib) << 30 / smallShare
	for n := range small / smallFile {
		f.file(fmt.Sprintf("small/%d/%d", n/500, n), smallFile)
	}
	for n := range (int64(gib)<<30 - small) / largeFile {
		f.file(fmt.Sprintf("large/%d", n), largeFile)
	}
	return f
}

// file writes one that becomes half as large when it is packed.
func (f *fileTrial) file(name string, size int) {
	f.Helper()
	content := make([]byte, size)
	half := content[size/2:]
	_, _ = f.random.Read(half) // It never fails.
	hex.Encode(content, slices.Clone(half))
	f.put(name, string(content))
}

func (f *fileTrial) keyOf(round int, name string) string {
	return fmt.Sprintf("production/site-%d/%s-1a2b3c4d", round, name)
}

// mover is a backup by ours.
func (f *fileTrial) mover(round int, name string) (perSecond float64) {
	f.Helper()
	plan := f.backup(name)
	plan.Backup.Key = f.keyOf(round, name)
	made, took := f.measured(plan, &f.memory)
	return float64(made.RawSize) / took.Seconds()
}

// alone runs restic with the repository of a round of theirs, and says how long it took.
func (f *fileTrial) alone(round int, words ...string) time.Duration {
	f.Helper()
	cmd := exec.Command("restic", append(
		[]string{"--no-cache", "--quiet", "--insecure-no-password", "--cacert", f.path("credentials", "ca.crt"), "-o",
			"s3.bucket-lookup=path",
			"--repo", fmt.Sprintf("s3:%s/%s/plain-%d", f.repository.Endpoint, f.repository.Bucket, round)}, words...)...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+teststorage.Account, "AWS_SECRET_ACCESS_KEY="+
		teststorage.SecretKey, "AWS_DEFAULT_REGION="+teststorage.Region)
	cmd.Dir = f.folder
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	ended := make(chan struct{})
	var err error
	go func() { err = cmd.Wait(); close(ended) }()
	f.theirMemory = max(f.theirMemory, resident(ended, cmd))
	if err != nil {
		f.Fatalf("restic %s: %v: %s", words[0], err, said.String())
	}
	return time.Since(begun)
}

// changed is what a backup after the first has to find.
func (f *fileTrial) changed(round int) {
	f.Helper()
	f.file(fmt.Sprintf("large/new-%d", round), largeFile)
	f.file("small/0/0", smallFile)
}

// kept makes a first and a second backup by each of both.
func (f *fileTrial) kept(round int) {
	f.Helper()
	sides := func(ours, theirs *[]float64, name string) []func() {
		all := []func(){
			func() { *ours = append(*ours, f.mover(round, name)) },
			func() {
				took := f.alone(round, "backup", "--no-scan", ".")
				*theirs = append(*theirs, float64(f.sizeOf(f.folder))/took.Seconds())
			},
		}
		if round%2 == 1 {
			slices.Reverse(all)
		}
		return all
	}
	f.alone(round, "init")
	for _, one := range sides(&f.ours, &f.theirs, "a") {
		one()
	}
	f.changed(round)
	for _, one := range sides(&f.oursAgain, &f.theirsAgain, "b") {
		one()
	}
}

// back restores what both kept last, and says how long each took.
func (f *fileTrial) back(round int) (ours, theirs time.Duration) {
	f.Helper()
	plan := protocol.Plan{Verb: protocol.VerbRestore, Files: &protocol.Files{},
		Backup: &protocol.Backup{Key: f.keyOf(round, "b")},
		Volume: &protocol.TargetVolume{Folder: f.path("ours"), ID: "uid-1"}}
	if err := os.Mkdir(plan.Volume.Folder, 0o700); err != nil {
		f.Fatal(err)
	}
	_, ours = f.measured(plan, &f.memory)
	theirs = f.alone(round, "restore", "latest", "--target", f.path("theirs"))
	if said, err := exec.Command("diff", "-rq", "-x", protocol.OwnPrefix+"*", "-x", "lost+found", f.folder,
		plan.Volume.Folder).CombinedOutput(); err != nil {
		f.Errorf("what is restored is not what was kept: %v: %s", err, said)
	}
	return ours, theirs
}

// TestThroughputOfFiles sets movers beside restic alone. Both are on one machine with the storage, and who is first
// changes from round to round.
func TestThroughputOfFiles(t *testing.T) {
	gib, rounds := setting(t, sizeVariable, usualSize), setting(t, roundsVariable, usualRounds)
	f := newFileTrial(t, gib)
	for round := range rounds {
		f.kept(round)
	}
	ours, theirs := f.back(rounds - 1)
	t.Logf("medians of %d rounds of %d GiB of files, in MiB/s of them, and each round:", rounds, gib)
	for _, line := range []struct {
		what   string
		speeds []float64
	}{{"mover, a first backup", f.ours}, {"restic alone, a first backup", f.theirs},
		{"mover, 64 MiB changed", f.oursAgain}, {"restic alone, 64 MiB changed", f.theirsAgain}} {
		t.Logf("  %-34s %6.0f  (%s)", line.what, median(line.speeds)/(1<<20), each(line.speeds))
	}
	t.Logf("  restored by the mover in %.1f s, by restic alone in %.1f s", ours.Seconds(), theirs.Seconds())
	t.Logf("  resident at most %d MiB, and %d MiB of restic alone", f.memory>>20, f.theirMemory>>20)
	judge(t, median(f.ours)/median(f.theirs), "restic alone", f.memory)
}
