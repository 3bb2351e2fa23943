// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zeroinfra/test/bench/fleet"
	"github.com/zeroinfra/test/bench/program"
	"github.com/zeroinfra/test/bench/result"
)

// spend runs a phase within the bench's patience and notes what CPU the operator needed for it.
func (b *bench) spend(ctx context.Context, phase *result.Phase, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	before, err := b.operator.usage()
	if err != nil {
		return err
	}
	used, err := program.CPUByName()
	if err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		return err
	}
	after, err := b.operator.usage()
	if err != nil {
		return err
	}
	phase.CPUSeconds = after.CPUSeconds - before.CPUSeconds
	phase.Programs, err = usedSince(used)
	return err
}

// usedSince returns the CPU seconds of all programs since then.
func usedSince(then map[string]float64) (map[string]float64, error) {
	now, err := program.CPUByName()
	for name := range now {
		now[name] -= then[name]
	}
	return now, err
}

// create makes the Applications and waits until the operator has nothing more to do for them.
func (b *bench) create(ctx context.Context, f fleet.Fleet, run *result.Run) error {
	b.Say("making %d Applications", b.Applications)
	return b.spend(ctx, &run.Create, func(ctx context.Context) error {
		profiled := b.profile(ctx, cpuProfile)
		progress, err := f.Await(ctx, applications(), fleet.ApplicationReady(1), f.MakeApplications, b.alive)
		if err != nil {
			return err
		}
		b.Say("all Ready after %.1f s", progress.Total().Seconds())
		if _, err := b.operator.quiet(ctx, b.Applications); err != nil {
			return err
		}
		b.note(&run.Create, progress, time.Now())
		return profiled()
	})
}

// idle waits, and sees that nothing happens.
func (b *bench) idle(ctx context.Context, run *result.Run) error {
	b.Say("waiting for %v", b.Idle)
	err := b.spend(ctx, &run.Idle, func(ctx context.Context) error {
		start := time.Now()
		select {
		case <-time.After(b.Idle):
		case <-ctx.Done():
			return ctx.Err()
		}
		run.Idle.Seconds = b.Idle.Seconds()
		b.window(&run.Idle, start, time.Now())
		return b.alive()
	})
	if err != nil {
		return err
	}
	usage, err := b.operator.usage()
	if err != nil {
		return err
	}
	run.Memory.Rest = usage.ResidentMiB
	return b.profile(ctx, heapProfile)()
}

// change changes a parameter of each Application.
func (b *bench) change(ctx context.Context, f fleet.Fleet, run *result.Run) error {
	b.Say("changing a parameter of each")
	before, err := pods(ctx, f)
	if err != nil {
		return err
	}
	err = b.spend(ctx, &run.Parameter, func(ctx context.Context) error {
		progress, err := f.Await(ctx, applications(), fleet.ApplicationReady(2), f.SetLevel(2), b.alive)
		if err != nil {
			return err
		}
		b.Say("all Ready after %.1f s", progress.Total().Seconds())
		if _, err := b.operator.quiet(ctx, b.Applications); err != nil {
			return err
		}
		b.note(&run.Parameter, progress, time.Now())
		return nil
	})
	if err != nil {
		return err
	}
	after, err := pods(ctx, f)
	if err != nil {
		return err
	}
	run.PodsReplaced = replaced(before, after)
	if touched(before, after) == 0 {
		return fmt.Errorf("no pod of %d has reported the change of a parameter: what was changed is not what pods run with",
			len(before))
	}
	return nil
}

// annotate gives each Application an annotation that means nothing.
func (b *bench) annotate(ctx context.Context, f fleet.Fleet, run *result.Run) error {
	b.Say("annotating each")
	return b.spend(ctx, &run.Annotation, func(ctx context.Context) error {
		start := time.Now()
		if err := f.Note("hello")(ctx); err != nil {
			return err
		}
		last, err := b.operator.quiet(ctx, 1)
		if err != nil {
			return err
		}
		run.Annotation.Seconds = last.Sub(start).Seconds()
		b.window(&run.Annotation, start, time.Now())
		return nil
	})
}

// restart ends the operator and starts another.
func (b *bench) restart(ctx context.Context, f fleet.Fleet, run *result.Run) error {
	b.Say("restarting the operator")
	before, err := pods(ctx, f)
	if err != nil {
		return err
	}
	last, err := b.operator.usage()
	if err != nil {
		return err
	}
	run.Memory.Peak = last.PeakMiB
	if err := b.operator.stop(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	start := time.Now()
	if err := b.operator.start(); err != nil {
		return err
	}
	// Every Application, Component and WorkloadSet is looked at once.
	const kinds = 3
	caughtUp, err := b.operator.quiet(ctx, kinds*b.Applications)
	if err != nil {
		return err
	}
	b.window(&run.Restart, start, time.Now())
	run.Restart.Seconds = caughtUp.Sub(start).Seconds()
	b.Say("caught up after %.1f s", run.Restart.Seconds)
	var usage program.Usage
	if usage, err = b.operator.usage(); err != nil {
		return err
	}
	run.Restart.CPUSeconds = usage.CPUSeconds
	run.Memory.Restarted, run.Memory.RestartedPeak = usage.ResidentMiB, usage.PeakMiB
	after, err := pods(ctx, f)
	if err != nil {
		return err
	}
	run.PodsTouched = touched(before, after)
	return nil
}

// touched counts the objects that differ in any way, or are there but once. Values are UID and version.
func touched(before, after map[string]string) int {
	return differing(before, after, func(value string) string { return value })
}

// replaced counts the objects that are others under the same name, or are there but once.
func replaced(before, after map[string]string) int {
	return differing(before, after, func(value string) string {
		uid, _, _ := strings.Cut(value, " ")
		return uid
	})
}

func differing(before, after map[string]string, what func(string) string) int {
	count := 0
	for name, value := range before {
		if now, found := after[name]; !found || what(now) != what(value) {
			count++
		}
	}
	for name := range after {
		if _, found := before[name]; !found {
			count++
		}
	}
	return count
}
