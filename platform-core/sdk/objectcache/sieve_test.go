// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// tested is a sieve of Applications with what it has logged.
type tested struct {
	*sieve
	lines []string
}

func newTested(upstream toolscache.ListerWatcherWithContext) *tested {
	s := &tested{}
	s.sieve = &sieve{
		upstream: upstream,
		kind:     platformv1.GroupVersion.WithKind("Application"), goType: reflect.TypeFor[platformv1.Application](),
		log:   funcr.New(func(_, line string) { s.lines = append(s.lines, line) }, funcr.Options{}),
		known: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), bad: map[string]refusal{},
	}
	return s
}

// application returns one as the API server sends it; an empty ttl leaves that out.
func application(name, version, ttl string) json.RawMessage {
	spec := map[string]any{"plugin": "redis", "version": "7.0"}
	if ttl != "" {
		spec["operationHistory"] = map[string]any{"ttl": ttl}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": platformv1.GroupVersion.String(), "kind": "Application", "spec": spec,
		"metadata": map[string]any{
			"namespace": "sieve", "name": name, "uid": "uid-" + name, "resourceVersion": version,
		},
	})
	if err != nil {
		panic(err) // Maps of text.
	}
	return text
}

// cached puts an Application into what the informer has.
func (s *tested) cached(t *testing.T, name, version string) {
	t.Helper()
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{
		Namespace: "sieve", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version,
	}}
	if err := s.known.Add(app); err != nil {
		t.Fatal(err)
	}
}

// reported are the names in the metric.
func reported(t *testing.T) []string {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		if family.GetName() != "zeroinfra_undecodable_objects" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" {
					names = append(names, label.GetValue())
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func (s *tested) expectReported(t *testing.T, names ...string) {
	t.Helper()
	if got := reported(t); !slices.Equal(got, names) {
		t.Errorf("the metric names %v, want %v", got, names)
	}
}

// sifted is a list that went through the sieve: "name@resourceVersion" of its items.
func (s *tested) sifted(t *testing.T, items ...json.RawMessage) []string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"kind": "ApplicationList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "9"}, "items": items,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.begin()
	body, err := s.siftList(io.NopCloser(bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	s.end()
	var list platformv1.ApplicationList
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if list.ResourceVersion != "9" || list.Kind != "ApplicationList" {
		t.Errorf("the list has lost what it is: %+v", list.ListMeta)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name+"@"+item.ResourceVersion)
	}
	return names
}

func TestListLeavesOutWhatCannotBeDecoded(t *testing.T) {
	s := newTested(nil)
	s.cached(t, "kept", "1")
	got := s.sifted(t, application("good", "5", "1h"), application("bad", "6", "1d"), application("kept", "7", "30d"))
	// Of one that decoded before, the cache keeps what it has.
	if want := []string{"good@5", "kept@1"}; !slices.Equal(got, want) {
		t.Errorf("the list has %v, want %v", got, want)
	}
	s.expectReported(t, "bad", "kept")
	for _, name := range []string{"bad", "kept"} {
		if !slices.ContainsFunc(s.lines, func(line string) bool {
			return strings.Contains(line, `"name"="`+name+`"`) && strings.Contains(line, `"namespace"="sieve"`) &&
				strings.Contains(line, `"field"="spec.operationHistory.ttl"`) && strings.Contains(line, "unknown unit")
		}) {
			t.Errorf("no line names %s, its field and what is wrong: %q", name, s.lines)
		}
	}
	lines := len(s.lines)
	s.sifted(t, application("bad", "6", "1d"), application("kept", "8", "2h"))
	s.expectReported(t, "bad")
	if len(s.lines) != lines+1 {
		t.Errorf("what is known is told again, or what is corrected is not: %q", s.lines[lines:])
	}
	s.sifted(t)
	s.expectReported(t)
	s.retire()
	if s.used() {
		t.Error("the sieve is in use, and nothing is bad")
	}
}

func TestWatchLeavesOutWhatCannotBeDecoded(t *testing.T) {
	bookmark := func(end string) json.RawMessage {
		const mark = `{"kind":"Application","metadata":{"resourceVersion":"20","annotations":{%q:"true"}}}`
		return json.RawMessage(fmt.Sprintf(mark, end))
	}
	s := newTested(nil)
	s.cached(t, "kept", "1")
	s.bad["sieve/earlier"] = refusal{metadata: metav1.ObjectMeta{Namespace: "sieve", Name: "earlier"}}
	var sent bytes.Buffer
	for _, e := range []struct {
		eventType watch.EventType
		object    json.RawMessage
	}{
		{watch.Added, application("good", "5", "1h")},
		{watch.Added, application("bad", "6", "1d")},
		{watch.Added, application("kept", "7", "1d")},
		{watch.Bookmark, bookmark(metav1.InitialEventsAnnotationKey)},
		{watch.Modified, application("good", "8", "1d")},
		{watch.Modified, application("bad", "9", "1h")},
		{watch.Modified, application("kept", "10", "2d")},
		{watch.Deleted, application("kept", "11", "2d")},
		{watch.Added, application("new", "12", "2d")},
		{watch.Deleted, application("new", "13", "2d")},
		{watch.Bookmark, bookmark("other")},
	} {
		text, err := json.Marshal(map[string]any{"type": e.eventType, "object": e.object})
		if err != nil {
			t.Fatal(err)
		}
		sent.Write(text)
	}
	var got []string
	events := json.NewDecoder(s.siftStream(io.NopCloser(&sent), true))
	for {
		var e struct {
			Type   string
			Object platformv1.Application
		}
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimSpace(e.Type+" "+e.Object.Name)+"@"+e.Object.ResourceVersion)
	}
	want := []string{"ADDED good@5", "ADDED kept@1", "BOOKMARK@20", "MODIFIED bad@9", "DELETED kept@11", "BOOKMARK@20"}
	if !slices.Equal(got, want) {
		t.Errorf("the events are %v, want %v", got, want)
	}
	// That one is spoilt now; "earlier" went while nobody watched, "bad" was corrected, and the others were deleted.
	s.expectReported(t, "good")
	s.gone(metav1.ObjectMeta{Namespace: "sieve", Name: "good"})
	s.expectReported(t)
}

// upstream answers lists with errors, one after the other, and then with an empty one. It notes for which of them the
// sieve was in use.
type upstream struct {
	errs    []error
	sieved  []bool
	watched chan watch.Event
}

func (u *upstream) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	u.sieved = append(u.sieved, sieveOf(ctx) != nil)
	if len(u.errs) == 0 {
		return &platformv1.ApplicationList{}, nil
	}
	err := u.errs[0]
	u.errs = u.errs[1:]
	return nil, err
}

func (u *upstream) WatchWithContext(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	u.sieved = append(u.sieved, sieveOf(ctx) != nil)
	return watch.NewProxyWatcher(u.watched), nil
}

// Nothing goes through the sieve until something cannot be decoded, nor once all can be.
func TestSieveIsInUseOnlyWhenNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		sieved []bool
		fails  bool
	}{
		"all is well":                 {nil, []bool{false, false}, false},
		"a list that does not decode": {errors.New("time: unknown unit"), []bool{false, true, false}, false},
		"the network":                 {&url.Error{Op: "Get", Err: io.EOF}, []bool{false, false}, true},
		"an error of the API server":  {apierrors.NewTooManyRequests("wait", 1), []bool{false, false}, true},
	} {
		u := &upstream{watched: make(chan watch.Event)}
		if test.err != nil {
			u.errs = []error{test.err}
		}
		s := newTested(u)
		if _, err := s.list(t.Context(), metav1.ListOptions{}); (err != nil) != test.fails {
			t.Errorf("%s: the list gives %v", name, err)
		}
		w, err := s.watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
		if !slices.Equal(u.sieved, test.sieved) {
			t.Errorf("%s: the sieve was in use for %v, want %v", name, u.sieved, test.sieved)
		}
	}
}

func TestSieveIsInUseAfterAWatchThatDoesNotDecode(t *testing.T) {
	u := &upstream{watched: make(chan watch.Event, 1)}
	s := newTested(u)
	w, err := s.watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	reporter := apierrors.NewClientErrorReporter(500, "GET", string(watchDecoding))
	report := reporter.AsObject(errors.New("unable to decode an event"))
	u.watched <- watch.Event{Type: watch.Error, Object: report}
	if e := <-w.ResultChan(); e.Type != watch.Error {
		t.Errorf("the reflector is told %v", e)
	}
	if !s.used() {
		t.Error("the sieve is not in use after an event that does not decode")
	}
}

func TestCulprit(t *testing.T) {
	for field, spec := range map[string]string{
		"spec.operationHistory.ttl": `{"operationHistory": {"limit": 1, "ttl": "1d"}}`,
		"spec.schedules[1].operation.timeout": `{"schedules": [{"operation": {"timeout": "1h"}},
			{"operation": {"timeout": "1d"}}]}`,
		"spec.components[0].resources.limits.memory": `{"components": [{"name": "a",
			"resources": {"limits": {"cpu": "1", "memory": "1e1.5"}}}]}`,
		"spec.plugin": `{"plugin": {"name": "redis"}}`,
	} {
		if got := newTested(nil).culprit([]byte(`{"metadata": {"name": "a"}, "spec": ` + spec + `}`)); got != field {
			t.Errorf("the culprit is %q, want %q", got, field)
		}
	}
}
