// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// damage is one way to break a bundle.
type damage struct {
	name string
	// do breaks the bundle and returns the part that is to blame and what the error has to name.
	do func(b *framework.Bundle) (part string, texts []string)
}

func damages() []damage {
	return []damage{
		{"missing part", func(b *framework.Bundle) (string, []string) {
			return "params", []string{b.PartName("params")}
		}},
		{"YAML error", func(b *framework.Bundle) (string, []string) {
			b.Replace("    authority: engine\n", "    authority: [engine\n")
			return "components", []string{b.PartName("components") + "/components.yaml:"}
		}},
		{"unknown field", func(b *framework.Bundle) (string, []string) {
			b.Replace("    authority: engine\n", "    authority: engine\n    colour: red\n")
			return "components", []string{b.PositionOf("colour"), "colour"}
		}},
		{"bad placeholder", func(b *framework.Bundle) (string, []string) {
			b.Replace("dir: /data\n", "dir: ${app.nosuch}\n")
			return "components", []string{b.PositionOf("app.nosuch"), "nosuch"}
		}},
		{"bad probe expression", func(b *framework.Bundle) (string, []string) {
			b.Replace("healthy: exitCode == 0", "healthy: exitCodes == 0")
			return "components", []string{b.PositionOf("exitCodes"), "exitCodes"}
		}},
		{"bad schema of parameters", func(b *framework.Bundle) (string, []string) {
			b.Parts["params"]["redis.cue"] += "\n#Broken: {\n"
			return "params", []string{b.PartName("params") + "/redis.cue:"}
		}},
		{"supported version without an image", func(b *framework.Bundle) (string, []string) {
			b.Parts["manifest"]["supported-versions"] += ",9.9"
			return "manifest", []string{"9.9"}
		}},
	}
}

// TestBrokenPlugins proves that a broken bundle is refused with file and line, shows in kubectl get plugins, says so to
// whoever asks for it, harms no loaded one, and is usable as soon as it is mended, without a restart of the operator.
func TestBrokenPlugins(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "broken")
	i := s.CreateRedis("db")
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	before := i.Footprint()
	operator := s.MustLeader()
	for _, c := range damages() {
		t.Run(c.name, func(t *testing.T) {
			s := s.In(t)
			b := s.NewBundle()
			good := s.NewBundle()
			part, texts := c.do(b)
			damaged := b.Parts[part]
			if c.name == "missing part" {
				delete(b.Parts, part)
			}
			b.Install()
			b.ExpectRefused(texts...)
			asks := s.CreateRedis("asks-"+strings.ToLower(b.Version[len(b.Version)-6:]), b.Setting())
			asks.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonPluginInvalid, Texts: texts})
			// Mend it: the part as it is in the installed bundle.
			if damaged != nil {
				b.Remove(part)
			}
			b.Parts[part] = good.Parts[part]
			if part == "manifest" {
				for key, value := range b.Parts[part] {
					b.Parts[part][key] = strings.ReplaceAll(value, good.Version, b.Version)
				}
			}
			b.Install(part)
			b.ExpectAccepted()
			asks.Eventually(framework.SettleTimeout, "the instance that asks for it goes on", func() error {
				return asks.Get(asks.PodName(), &corev1.Pod{})
			})
			s.Delete(asks.Object())
		})
	}
	if now := s.MustLeader(); now != operator {
		t.Errorf("the leader was %q and is %q: a broken bundle must not end the operator", operator, now)
	}
	unharmed(i, before)
	plugin := &platformv1.Plugin{}
	if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKey{Name: "redis-" + framework.OriginalVersion},
		plugin); err != nil ||
		!meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) {
		t.Errorf("the installed bundle is no longer accepted: %v: %s", err, framework.Describe(plugin.Status.Conditions))
	}
}

// TestPluginVersions proves that a new version of a plugin is usable without a restart of the operator, that the same
// version with another content is refused, and that an instance whose bundle is gone says so and runs on.
func TestPluginVersions(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "versions")
	operator := s.MustLeader()
	b := s.NewBundle()
	b.Install()
	b.ExpectAccepted()
	i := s.CreateRedis("db", b.Setting())
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	before := i.Footprint()
	pinned := &platformv1.Application{}
	s.MustGet(i.Application(), pinned)
	if pinned.Status.Plugin == nil || pinned.Status.Plugin.Version != b.Version ||
		!strings.HasPrefix(pinned.Status.Plugin.Digest, "sha256:") {
		t.Errorf("the Application pins %+v, want version %s with its digest", pinned.Status.Plugin, b.Version)
	}
	t.Run("same version, other content", func(t *testing.T) {
		i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
		b := &framework.Bundle{Namespace: i.Namespace, PluginName: b.PluginName, Version: b.Version, Parts: b.Parts}
		original := b.Parts["components"]["components.yaml"]
		b.Remove("components")
		b.Replace("timeoutSeconds: 60", "timeoutSeconds: 50")
		b.Install("components")
		b.ExpectRefused("digest")
		unharmed(i, before)
		b.Remove("components")
		b.Parts["components"]["components.yaml"] = original
		b.Install("components")
		b.ExpectAccepted()
		i.WaitReady()
		unharmed(i, before)
	})
	t.Run("bundle gone", func(t *testing.T) {
		i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
		b := &framework.Bundle{Namespace: i.Namespace, PluginName: b.PluginName, Version: b.Version, Parts: b.Parts}
		b.RemoveAll()
		i.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonPluginMissing, Texts: []string{b.Version}})
		unharmed(i, before)
		i.Eventually(framework.ErrorTimeout, "the Plugin object is withdrawn", func() error {
			_, err := b.Plugin()
			return framework.ErrUnlessNotFound(err)
		})
		// The pod is healed without the bundle: all that it needs is in the WorkloadSet.
		pod := i.Pod()
		i.Delete(pod, framework.GraceZero)
		i.Eventually(framework.ReadyTimeout, "the pod is replaced", func() error { return i.PodReplaced(pod) })
		b.Install()
		b.ExpectAccepted()
		i.WaitReady()
		if got := i.MustDo("GET", "kept"); got != "yes" {
			t.Errorf("the key is %q, want yes", got)
		}
	})
	if now := s.MustLeader(); now != operator {
		t.Errorf("the leader was %q and is %q: plugins must not need a restart", operator, now)
	}
}

// TestPluginsElsewhere proves that a bundle counts only in the operator's namespace, which is the trust boundary.
func TestPluginsElsewhere(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "elsewhere")
	b := s.NewBundle()
	for part, data := range b.Parts {
		metadata := framework.ObjectMeta(b.PartName(part))
		metadata.Labels = map[string]string{platformv1.PluginLabel: "redis"}
		s.Create(&corev1.ConfigMap{ObjectMeta: metadata, Data: data})
	}
	i := s.CreateRedis("db", b.Setting())
	i.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonPluginNotFound, Texts: []string{b.Version}})
	if _, err := b.Plugin(); framework.ErrUnlessNotFound(err) != nil {
		t.Errorf("a bundle outside the operator's namespace was published: %v", framework.ErrUnlessNotFound(err))
	}
}
