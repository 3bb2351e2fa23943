// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// effect is what a change may do to a running instance.
type effect string

const (
	untouched effect = "the process is left alone"
	reloaded  effect = "the process takes it over while it runs"
	inPlace   effect = "the process is restarted, the pod stays"
	newImage  effect = "the container is started anew with another image, the pod stays"
	newPod    effect = "the pod is replaced, the data stays"
)

// change is one edit of a running instance.
type change struct {
	name   string
	edit   setting
	effect effect
	// config is what the server has to say as soon as the object is ready again.
	config map[string]string
	check  func(i *instance)
}

// TestEveryFieldCanBeChanged edits a running instance field by field. As soon as the object says that it
// is ready at its new generation, the running server has to have the new value: Ready is no promise for later.
func TestEveryFieldCanBeChanged(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "change")
	s.secret("first", "password", "first-password")
	s.secret("second", "key", "second-password")
	i := s.redis("db", safe(), func(spec *databasev1.RedisSpec) {
		spec.Auth = &databasev1.Auth{PasswordFrom: platformv1.SecretKeyReference{Name: "first"}}
		spec.Parameters = platformv1.Parameters{"maxclients": "200"}
	})
	i.ready()
	i.must("SET", "kept", "yes")
	for _, c := range changes() {
		t.Run(c.name, func(t *testing.T) {
			(&instance{space: s.in(t), name: i.name}).apply(c)
		})
	}
	t.Run("content of the password Secret", func(t *testing.T) {
		(&instance{space: s.in(t), name: i.name}).rotatePassword("second", "key")
	})
}

func changes() []change {
	bigger := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("30m"), corev1.ResourceMemory: resource.MustParse("40Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("160Mi")},
	}
	node := map[string]string{"example.com/zone": "blue"}
	return []change{
		{"maxmemory", func(s *databasev1.RedisSpec) { s.Maxmemory = ptr.To(resource.MustParse("20Mi")) },
			reloaded, map[string]string{"maxmemory": fmt.Sprint(20 << 20)}, nil},
		{"maxmemoryPolicy", func(s *databasev1.RedisSpec) { s.MaxmemoryPolicy = "volatile-ttl" },
			reloaded, map[string]string{"maxmemory-policy": "volatile-ttl", "maxmemory": fmt.Sprint(20 << 20)}, nil},
		{"parameters, one changed and one added", func(s *databasev1.RedisSpec) {
			s.Parameters = platformv1.Parameters{"maxclients": "250", "slowlog-max-len": "64"}
		}, reloaded, map[string]string{"maxclients": "250", "slowlog-max-len": "64"}, nil},
		{"parameters, one removed", func(s *databasev1.RedisSpec) { s.Parameters = platformv1.Parameters{"maxclients": "250"} },
			reloaded, map[string]string{"maxclients": "250", "slowlog-max-len": "128"}, nil},
		{"parameters, one that only a start changes", func(s *databasev1.RedisSpec) {
			s.Parameters = platformv1.Parameters{"maxclients": "250", "databases": "20", "hz": "25"}
		}, inPlace, map[string]string{"maxclients": "250", "databases": "20", "hz": "25"}, nil},
		{"persistence.mode and saveRules", func(s *databasev1.RedisSpec) {
			s.Persistence.Mode = databasev1.PersistenceBoth
			s.Persistence.SaveRules = []databasev1.SaveRule{{Seconds: 120, Changes: 3}}
		}, reloaded, map[string]string{"appendonly": "yes", "save": "120 3"}, nil},
		{"persistence.appendFsync", func(s *databasev1.RedisSpec) { s.Persistence.AppendFsync = databasev1.AppendFsyncEverySec },
			reloaded, map[string]string{"appendfsync": "everysec"}, nil},
		{"service.type and annotations", func(s *databasev1.RedisSpec) {
			s.Service = &platformv1.ServiceExposure{Type: corev1.ServiceTypeNodePort, Annotations: node}
		}, untouched, nil, func(i *instance) { i.checkService(corev1.ServiceTypeNodePort, node) }},
		{"service removed", func(s *databasev1.RedisSpec) { s.Service = nil },
			untouched, nil, func(i *instance) {
				i.checkService(corev1.ServiceTypeClusterIP, map[string]string{"example.com/zone": ""})
			}},
		{"deletionPolicy", func(s *databasev1.RedisSpec) { s.DeletionPolicy = platformv1.DeletionPolicyDelete }, untouched, nil, nil},
		{"resources", func(s *databasev1.RedisSpec) { s.Resources = bigger }, untouched, nil, func(i *instance) { i.checkResources(bigger) }},
		{"version", version("8.0"), newImage, nil, func(i *instance) {
			if got := i.info("redis_version"); !strings.HasPrefix(got, "8.0.") || got != i.object().Status.Version {
				i.Errorf("INFO says version %q and the status %q, want 8.0", got, i.object().Status.Version)
			}
		}},
		{"auth from a Secret to a generated password", func(s *databasev1.RedisSpec) { s.Auth = nil }, newPod, nil, func(i *instance) {
			if password := i.account().password; password == "first-password" {
				i.Error("the binding still carries the password of the Secret that is no longer named")
			}
			i.refuses("first-password")
		}},
		{"auth.passwordFrom", func(s *databasev1.RedisSpec) {
			s.Auth = &databasev1.Auth{PasswordFrom: platformv1.SecretKeyReference{Name: "second", Key: "key"}}
		}, newPod, nil, func(i *instance) {
			if password := i.account().password; password != "second-password" {
				i.Error("the binding does not carry the password of the Secret that is named now")
			}
		}},
	}
}

// rotateIn is how long new content of a Secret may take: the kubelet brings it into the pod within about a minute.
const rotateIn = 5 * time.Minute

// apply makes a change, waits until the object is ready and compares.
func (i *instance) apply(c change) {
	i.Helper()
	before := i.footprint()
	i.update(c.edit)
	took := i.ready()
	after := i.footprint()
	i.want(c.config)
	var err error
	switch c.effect {
	case untouched, reloaded:
		err = before.sameProcess(after)
	case inPlace:
		err = before.restartedInPlace(after)
	case newImage:
		if before.pod != after.pod || before.run == after.run {
			err = fmt.Errorf("the pod was %s with run %s and is %s with run %s", before.pod, before.run, after.pod, after.run)
		}
	case newPod:
		if before.pod == after.pod {
			err = fmt.Errorf("the pod is still the old one")
		}
	}
	if err != nil {
		i.Errorf("%s was expected: %v", c.effect, err)
	}
	if c.check != nil {
		c.check(i)
	}
	if got := i.must("GET", "kept"); got != "yes" {
		i.Errorf("after the change the key is %q, want yes", got)
	}
	i.Logf("change to Ready: %s: %s", seconds(took), c.effect)
}

// rotatePassword changes the content of the Secret that the spec names. The binding has to follow, and
// what it carries has to work.
func (i *instance) rotatePassword(secretName, key string) {
	i.Helper()
	secret := &corev1.Secret{}
	i.mustGet(secretName, secret)
	old, before := string(secret.Data[key]), i.footprint()
	secret.Data[key] = []byte("third-password")
	if err := world.client.Update(i.ctx, secret); err != nil {
		i.Fatal(err)
	}
	start := time.Now()
	i.eventually(rotateIn, "the new password is in the binding and in force", func() error {
		a := i.account()
		if a.password != "third-password" {
			return fmt.Errorf("the binding still carries the old password")
		}
		_, err := i.redisCLI(a, "PING")
		return err
	})
	i.Logf("new content of the Secret to new password in force: %s", seconds(time.Since(start)))
	i.ready()
	i.refuses(old)
	if err := before.restartedInPlace(i.footprint()); err != nil {
		i.Error(err)
	}
	if got := i.must("GET", "kept"); got != "yes" {
		i.Errorf("after the change the key is %q, want yes", got)
	}
}

// refuses has the test fail when a password opens the instance.
func (i *instance) refuses(password string) {
	i.Helper()
	a := i.account()
	a.password = password
	if out, err := i.redisCLI(a, "PING"); err == nil {
		i.Errorf("a password that is no longer valid is answered with %q", out)
	}
}
