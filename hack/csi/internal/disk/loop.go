// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package disk shows files as disks: loop devices, their file systems and
// mounts. A device goes with its last mount, however that ends, so nothing has
// to be remembered and nothing is left behind.
package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is a loop device that shows a file.
type Device struct {
	// Path is its file, such as /dev/loop3.
	Path string
	// Number is its major and minor number, as mounts name it.
	Number string
}

// Find returns the device that shows a file, if one does.
func Find(image string) (Device, bool, error) {
	var want unix.Stat_t
	if err := unix.Stat(image, &want); err != nil {
		return Device{}, false, fmt.Errorf("cannot look at disk %q: %w", image, err)
	}
	// Only devices that show something have this folder.
	used, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return Device{}, false, err
	}
	for _, dir := range used {
		path := "/dev/" + filepath.Base(filepath.Dir(dir))
		shown, err := shows(path)
		if err != nil {
			return Device{}, false, err
		}
		if shown.Device == want.Dev && shown.Inode == want.Ino {
			d, err := device(path)
			return d, err == nil, err
		}
	}
	return Device{}, false, nil
}

// shows tells which file a device shows; the zero value stands for none.
func shows(path string) (unix.LoopInfo64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENXIO) {
		return unix.LoopInfo64{}, nil // it went meanwhile
	}
	if err != nil {
		return unix.LoopInfo64{}, fmt.Errorf("cannot open %q: %w", path, err)
	}
	defer f.Close()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if errors.Is(err, unix.ENXIO) {
		return unix.LoopInfo64{}, nil
	}
	if err != nil {
		return unix.LoopInfo64{}, fmt.Errorf("cannot ask %q what it shows: %w", path, err)
	}
	return *info, nil
}

func device(path string) (Device, error) {
	number, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(path), "dev"))
	if err != nil {
		return Device{}, fmt.Errorf("cannot read the number of %q: %w", path, err)
	}
	return Device{Path: path, Number: strings.TrimSpace(string(number))}, nil
}

// attach shows a file as a device for as long as the returned descriptor or a
// mount holds it.
func attach(image string) (*os.File, Device, error) {
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, Device{}, fmt.Errorf("cannot open disk %q: %w", image, err)
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, Device{}, fmt.Errorf("cannot make loop devices: %w", err)
	}
	defer control.Close()
	// Others may take the free device that the kernel names; then there is
	// another.
	const patience = 64
	for range patience {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, Device{}, fmt.Errorf("cannot get a loop device: %w", err)
		}
		path := fmt.Sprintf("/dev/loop%d", number)
		loop, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, Device{}, fmt.Errorf("cannot open loop device: %w", err)
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		copy(config.Info.File_name[:len(config.Info.File_name)-1], image)
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		if err == nil {
			d, err := device(path)
			if err != nil {
				loop.Close()
			}
			return loop, d, err
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, Device{}, fmt.Errorf("cannot show %q as %q: %w", image, path, err)
		}
	}
	return nil, Device{}, fmt.Errorf("cannot get a loop device for %q: others took %d in a row", image, patience)
}

// refresh makes a device as large as its file is now.
func (d Device) refresh() error {
	f, err := os.Open(d.Path)
	if err != nil {
		return fmt.Errorf("cannot open %q: %w", d.Path, err)
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("cannot grow %q: %w", d.Path, err)
	}
	return nil
}
