// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"cmp"
	"slices"
	"strings"
)

// operation is one of the twelve that every instance may have: Is is yes, no with a reason, or what it changes.
type operation struct{ Name, Is string }

// chineseReasons are the reasons of operationsOf in Chinese.
var chineseReasons = map[string]string{
	"there is no volume":          "没有可以扩容的卷",
	"the number of pods is fixed": "Pod 数是固定的",
	"the process cannot read its configuration again while it runs": "进程不能在运行中重新读取配置",
	"there is no other pod that the engine could have take over":    "没有其他 Pod 可以接替",
	"the plugin supports one version":                               "插件只支持一个版本",
}

// Chinese returns Is as the pages in Chinese have it.
func (o operation) Chinese() string {
	reason, not := strings.CutPrefix(o.Is, "no: ")
	switch {
	case not:
		return "不支持：" + chineseReasons[reason]
	case o.Is == "replicas":
		return "支持：副本数"
	}
	return "支持"
}

// operationsOf are the twelve operations of a kind, in the order of the pages, by the rules of
// test/unit/lifecycle_test.go; and what the kind offers of HorizontalScale where that is not what the plugin does.
func (b *bundle) operationsOf(f *facts) (all []operation, otherwise string) {
	volumes, reload, failover, replicas, sets := false, false, false, false, false
	for _, t := range b.Topologies {
		if t.Name != f.Topology && !slices.Contains(t.From, f.Topology) {
			continue
		}
		for _, part := range t.Components {
			c, _ := b.component(part.Name)
			pods, groups := cmp.Or(part.Replicas, c.Replicas), cmp.Or(part.Sets, c.Sets)
			replicas = replicas || c.Scaling == "" && pods.varies()
			if t.Name != f.Topology {
				continue
			}
			sets = sets || c.Scaling != "Fixed" && groups.varies()
			volumes = volumes || len(c.Volumes) > 0
			reload = reload || len(c.Process.Reload) > 0
			engine := cmp.Or(part.Authority, c.Authority) == "engine"
			failover = failover || c.Failover != nil && engine && pods != nil && pods.Max > 1
		}
	}
	scales := map[[2]bool]string{{true, true}: "replicas and sets", {true, false}: "replicas", {false, true}: "sets",
		{false, false}: "no"}[[2]bool{replicas, sets}]
	offers := "no"
	if f.Replicas != nil {
		offers = "replicas"
	}
	if offers != scales {
		otherwise = offers
	}
	for _, o := range []struct {
		name string
		has  bool
		not  string
	}{
		{"Create", true, ""}, {"Delete", true, ""}, {"VerticalScaleResource", true, ""},
		{"VerticalScaleVolume", volumes, "there is no volume"},
		{"HorizontalScale", f.Replicas != nil, "the number of pods is fixed"},
		{"Stop", true, ""}, {"Start", true, ""}, {"Restart", true, ""},
		{"Reload", reload, "the process cannot read its configuration again while it runs"},
		{"Failover", failover, "there is no other pod that the engine could have take over"},
		{"UpgradeApp", true, ""},
		{"UpgradePaaS", len(b.versions) > 1, "the plugin supports one version"},
	} {
		is := "yes"
		switch topologies, own := b.operations[o.name]; {
		case o.name == "HorizontalScale" && o.has:
			is = "replicas"
		case o.has || o.name != "HorizontalScale" && own && (len(topologies) == 0 || slices.Contains(topologies, f.Topology)):
		default:
			is = "no: " + o.not
		}
		all = append(all, operation{o.name, is})
	}
	return all, otherwise
}
