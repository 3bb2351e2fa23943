// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/plugintest"
)

// redisFolder is the plugin that the broken bundles are made from.
var redisFolder = filepath.Join("..", "..", "..", "database-operator", "plugins", "redis", "1.0.0")

// redisSources reads the redis plugin; each call gives a copy of its own.
func redisSources(t testing.TB) map[Part]Source {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(redisFolder), "redis")
	if len(errs) > 0 {
		t.Fatalf("the redis plugin cannot be read: %v", errs)
	}
	if err := plugintest.Standalone(sources[PartComponents].Data, sources[PartParams].Data, sources[PartPodTemplates].Data,
		sources[PartOperations].Data); err != nil {
		t.Fatal(err)
	}
	return sources
}

func loadRedis(t testing.TB) *Bundle {
	t.Helper()
	bundle, errs := Load(redisSources(t))
	if len(errs) > 0 {
		t.Fatalf("the redis plugin is refused: %v", errs)
	}
	return bundle
}

// edit replaces a text, which must be there once, in a key of a part.
func edit(t testing.TB, sources map[Part]Source, part Part, key, old, new string) {
	t.Helper()
	data := maps.Clone(sources[part].Data)
	if old != "" && strings.Count(data[key], old) != 1 {
		t.Fatalf("%s/%s has %q %d times; want 1", part, key, old, strings.Count(data[key], old))
	}
	if old == "" {
		data[key] = new
	} else {
		data[key] = strings.Replace(data[key], old, new, 1)
	}
	source := sources[part]
	source.Data = data
	sources[part] = source
}

// lineOf is the line of the first one that has a text.
func lineOf(t testing.TB, text, part string) int {
	t.Helper()
	before, _, ok := strings.Cut(text, part)
	if !ok {
		t.Fatalf("there is no %q", part)
	}
	return strings.Count(before, "\n") + 1
}

// broken is one change that must be refused with one message at the line of a text, or warned of.
type broken struct {
	// plugin is redis, relay, broker or gate.
	plugin   string
	part     Part
	key      string
	old, new string
	// at is a text on the line that the error names, after the change; "" for line 0.
	at   string
	says string
	// loads says that it is taken all the same.
	loads taken
}

// taken says whether a bundle with something wrong is loaded.
type taken string

const (
	refused taken = ""
	warned  taken = "warned"
)

func (b broken) check(t *testing.T) {
	t.Helper()
	sources := redisSources(t)
	switch b.plugin {
	case "relay":
		sources = relaySources(t)
	case "broker":
		sources = brokerSources(t)
	case "gate":
		sources = gateSources(t)
	}
	edit(t, sources, b.part, b.key, b.old, b.new)
	bundle, errs := Load(sources)
	if b.loads == warned && bundle != nil && len(errs) == 0 {
		bundle, errs = nil, bundle.Warnings
	}
	if bundle != nil || len(errs) == 0 {
		t.Fatalf("Load = %v, %v; want errors only", bundle, errs)
	}
	line := 0
	if b.at != "" {
		line = lineOf(t, sources[b.part].Data[b.key], b.at)
	}
	want := SourceName(sources[b.part].Plugin, b.part, "1.0.0") + "/" + b.key
	for _, err := range errs {
		if err.File == want && err.Line == line && strings.Contains(err.Message, b.says) {
			return
		}
	}
	t.Errorf("got\n%s\nwant an error at %s:%d that says %q", list(errs), want, line, b.says)
}

func list(errs []LoadError) string {
	var lines []string
	for _, err := range errs {
		lines = append(lines, "  "+err.Error())
	}
	return strings.Join(lines, "\n")
}

func TestRedisLoads(t *testing.T) {
	b := loadRedis(t)
	if b.Manifest.Name != "redis" || b.Manifest.Version != "1.0.0" || b.Manifest.Domain != "database" {
		t.Errorf("manifest is %+v", b.Manifest)
	}
	if _, ok := b.Operation("Restart"); !ok {
		t.Error("there is no Operation Restart")
	}
	if _, ok := b.Operation("Reboot"); ok {
		t.Error("there is an Operation Reboot")
	}
	if _, ok := b.Topology("standalone"); !ok {
		t.Error("there is no topology standalone")
	}
	if c, ok := b.Component("redis"); !ok || c.Images["8.0"] == "" {
		t.Errorf("component redis is %+v", c)
	}
	if b.Reference().Digest != b.Digest || !strings.HasPrefix(b.Digest, "sha256:") || len(b.Digest) != 71 {
		t.Errorf("digest is %q", b.Digest)
	}
}

func TestAllErrorsAreReturned(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartManifest, "domain", "", "databases")
	edit(t, sources, PartComponents, "components.yaml", "authority: engine", "authority: me")
	edit(t, sources, PartComponents, "components.yaml", "container: redis\n", "containers: redis\n")
	edit(t, sources, PartPodTemplates, "redis.yaml", "runAsUser: 999", "runAsUser: root")
	edit(t, sources, PartParams, "redis.cue", "maxmemory?: ", "maxmemory?: #Sise & ")
	delete(sources, PartOperations)
	_, errs := Load(sources)
	for _, want := range []string{
		"redis-manifest-1.0.0/domain:1: domain is \"databases\"",
		"redis-components-1.0.0/components.yaml:",
		`field "components[0].containers" is not known: did you mean "container"?`,
		"redis-podtemplates-1.0.0/redis.yaml:",
		"redis-params-1.0.0/redis.cue:",
		"redis-operations-1.0.0: the operations part is missing",
	} {
		if !strings.Contains(list(errs), want) {
			t.Errorf("got\n%s\nwant one with %q", list(errs), want)
		}
	}
	for range 5 {
		_, again := Load(sources)
		if list(again) != list(errs) {
			t.Fatalf("the errors differ:\n%s\nand\n%s", list(errs), list(again))
		}
	}
}

func TestMissingPartsAreNamed(t *testing.T) {
	for _, part := range Parts() {
		sources := redisSources(t)
		delete(sources, part)
		_, errs := Load(sources)
		found := false
		for _, err := range errs {
			found = found || err.Missing == part && err.File == SourceName("redis", part, "1.0.0")
		}
		if !found {
			t.Errorf("without %s: got\n%s", part, list(errs))
		}
	}
	if _, errs := Load(nil); len(errs) < len(Parts()) {
		t.Errorf("Load(nil) = %v; want all parts to be missing", errs)
	}
}

func TestSourcesMustBelongTogether(t *testing.T) {
	for says, change := range map[string]func(*Source){
		"not immutable":              func(s *Source) { s.Immutable = false },
		"the bundle is redis 1.0.0":  func(s *Source) { s.Version = "1.0.1" },
		"the params part of redis":   func(s *Source) { s.Part = PartParams },
		"components part of valkey ": func(s *Source) { s.Plugin = "valkey" },
	} {
		sources := redisSources(t)
		source := sources[PartComponents]
		change(&source)
		sources[PartComponents] = source
		if _, errs := Load(sources); !strings.Contains(list(errs), says) {
			t.Errorf("got\n%s\nwant one that says %q", list(errs), says)
		}
	}
}

func TestDigest(t *testing.T) {
	first := loadRedis(t).Digest
	if again := loadRedis(t).Digest; again != first {
		t.Errorf("the digest of the same data is %s and %s", first, again)
	}
	sources := redisSources(t)
	edit(t, sources, PartPodTemplates, "redis.yaml", "# The user redis of the image.", "# A user.")
	changed, errs := Load(sources)
	if len(errs) > 0 || changed.Digest == first {
		t.Errorf("the digest of changed data is %v, %v", changed, errs)
	}
}

// Bundles are loaded and used by many at a time.
func TestConcurrency(t *testing.T) {
	shared := loadRedis(t)
	index := NewIndex()
	var wait sync.WaitGroup
	for range 8 {
		sources := redisSources(t)
		wait.Go(func() {
			own, errs := Load(sources)
			index.Set("redis", "1.0.0", own, errs)
			state, ok := index.Get("redis", "1.0.0")
			if !ok || state.Bundle == nil || state.Bundle.Digest != shared.Digest {
				t.Errorf("Get = %+v, %v", state, ok)
				return
			}
			for _, b := range []*Bundle{shared, state.Bundle} {
				if errs := b.CheckParameters("redis", "7.0",
					platformv1.Parameters{"maxmemory": "100mb", "save": "x", "hz": "900"}); len(errs) != 2 {
					t.Errorf("CheckParameters = %v; want 2 errors", errs)
				}
				c, _ := b.Component("redis")
				v := sampleValues(c, "standalone", "8.0", 0)
				v.Params = map[string]string{"maxmemory": "100mb"}
				if _, err := b.RenderPlan("redis", v); err != nil {
					t.Error(err)
				}
				if _, err := b.RenderPodTemplate(c, v); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}
