// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// damage is one way to break a bundle.
type damage struct {
	name string
	// do breaks the bundle and returns the part that is to blame and what the error has to name.
	do func(b *bundle) (part string, texts []string)
}

func damages() []damage {
	return []damage{
		{"missing part", func(b *bundle) (string, []string) {
			return "params", []string{b.partName("params")}
		}},
		{"YAML error", func(b *bundle) (string, []string) {
			b.replace("    authority: engine\n", "    authority: [engine\n")
			return "components", []string{b.partName("components") + "/components.yaml:"}
		}},
		{"unknown field", func(b *bundle) (string, []string) {
			b.replace("    authority: engine\n", "    authority: engine\n    colour: red\n")
			return "components", []string{b.position("colour"), "colour"}
		}},
		{"bad placeholder", func(b *bundle) (string, []string) {
			b.replace("dir: /data\n", "dir: ${app.nosuch}\n")
			return "components", []string{b.position("app.nosuch"), "nosuch"}
		}},
		{"bad probe expression", func(b *bundle) (string, []string) {
			b.replace("healthy: exitCode == 0", "healthy: exitCodes == 0")
			return "components", []string{b.position("exitCodes"), "exitCodes"}
		}},
		{"bad schema of parameters", func(b *bundle) (string, []string) {
			b.parts["params"]["redis.cue"] += "\n#Broken: {\n"
			return "params", []string{b.partName("params") + "/redis.cue:"}
		}},
		{"supported version without an image", func(b *bundle) (string, []string) {
			b.parts["manifest"]["supported-versions"] += ",9.9"
			return "manifest", []string{"9.9"}
		}},
	}
}

// TestBrokenPlugins proves that a broken bundle is refused with file and line, shows in kubectl get plugins, says so to
// whoever asks for it, harms no loaded one, and is usable as soon as it is mended, without a restart of the operator.
func TestBrokenPlugins(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "broken")
	i := s.redis("db")
	i.ready()
	i.must("SET", "kept", "yes")
	before := i.footprint()
	operator := s.mustLeader()
	for _, c := range damages() {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			b := s.newBundle()
			good := s.newBundle()
			part, texts := c.do(b)
			damaged := b.parts[part]
			if c.name == "missing part" {
				delete(b.parts, part)
			}
			b.install()
			b.refused(texts...)
			asks := s.redis("asks-"+strings.ToLower(b.version[len(b.version)-6:]), b.of())
			asks.stalled(stall{reason: platformv1.ReasonPluginInvalid, texts: texts})
			// Mend it: the part as it is in the installed bundle.
			if damaged != nil {
				b.remove(part)
			}
			b.parts[part] = good.parts[part]
			if part == "manifest" {
				for key, value := range b.parts[part] {
					b.parts[part][key] = strings.ReplaceAll(value, good.version, b.version)
				}
			}
			b.install(part)
			b.accepted()
			asks.eventually(settleIn, "the instance that asks for it goes on", func() error {
				return asks.get(asks.podName(), &corev1.Pod{})
			})
			s.delete(asks.object())
		})
	}
	if now := s.mustLeader(); now != operator {
		t.Errorf("the leader was %q and is %q: a broken bundle must not end the operator", operator, now)
	}
	i.unharmed(before)
	plugin := &platformv1.Plugin{}
	if err := world.client.Get(s.ctx, client.ObjectKey{Name: "redis-" + originalVersion}, plugin); err != nil ||
		!meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) {
		t.Errorf("the installed bundle is no longer accepted: %v: %s", err, describe(plugin.Status.Conditions))
	}
}

// TestPluginVersions proves that a new version of a plugin is usable without a restart of the operator, that the same
// version with another content is refused, and that an instance whose bundle is gone says so and runs on.
func TestPluginVersions(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "versions")
	operator := s.mustLeader()
	b := s.newBundle()
	b.install()
	b.accepted()
	i := s.redis("db", b.of())
	i.ready()
	i.must("SET", "kept", "yes")
	before := i.footprint()
	pinned := &platformv1.Application{}
	s.mustGet(i.application(), pinned)
	if pinned.Status.Plugin == nil || pinned.Status.Plugin.Version != b.version || !strings.HasPrefix(pinned.Status.Plugin.Digest, "sha256:") {
		t.Errorf("the Application pins %+v, want version %s with its digest", pinned.Status.Plugin, b.version)
	}
	t.Run("same version, other content", func(t *testing.T) {
		i := &instance{space: s.in(t), name: i.name}
		b := &bundle{space: i.space, version: b.version, parts: b.parts}
		original := b.parts["components"]["components.yaml"]
		b.remove("components")
		b.replace("timeoutSeconds: 60", "timeoutSeconds: 50")
		b.install("components")
		b.refused("digest")
		i.unharmed(before)
		b.remove("components")
		b.parts["components"]["components.yaml"] = original
		b.install("components")
		b.accepted()
		i.ready()
		i.unharmed(before)
	})
	t.Run("bundle gone", func(t *testing.T) {
		i := &instance{space: s.in(t), name: i.name}
		b := &bundle{space: i.space, version: b.version, parts: b.parts}
		b.removeAll()
		i.stalled(stall{reason: platformv1.ReasonPluginMissing, texts: []string{b.version}})
		i.unharmed(before)
		i.eventually(errorIn, "the Plugin object is withdrawn", func() error {
			_, err := b.plugin()
			return gone(err)
		})
		// The pod is healed without the bundle: all that it needs is in the WorkloadSet.
		pod := i.pod()
		i.delete(pod, graceZero)
		i.eventually(readyIn, "the pod is replaced", func() error { return i.replaced(pod) })
		b.install()
		b.accepted()
		i.ready()
		if got := i.must("GET", "kept"); got != "yes" {
			t.Errorf("the key is %q, want yes", got)
		}
	})
	if now := s.mustLeader(); now != operator {
		t.Errorf("the leader was %q and is %q: plugins must not need a restart", operator, now)
	}
}

// TestPluginsElsewhere proves that a bundle counts only in the operator's namespace, which is the trust boundary.
func TestPluginsElsewhere(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "elsewhere")
	b := s.newBundle()
	for part, data := range b.parts {
		metadata := named(b.partName(part))
		metadata.Labels = map[string]string{platformv1.PluginLabel: "redis"}
		s.create(&corev1.ConfigMap{ObjectMeta: metadata, Data: data})
	}
	i := s.redis("db", b.of())
	i.stalled(stall{reason: platformv1.ReasonPluginNotFound, texts: []string{b.version}})
	if _, err := b.plugin(); gone(err) != nil {
		t.Errorf("a bundle outside the operator's namespace was published: %v", gone(err))
	}
}
