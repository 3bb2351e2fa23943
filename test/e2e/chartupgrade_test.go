// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// TestChartUpgrade takes a Redis and a PostgreSQL with replicas, both of which are written to, from the release that is installed to the next one: other
// charts and other builds of the operator and its agents. No pod and no process is touched, no acknowledged write is lost, and the new operator
// does with the agents of before what is asked for. "make test-upgrade" says which releases these are.
func TestChartUpgrade(t *testing.T) {
	if set.nextCharts == "" || set.nextVersion == "" {
		t.Fatal(`cannot upgrade: set E2E_NEXT_CHARTS to a folder of charts and E2E_NEXT_VERSION to the tag of their images, or run "make test-upgrade"`)
	}
	s := newSpace(t, "charts")
	db := s.redis("db", safe(), withReplicas(2))
	s.create(upgradablePostgreSQL("db"))
	pg := &pgInstance{space: s, name: "db", ways: s.ways()}
	db.following(2)
	pg.following(1)
	super := pg.pool(login{})
	pg.exec(super, "CREATE TABLE numbers (n int PRIMARY KEY)")
	all := []*upgrading{
		{application: &application{space: s, name: db.application()}, target: db.reference(), processes: db.processes},
		{application: pg.application(), target: pg.reference(), processes: pg.starts},
	}
	images, definitions := map[string]string{}, s.definitions()
	for _, u := range all {
		u.before = u.marks()
		maps.Copy(images, u.images())
	}
	if former := s.leaderPod().Spec.Containers[0].Image; strings.HasSuffix(former, ":"+set.nextVersion) {
		t.Fatalf("the operator is image %s already", former)
	}

	w, pw := db.startWriter(), pg.startWriter(super)
	if err := installFrom(s.ctx, set.nextCharts, operatorName, "image.tag="+set.nextVersion, "agentImage.tag="+set.nextVersion); err != nil {
		t.Fatal(err)
	}
	s.eventually(readyIn, "the new operator leads", func() error {
		if now := s.leaderPod().Spec.Containers[0].Image; !strings.HasSuffix(now, ":"+set.nextVersion) {
			return fmt.Errorf("the one that leads is image %s", now)
		}
		return operatorServes(s.ctx)
	})
	for _, u := range all {
		u.throughout(quietFor, "the pods of "+u.name+" are left alone", func() error {
			if now := u.marks(); !maps.Equal(now, u.before) {
				return fmt.Errorf("they were %v and are %v", u.before, now)
			}
			return nil
		})
	}
	w.stop()
	w.judge("another release", inPlaceGap)
	pw.judge("another release", inPlaceGap)
	db.following(2)
	pg.following(1)
	for name, uid := range definitions {
		if now := s.definitions()[name]; now != uid {
			t.Errorf("definition %q had UID %s and has %q: with it went every object of its kind", name, uid, now)
		}
	}

	s.managedByNext(db, pg)
	for _, u := range all {
		for pod, now := range u.images() {
			if images[pod] != now {
				t.Errorf("the images of pod %s were %q and are %q", pod, images[pod], now)
			}
		}
	}
	other := s.redis("other")
	other.ready()
	if now := imagesOf(other.pod()); !strings.Contains(now, "zeroinfra/agent:"+set.nextVersion) {
		t.Errorf("a new pod has the images %s", now)
	}
}

// managedByNext has agents of the release before do what the operator of the next one asks of them: a reload of each instance, and a restart
// of every Redis server in its pod, behind a switchover.
func (s *space) managedByNext(db *instance, pg *pgInstance) {
	s.Helper()
	redis := &application{space: s, name: db.application()}
	uids, runs, starts := redis.uids(), db.processes(), pg.starts()
	db.managed("222")
	pg.update(func(spec *databasev1.PostgreSQLSpec) { spec.Parameters["work_mem"] = "5MB" })
	pg.wantEverywhere("5MB", "SHOW work_mem")
	if now := db.processes(); !maps.Equal(now, runs) {
		s.Errorf("the Redis servers were %v and are %v", runs, now)
	}
	if now := pg.starts(); !maps.Equal(now, starts) {
		s.Errorf("the PostgreSQL servers were %v and are %v", starts, now)
	}
	s.create(restartOf("restart", db.reference()))
	s.passes("restart")
	db.following(2)
	for pod, run := range db.processes() {
		if runs[pod] == run {
			s.Errorf("the server in pod %s was not restarted", pod)
		}
	}
	if now := redis.uids(); !maps.Equal(now, uids) {
		s.Errorf("the pods had UIDs %v and have %v", uids, now)
	}
}

// images are those of each pod.
func (a *application) images() map[string]string {
	a.Helper()
	all := map[string]string{}
	for _, pod := range a.pods() {
		all[pod.Name] = imagesOf(&pod)
	}
	return all
}

// leaderPod waits until a pod of the operator leads, and returns it.
func (s *space) leaderPod() *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{}
	if err := world.client.Get(s.ctx, client.ObjectKey{Namespace: operatorNamespace, Name: s.mustLeader()}, pod); err != nil {
		s.Fatal(err)
	}
	return pod
}
