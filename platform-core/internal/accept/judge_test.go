// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/internal/render"
)

// load returns the facts of one of the suite's own plugins.
func load(t testing.TB, name string) Facts { return loadVersion(t, name, "1.0.0") }

func loadVersion(t testing.TB, name, version string) Facts {
	t.Helper()
	bundle, _, errs := pluginfolder.Load(filepath.Join("..", "..", "..", "database-operator", "plugins", name, version))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return Facts{State: plugin.State{Name: name, Version: version, Bundle: bundle}, Classes: map[string]bool{"": true},
		Settings: render.Settings{AgentImage: "zeroinfra/agent:1"}}
}

type edit func(*platformv1.Application)

func parameter(name, value string) edit {
	return func(app *platformv1.Application) {
		c := component(app)
		if c.Parameters == nil {
			c.Parameters = platformv1.Parameters{}
		}
		c.Parameters[name] = platformv1.ParameterValue(value)
	}
}

func ofTopology(name string) edit {
	return func(app *platformv1.Application) { app.Spec.Topology = name }
}

func ofVersion(v string) edit { return func(app *platformv1.Application) { app.Spec.Version = v } }

func size(text string) edit {
	return func(app *platformv1.Application) {
		component(app).Storage = &platformv1.Storage{Size: resource.MustParse(text)}
	}
}

func class(name string) edit {
	return func(app *platformv1.Application) {
		component(app).Storage = &platformv1.Storage{Size: resource.MustParse("2Gi"), StorageClassName: &name}
	}
}

func replicas(n int32) edit {
	return func(app *platformv1.Application) { component(app).Replicas = &n }
}

func component(app *platformv1.Application) *platformv1.ApplicationComponent {
	if len(app.Spec.Components) == 0 {
		app.Spec.Components = []platformv1.ApplicationComponent{{Name: app.Spec.Plugin}}
	}
	return &app.Spec.Components[0]
}

func edited(app *platformv1.Application, edits ...edit) *platformv1.Application {
	app = app.DeepCopy()
	for _, e := range edits {
		e(app)
	}
	return app
}

func etcd() *platformv1.Application {
	app := testApp()
	app.Spec.Plugin, app.Spec.Version, app.Spec.Topology = "etcd", "3.4", "cluster"
	return app
}

// says fails unless each of the words is in a refusal or warning of its own, and there are no others.
func says(t *testing.T, what string, got []string, words ...string) {
	t.Helper()
	if len(got) != len(words) {
		t.Errorf("%s: got %q, want one for each of %q", what, got, words)
		return
	}
	for i, word := range words {
		if !strings.Contains(got[i], word) {
			t.Errorf("%s %d: %q says nothing of %q", what, i, got[i], word)
		}
	}
}

func sentences(refusals []*render.Refusal) []string {
	var list []string
	for _, r := range refusals {
		list = append(list, r.Message)
	}
	return list
}

func TestCreation(t *testing.T) {
	redis, cluster := load(t, "redis"), load(t, "etcd")
	none := Facts{}
	broken := Facts{State: plugin.State{Errors: []plugin.LoadError{{File: "a.yaml", Message: "bad"}}}}
	classless, retained, older, newer := redis, redis, redis, redis
	classless.Classes = nil
	retained.Claims, older.Claims, newer.Claims = claims("before", "redis/7.0"), claims("before", "redis/6.2"),
		claims("before", "redis/7.12")
	elsewhere, noted, several := redis, redis, redis
	elsewhere.Claims, noted.Claims, several.Claims = claims("before", "redis/7.0/replication"),
		claims("before", "redis/7.0/standalone"), claims("before", "redis/7.0")
	maps.Copy(several.Claims, claimsOf(1, "before", "redis/7.0"))
	adopting := func(app *platformv1.Application) { app.Spec.AdoptVolumes = "before" }
	for name, test := range map[string]struct {
		app     *platformv1.Application
		facts   Facts
		refused []string
		warned  []string
	}{
		"good":      {app: testApp(), facts: redis},
		"good etcd": {app: etcd(), facts: cluster},
		"version": {app: edited(testApp(), ofVersion("6.2")), facts: redis,
			refused: []string{`does not support version "6.2"`}},
		"topology": {app: edited(testApp(), func(a *platformv1.Application) { a.Spec.Topology = "ring" }),
			facts: redis, refused: []string{`has no topology "ring"`}},
		"component": {app: edited(testApp(), func(a *platformv1.Application) { component(a).Name = "web" }),
			facts: redis, refused: []string{`has no component "web"`}},
		"parameter": {app: edited(testApp(), parameter("maxclient", "1")), facts: redis,
			refused: []string{`"maxclient"`}},
		"each thing wrong": {app: edited(testApp(), parameter("maxclients", "lots"), parameter("port", "1"),
			size("-1Gi")), facts: redis, refused: []string{"maxclients", "port", "-1Gi"}},
		"rule of two": {app: edited(etcd(), parameter("heartbeat-interval", "500")), facts: cluster,
			refused: []string{"five times heartbeat-interval"}},
		"replicas": {app: edited(etcd(), replicas(2)), facts: cluster,
			refused: []string{"has 2 replicas"}},
		"no such plugin": {app: edited(testApp(), ofVersion("1")), facts: none,
			warned: []string{"it will wait: plugin redis has no version 1.0.0"}},
		"broken plugin":    {app: testApp(), facts: broken, warned: []string{"was refused: a.yaml: bad"}},
		"no class":         {app: testApp(), facts: classless, warned: []string{"no default StorageClass"}},
		"retained volumes": {app: testApp(), facts: retained, warned: []string{"set adoptVolumes to before"}},
		"adopted volumes":  {app: edited(testApp(), adopting), facts: retained},
		"volumes of an older version": {app: edited(testApp(), adopting), facts: older,
			warned: []string{`is "redis/6" and has to be "redis/7"`}},
		"volumes of a later release": {app: edited(testApp(), adopting), facts: newer,
			warned: []string{"set version to 7.12 or a later one"}},
		"volumes of a topology": {app: edited(testApp(), adopting), facts: noted},
		"volumes of another topology": {app: edited(testApp(), adopting), facts: elsewhere,
			warned: []string{`its topology is "replication" and has to be "standalone"`}},
		"volumes of more replicas": {app: edited(testApp(), adopting), facts: several,
			warned: []string{"left cannot be adopted without claim data-redis-a-redis-main-1: "}},
		"enough replicas":   {app: edited(testApp(), adopting, ofTopology("replication"), replicas(2)), facts: several},
		"wrong and waiting": {app: edited(testApp(), ofVersion("6.2")), facts: classless, refused: []string{"6.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(test.app, nil, func(*platformv1.Application) Facts { return test.facts })
			says(t, "refusals", sentences(v.Refused), test.refused...)
			says(t, "warnings", v.Warnings, test.warned...)
		})
	}
}

// claims returns the claim of the first pod of redis-a, of 2Gi.
func claims(uid, data string) map[string]*corev1.PersistentVolumeClaim { return claimsOf(0, uid, data) }

func claimsOf(ordinal int32, uid, data string) map[string]*corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: platformv1.ClaimNameFor("data",
			platformv1.PodNameFor(platformv1.WorkloadSetNameFor("redis-a", "redis", "main"), ordinal)),
		Labels: map[string]string{
			platformv1.ApplicationUIDLabel: uid, platformv1.ComponentLabel: "redis", platformv1.SetLabel: "main",
			platformv1.OrdinalLabel: fmt.Sprint(ordinal),
		},
		Annotations: map[string]string{platformv1.DataAnnotation: data},
	}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	return map[string]*corev1.PersistentVolumeClaim{claim.Name: claim}
}

// What is judged is the claim that the pod has, and not one that it had before a restore.
func TestClaimsOfGenerations(t *testing.T) {
	set := platformv1.WorkloadSetNameFor("redis-a", "redis", "main")
	f := Facts{Claims: claims("this", "redis/7.0")}
	for _, generation := range []string{"g1", "g2"} {
		name := platformv1.ClaimNameIn(generation, "data", platformv1.PodNameFor(set, 0))
		f.Claims[name] = &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{platformv1.GenerationLabel: generation}}}
	}
	for _, generation := range []string{"", "g1", "g2"} {
		f.Generations = map[string]string{set: generation}
		if claim := f.claim(set, "data", 0); claim == nil || claim.Labels[platformv1.GenerationLabel] != generation {
			t.Errorf("of generation %q it is %+v", generation, claim)
		}
	}
	if f.Generations[set] = "g3"; f.claim(set, "data", 0) != nil {
		t.Error("there is no claim of generation g3")
	}
	delete(f.Claims, platformv1.ClaimNameFor("data", platformv1.PodNameFor(set, 0)))
	if claim := (Facts{Claims: f.Claims}).claim(set, "data", 0); claim == nil ||
		claim.Labels[platformv1.GenerationLabel] != "g1" {
		t.Errorf("a set that is made anew finds %+v", claim)
	}
}

// A change is refused for what it breaks, and for nothing that was broken before.
func TestChange(t *testing.T) {
	redis, cluster := load(t, "redis"), load(t, "etcd")
	members, _ := cluster.State.Bundle.Component("etcd")
	members.Scaling = schema.ScalingFixed
	cluster.Components = map[string]*platformv1.Component{
		"etcd": {Spec: platformv1.ComponentSpec{Component: "etcd", Replicas: 3,
			Sets: []platformv1.ComponentSet{{Name: "main"}}}}}
	redis.Claims = claims("this", "redis/7.0")
	growing := redis
	growing.Claims = claims("this", "redis/7.0")
	for _, claim := range growing.Claims {
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}
	}
	classed := redis
	classed.Classes, classed.Claims = map[string]bool{"fast": true, "slow": true}, claims("this", "redis/7.0")
	for _, claim := range classed.Claims {
		claim.Spec.StorageClassName = new("fast")
	}
	adopting := func(app *platformv1.Application) { app.Spec.AdoptVolumes = "before" }
	leaving := func(app *platformv1.Application) { app.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	finalizer := func(app *platformv1.Application) { app.Finalizers = append(app.Finalizers, "example.com/a") }
	stopped := func(app *platformv1.Application) { app.Spec.Running = new(false) }
	bad := edited(testApp(), parameter("maxclient", "1"), size("2Gi"))
	identified := func(app *platformv1.Application) *platformv1.Application {
		return edited(app, func(a *platformv1.Application) { a.UID = "this" })
	}
	for name, test := range map[string]struct {
		old, app *platformv1.Application
		facts    Facts
		refused  []string
		warned   []string
	}{
		"good to good": {old: edited(testApp(), size("2Gi")), app: edited(testApp(), size("3Gi")),
			facts: redis},
		"good to bad": {old: edited(testApp(), size("2Gi")), app: bad, facts: redis,
			refused: []string{"maxclient"}},
		"metadata of a bad one": {old: bad, app: edited(bad, finalizer), facts: redis},
		"another field of a bad one": {old: bad, app: edited(bad, stopped), facts: redis,
			warned: []string{"still refused: parameter \"maxclient\""}},
		"one of two errors mended": {old: edited(bad, parameter("port", "1")), app: bad, facts: redis,
			warned: []string{"maxclient"}},
		"one error more": {old: bad, app: edited(bad, parameter("port", "1")), facts: redis,
			refused: []string{"port"}, warned: []string{"maxclient"}},
		"mended":         {old: bad, app: edited(testApp(), size("2Gi")), facts: redis},
		"on its way out": {old: testApp(), app: edited(bad, leaving), facts: redis},
		"shrink": {old: edited(testApp(), size("2Gi")), app: edited(testApp(), size("1Gi")), facts: redis,
			refused: []string{"cannot shrink to 1Gi"}},
		"another class": {old: testApp(), app: edited(testApp(), class("slow")), facts: classed,
			refused: []string{`is of StorageClass "fast" and cannot be of "slow": take storage out`}},
		"the class named":            {old: testApp(), app: edited(testApp(), class("fast")), facts: classed},
		"a class of adopted volumes": {old: testApp(), app: edited(testApp(), class("slow"), adopting), facts: classed},
		"growth taken back": {old: edited(testApp(), size("5Gi")), app: edited(testApp(), size("2Gi")),
			facts: redis},
		"what did not grow yet": {old: edited(testApp(), size("2Gi")), app: edited(testApp(), size("1536Mi")),
			facts: growing},
		"back to what it has": {old: edited(testApp(), size("2Gi")), app: edited(testApp(), size("1Gi")), facts: growing,
			refused: []string{"set the size to one above 1Gi"}},
		"fixed members": {old: etcd(), app: edited(etcd(), replicas(5)), facts: cluster,
			refused: []string{"cannot be scaled once it is made"}},
		"fixed members set back": {old: edited(etcd(), replicas(5)), app: etcd(), facts: cluster},
		"plugin that is gone": {old: testApp(), app: edited(testApp(), ofVersion("6.2")), facts: Facts{},
			warned: []string{"redis"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(identified(test.app), identified(test.old), func(*platformv1.Application) Facts { return test.facts })
			says(t, "refusals", sentences(v.Refused), test.refused...)
			says(t, "warnings", v.Warnings, test.warned...)
		})
	}
}

// BenchmarkJudge is what a change costs, beside the way to the operator and back.
func BenchmarkJudge(b *testing.B) {
	facts := load(b, "redis")
	old := testApp()
	app := edited(old, parameter("maxclients", "100"))
	for b.Loop() {
		if v := Judge(app, old, func(*platformv1.Application) Facts { return facts }); len(v.Refused) > 0 {
			b.Fatal(sentences(v.Refused))
		}
	}
}
