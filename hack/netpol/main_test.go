// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestFollowGathersChanges(t *testing.T) {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	times := 0
	if err := follow(ctx, changed, func() error {
		if times++; times == 2 {
			cancel()
			return nil
		}
		// Many changes while the rules are written are one.
		for range 10 {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		return nil
	}); err != nil || times != 2 {
		t.Errorf("did it %d times, %v", times, err)
	}
}

func TestFollowEndsAtFailure(t *testing.T) {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	broken := errors.New("broken")
	if err := follow(t.Context(), changed, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestFlags(t *testing.T) {
	if err := run(t.Context(), "n1", "", "/ready"); err == nil || !strings.Contains(err.Error(), "--root") {
		t.Errorf("without a root: %v", err)
	}
	if err := run(t.Context(), "n1", "/", "/ready"); err == nil || !strings.Contains(err.Error(), "API server") {
		t.Errorf("outside a cluster: %v", err)
	}
}
