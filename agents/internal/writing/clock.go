// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is the time since the machine booted, including the time that it was suspended (CLOCK_BOOTTIME).
func Boottime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		// Every kernel that Go runs on has this clock.
		panic(fmt.Sprintf("cannot read the clock: %v", err))
	}
	return time.Duration(now.Nano())
}

// alarm is a timer on Boottime, which also counts while the machine is suspended; a time.Timer does not.
type alarm struct{ file *os.File }

// newAlarm returns a disarmed one. The flags are those of timerfd_create(2).
func newAlarm(flags int) (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("cannot make a timer: %w", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timer")}, nil
}

// set arms the alarm for a time, once; it expires at once if the time has passed.
func (a *alarm) set(at time.Duration) error { return a.repeat(at, 0) }

// repeat arms the alarm for a time and for each period after it; once if the period is 0.
func (a *alarm) repeat(at, period time.Duration) error {
	// Zero would disarm it.
	return a.settime(&unix.ItimerSpec{Value: unix.NsecToTimespec(max(at.Nanoseconds(), 1)),
		Interval: unix.NsecToTimespec(period.Nanoseconds())})
}

// disarm disarms the alarm.
func (a *alarm) disarm() error { return a.settime(&unix.ItimerSpec{}) }

func (a *alarm) settime(spec *unix.ItimerSpec) error {
	connection, err := a.file.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := connection.Control(func(fd uintptr) {
		set = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, spec, nil)
	}); err != nil {
		return err
	}
	return set
}

// wait returns when the alarm expires, or with an error when it is closed.
func (a *alarm) wait() error {
	var expirations [8]byte
	_, err := a.file.Read(expirations[:])
	return err
}

func (a *alarm) close() { a.file.Close() }
