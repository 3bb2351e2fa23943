// SPDX-License-Identifier: Apache-2.0

package event_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"

	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func pod(uid types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }

// published returns how many events came out since the last call, and the last of them.
func published(recorder *events.FakeRecorder) (count int, last string) {
	for {
		select {
		case last = <-recorder.Events:
			count++
		default:
			return count, last
		}
	}
}

func TestAnIdenticalEventIsHeldBack(t *testing.T) {
	sink := events.NewFakeRecorder(10)
	clock := testclock.NewFakePassiveClock(time.Unix(1000, 0))
	r := event.NewWithClock(sink, clock)
	expect := func(name string, want int, do func()) {
		t.Helper()
		do()
		if got, last := published(sink); got != want {
			t.Errorf("%s: %d events (%q), want %d", name, got, last, want)
		}
	}
	stuck := func() { r.Warning(pod("1"), "NameTaken", "%s is taken", "a") }
	expect("the first", 1, stuck)
	expect("again", 0, stuck)
	expect("of another object", 1, func() { r.Warning(pod("2"), "NameTaken", "%s is taken", "a") })
	expect("another note", 1, func() { r.Warning(pod("1"), "NameTaken", "%s is taken", "b") })
	expect("another reason", 1, func() { r.Warning(pod("1"), "Other", "%s is taken", "a") })
	expect("another type", 1, func() { r.Normal(pod("1"), "NameTaken", "%s is taken", "a") })
	clock.SetTime(clock.Now().Add(9 * time.Minute))
	expect("nine minutes later", 0, stuck)
	clock.SetTime(clock.Now().Add(time.Minute))
	expect("ten minutes later", 1, stuck)
	expect("and again", 0, stuck)
}

func TestALongNoteIsCutAndPercentSignsStay(t *testing.T) {
	sink := events.NewFakeRecorder(10)
	r := event.New(sink)
	r.Normal(pod("1"), "Done", "%s", strings.Repeat("ä", 1000))
	if _, last := published(sink); len(last) > 1100 || !strings.HasSuffix(last, "...") {
		t.Errorf("%d bytes: %q", len(last), last)
	}
	r.Normal(pod("1"), "Done", "%s", "100%s sure")
	if _, last := published(sink); !strings.Contains(last, "100%s sure") {
		t.Errorf("got %q", last)
	}
}

// written are the events that reach the API server.
type written struct {
	mu    sync.Mutex
	notes []string
}

// Create implements events.EventSink.
func (w *written) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, e.Note)
	return e, nil
}

// Update implements events.EventSink.
func (w *written) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return e, nil
}

// Patch implements events.EventSink.
func (w *written) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return e, nil
}

// Two notes of one object and reason both arrive, also where nothing was written to the object in between.
func TestNotesOfOneReasonAllArrive(t *testing.T) {
	sink, scheme := &written{}, testkit.Scheme(t, corev1.AddToScheme)
	broadcaster := events.NewBroadcaster(sink)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broadcaster.Shutdown)
	r := event.New(broadcaster.NewRecorder(scheme, "test"))
	for _, claim := range []string{"a", "b"} {
		r.Normal(pod("1"), "ExpandingVolume", "claim %s grows", claim)
	}
	testkit.Eventually(t, "both notes", func(context.Context) error {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		if got := slices.Sorted(slices.Values(sink.notes)); !slices.Equal(got, []string{"claim a grows", "claim b grows"}) {
			return fmt.Errorf("there are %q", got)
		}
		return nil
	})
}
