// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// sharded is redis with 1 to 4 sets of 1 to 3 pods, and more changes.
func sharded(t testing.TB, changes ...string) *plugin.Bundle {
	t.Helper()
	return redis(t, append([]string{
		"    replicas: {default: 1, min: 1, max: 1}\n    resources",
		"    sets: {default: 2, min: 1, max: 4}\n    replicas: {default: 2, min: 1, max: 3}\n    resources",
		"        replicas: {default: 1, min: 1, max: 1}\n", "        replicas: {default: 2, min: 1, max: 3}\n",
	}, changes...)...)
}

func output(t testing.TB, b *plugin.Bundle, app *platformv1.Application) *ComponentOutput {
	t.Helper()
	_, out := render(t, b, settings, app)
	return out
}

func TestSetsAreNamed(t *testing.T) {
	named := func(names ...string) func(*platformv1.Application) {
		return component(func(c *platformv1.ApplicationComponent) {
			for _, name := range names {
				c.Sets = append(c.Sets, platformv1.ComponentSet{Name: name})
			}
		})
	}
	for name, tc := range map[string]struct {
		bundle *plugin.Bundle
		app    *platformv1.Application
		want   []string
	}{
		"the only one":          {redis(t), application(nil), []string{"cache-redis-main"}},
		"the only one, by name": {redis(t), application(named("main")), []string{"cache-redis-main"}},
		"the default number":    {sharded(t), application(nil), []string{"cache-redis-0", "cache-redis-1"}},
		"as the user names them": {sharded(t), application(named("hot", "cold", "0")),
			[]string{"cache-redis-hot", "cache-redis-cold", "cache-redis-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, set := range output(t, tc.bundle, tc.app).WorkloadSets {
				got = append(got, set.Name)
				if set.Spec.Set != strings.TrimPrefix(set.Name, "cache-redis-") {
					t.Errorf("set %q has the name %q", set.Spec.Set, set.Name)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("sets are %v; want %v", got, tc.want)
			}
		})
	}
}

func TestSetsAreRefused(t *testing.T) {
	sets := func(list ...platformv1.ComponentSet) func(*platformv1.ApplicationComponent) {
		return func(c *platformv1.ApplicationComponent) { c.Sets = list }
	}
	with := func(change func(*platformv1.ComponentSet)) func(*platformv1.ApplicationComponent) {
		set := platformv1.ComponentSet{Name: "a"}
		change(&set)
		return sets(set)
	}
	for says, tc := range map[string]struct {
		bundle *plugin.Bundle
		change func(*platformv1.ApplicationComponent)
	}{
		`has exactly one set, named "main": name no other`: {redis(t), sets(platformv1.ComponentSet{Name: "0"})},
		`component "redis" has 5 sets: it takes 1 to 4`: {sharded(t),
			sets(platformv1.ComponentSet{Name: "a"}, platformv1.ComponentSet{Name: "b"}, platformv1.ComponentSet{Name: "c"},
				platformv1.ComponentSet{Name: "d"}, platformv1.ComponentSet{Name: "e"})},
		`has two sets named "a"`: {sharded(t),
			sets(platformv1.ComponentSet{Name: "a"}, platformv1.ComponentSet{Name: "a"})},
		`has a set named "too-long": use 1 to 6`: {sharded(t), sets(platformv1.ComponentSet{Name: "too-long"})},
		`set "a" of component "redis" has 4 replicas`: {sharded(t),
			with(func(s *platformv1.ComponentSet) { s.Replicas = new(int32(4)) })},
		`excludes ordinal -1: ordinals are 0 to 9999`: {sharded(t),
			with(func(s *platformv1.ComponentSet) { s.ExcludedOrdinals = []int32{-1} })},
		`set "a" of component "redis" has a limit of 0 of`: {sharded(t), with(func(s *platformv1.ComponentSet) {
			s.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("0")}
		})},
		`has storageSize 0: it must be greater than 0`: {sharded(t),
			with(func(s *platformv1.ComponentSet) { s.StorageSize = new(resource.MustParse("0")) })},
		`has storageSize 500m: that is less than 1Ki`: {sharded(t), with(func(s *platformv1.ComponentSet) {
			s.StorageSize = new(resource.MustParse("500m"))
		})},
		`set "a" of component "redis": parameter "hz" has va`: {sharded(t),
			with(func(s *platformv1.ComponentSet) { s.Parameters = platformv1.Parameters{"hz": "0"} })},
		`nodeSelector has a b=c, which is no label`: {sharded(t), with(func(s *platformv1.ComponentSet) {
			s.Scheduling = &platformv1.Scheduling{NodeSelector: map[string]string{"a b": "c"}}
		})},
		`podDisruptionBudget.maxUnavailable "101%"`: {sharded(t),
			func(c *platformv1.ApplicationComponent) { c.PodDisruptionBudget = budget(intstr.FromString("101%")) }},
		`podDisruptionBudget.maxUnavailable "-1"`: {sharded(t),
			func(c *platformv1.ApplicationComponent) { c.PodDisruptionBudget = budget(intstr.FromInt32(-1)) }},
		`podDisruptionBudget.maxUnavailable "some"`: {sharded(t),
			func(c *platformv1.ApplicationComponent) { c.PodDisruptionBudget = budget(intstr.FromString("some")) }},
		`podDisruptionBudget.minAvailable "101%"`: {sharded(t), func(c *platformv1.ApplicationComponent) {
			c.PodDisruptionBudget = staying(intstr.FromString("101%"))
		}},
		`podDisruptionBudget with 0 of minAvailable`: {sharded(t), func(c *platformv1.ApplicationComponent) {
			c.PodDisruptionBudget = &platformv1.PodDisruptionBudget{}
		}},
		`podDisruptionBudget with 2 of minAvailable`: {sharded(t), func(c *platformv1.ApplicationComponent) {
			c.PodDisruptionBudget = staying(intstr.FromInt32(1))
			c.PodDisruptionBudget.Disabled = true
		}},
	} {
		_, refusal := Components(tc.bundle, application(component(tc.change)))
		if refusal == nil || !strings.Contains(refusal.Message, says) {
			t.Errorf("got %v; want %q", refusal, says)
		}
	}
}

func budget(most intstr.IntOrString) *platformv1.PodDisruptionBudget {
	return &platformv1.PodDisruptionBudget{MaxUnavailable: &most}
}

// staying is a budget of pods that have to stay.
func staying(least intstr.IntOrString) *platformv1.PodDisruptionBudget {
	return &platformv1.PodDisruptionBudget{MinAvailable: &least}
}

// Each set has what it names, and for the rest what the component has.
func TestSetsDiffer(t *testing.T) {
	out := output(t, sharded(t), application(component(func(c *platformv1.ApplicationComponent) {
		c.Parameters = platformv1.Parameters{"hz": "20", "databases": "3"}
		c.Storage = &platformv1.Storage{Size: resource.MustParse("2Gi"), StorageClassName: new("fast")}
		c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
		c.Scheduling = &platformv1.Scheduling{NodeSelector: map[string]string{"disk": "fast"}}
		c.Sets = []platformv1.ComponentSet{{Name: "plain"}, {
			Name: "own", Replicas: new(int32(3)), ExcludedOrdinals: []int32{2, 0}, StorageSize: new(resource.MustParse("5Gi")),
			Resources:  corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("4Gi")}},
			Parameters: platformv1.Parameters{"hz": "50"}, Scheduling: &platformv1.Scheduling{PriorityClassName: "high"},
		}}
	})))
	type facts struct {
		replicas             int32
		size, class, memory  string
		hz, databases        string
		disk, priority, last string
	}
	for i, want := range []facts{
		{2, "2Gi", "fast", "1Gi", "20", "3", "fast", "", "cache-redis-plain-1"},
		{3, "5Gi", "fast", "4Gi", "50", "3", "", "high", "cache-redis-own-4"},
	} {
		ws := &platformv1.WorkloadSet{Spec: out.WorkloadSets[i].Spec}
		ws.Name = out.WorkloadSets[i].Name
		ordinals := platformv1.OrdinalsOf(ws.Spec.Replicas, ws.Spec.ExcludedOrdinals)
		p := pod(t, ws, ordinals[len(ordinals)-1])
		parameters := map[string]string{}
		agents, err := Plan(ws)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range agents.Files[0].Entries {
			parameters[entry.Key] = strings.Join(entry.Args, " ")
		}
		got := facts{
			ws.Spec.Replicas, ws.Spec.Volumes[0].Size.String(), *ws.Spec.Volumes[0].StorageClassName,
			p.Spec.Containers[0].Resources.Limits.Memory().String(),
			parameters["hz"], parameters["databases"], p.Spec.NodeSelector["disk"], p.Spec.PriorityClassName, p.Name,
		}
		if got != want {
			t.Errorf("set %s is %+v; want %+v", ws.Name, got, want)
		}
	}
}

func TestBudgets(t *testing.T) {
	sized := func(replicas int32, most *platformv1.PodDisruptionBudget) *platformv1.Application {
		return application(component(func(c *platformv1.ApplicationComponent) {
			c.Replicas, c.PodDisruptionBudget = &replicas,
				most
		}))
	}
	for name, app := range map[string]*platformv1.Application{
		"one pod":                  sized(1, nil),
		"one pod that may go":      sized(1, budget(intstr.FromInt32(1))),
		"a budget that is off":     sized(3, &platformv1.PodDisruptionBudget{Disabled: true}),
		"one pod and a percentage": sized(1, staying(intstr.FromString("0%"))),
	} {
		if got := output(t, sharded(t), app).Budgets; len(got) != 0 {
			t.Errorf("%s: there are budgets: %+v", name, got)
		}
	}
	for _, c := range []struct {
		replicas int32
		most     *platformv1.PodDisruptionBudget
		// stay is how many pods have to.
		stay int
	}{
		{2, nil, 1}, {3, nil, 2}, {2, budget(intstr.FromInt32(0)), 2}, {2, budget(intstr.FromInt32(5)), 0},
		{3, budget(intstr.FromString("40%")), 1}, {3, budget(intstr.FromString("100%")), 0},
		{3, budget(intstr.FromString("0%")), 3},
		{3, staying(intstr.FromInt32(1)), 1}, {3, staying(intstr.FromString("50%")), 2}, {2, staying(intstr.FromInt32(0)), 0},
		// What is said of one pod holds.
		{1, staying(intstr.FromInt32(1)), 1}, {1, budget(intstr.FromInt32(0)), 1},
	} {
		got := output(t, sharded(t), sized(c.replicas, c.most)).Budgets
		if len(got) != 2 || got[0].Name != "cache-redis-0" || got[0].Spec.MinAvailable.IntValue() != c.stay ||
			got[0].Spec.MaxUnavailable != nil ||
			got[1].Spec.Selector.MatchLabels[platformv1.SetLabel] != "1" ||
			*got[0].Spec.UnhealthyPodEvictionPolicy != policyv1.IfHealthyBudget {
			t.Errorf("budgets of %d pods are %+v; want that %d stay", c.replicas, got, c.stay)
		}
	}
	stateless := sharded(t, "    volumes:\n      - name: data\n        size: 1Gi\n", "",
		"      volumeMounts:\n        - name: data\n          mountPath: /data\n", "")
	got := output(t, stateless, sized(2, nil)).Budgets[0]
	if *got.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
		t.Errorf("pods without data that are not ready hold up a drain: %+v", got.Spec)
	}
}

// Peers are all pods of all sets, in order, as the plan sees them.
func TestPeers(t *testing.T) {
	b := sharded(t, "      command: [redis-server, /zeroinfra/config/redis.conf]", "      command: [redis-server, "+
		"\"${peers.map(p, p.set + ':' + p.name + ':' + string(p.ordinal)).join(' ')}\", \"${peers[0].fqdn}\", "+
		"\"${set.replicas}/${component.replicas}\"]")
	out := output(t, b, application(component(func(c *platformv1.ApplicationComponent) {
		c.Sets = []platformv1.ComponentSet{{Name: "b"}, {Name: "a", Replicas: new(int32(1)), ExcludedOrdinals: []int32{0}}}
	})))
	for i, replicas := range []string{"2/2", "1/2"} {
		p, err := Plan(&platformv1.WorkloadSet{Spec: out.WorkloadSets[i].Spec})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"redis-server", "b:cache-redis-b-0:0 b:cache-redis-b-1:1 a:cache-redis-a-1:1",
			"cache-redis-b-0.cache-redis-headless.shop.svc.cluster.local", replicas,
		}
		if !slices.Equal(p.Process.Command, want) {
			t.Errorf("command is %q; want %q", p.Process.Command, want)
		}
		if p.Domain != "cache-redis-headless.shop.svc.cluster.local" {
			t.Errorf("domain is %q", p.Domain)
		}
	}
}
