// SPDX-License-Identifier: Apache-2.0

package database

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
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	untouched framework.Effect = "the process is left alone"
	reloaded  framework.Effect = "the process takes it over while it runs"
	inPlace   framework.Effect = "the process is restarted, the pod stays"
	newImage  framework.Effect = "the container is started anew with another image, the pod stays"
	newPod    framework.Effect = "the pod is replaced, the data stays"
)

// change is one edit of a running instance.
type change struct {
	name   string
	edit   framework.Setting
	effect framework.Effect
	// config is what the server has to say as soon as the object is ready again.
	config map[string]string
	check  func(i *framework.Instance)
}

// TestEveryFieldCanBeChanged edits a running instance field by field. As soon as the object says that it
// is ready at its new generation, the running server has to have the new value: Ready is no promise for later.
func TestEveryFieldCanBeChanged(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "change")
	s.CreateSecret("first", "password", "first-password")
	s.CreateSecret("second", "key", "second-password")
	i := s.CreateRedis("db", framework.WithFsyncAlways(), func(spec *databasev1.RedisSpec) {
		spec.Auth = &databasev1.Auth{PasswordFrom: platformv1.SecretKeyReference{Name: "first"}}
		spec.Parameters = platformv1.Parameters{"maxclients": "200"}
	})
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	for _, c := range changes() {
		t.Run(c.name, func(t *testing.T) {
			apply((&framework.Instance{Namespace: s.In(t), Name: i.Name}), c)
		})
	}
	t.Run("content of the password Secret", func(t *testing.T) {
		rotatePassword((&framework.Instance{Namespace: s.In(t), Name: i.Name}), "second", "key")
	})
}

func changes() []change {
	bigger := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("30m"),
			corev1.ResourceMemory: resource.MustParse("40Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("160Mi")},
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
		{"parameters, one removed", func(s *databasev1.RedisSpec) {
			s.Parameters = platformv1.Parameters{"maxclients": "250"}
		},
			reloaded, map[string]string{"maxclients": "250", "slowlog-max-len": "128"}, nil},
		{"parameters, one that only a start changes", func(s *databasev1.RedisSpec) {
			s.Parameters = platformv1.Parameters{"maxclients": "250", "databases": "20", "hz": "25"}
		}, inPlace, map[string]string{"maxclients": "250", "databases": "20", "hz": "25"}, nil},
		{"persistence.mode and saveRules", func(s *databasev1.RedisSpec) {
			s.Persistence.Mode = databasev1.PersistenceBoth
			s.Persistence.SaveRules = []databasev1.SaveRule{{Seconds: 120, Changes: 3}}
		}, reloaded, map[string]string{"appendonly": "yes", "save": "120 3"}, nil},
		{"persistence.appendFsync", func(s *databasev1.RedisSpec) {
			s.Persistence.AppendFsync = databasev1.AppendFsyncEverySec
		},
			reloaded, map[string]string{"appendfsync": "everysec"}, nil},
		{"service.type and annotations", func(s *databasev1.RedisSpec) {
			s.Service = &platformv1.ServiceExposure{
				ServiceSettings: platformv1.ServiceSettings{Type: corev1.ServiceTypeNodePort, Annotations: node}}
		}, untouched, nil, func(i *framework.Instance) { checkService(i, corev1.ServiceTypeNodePort, node) }},
		{"service removed", func(s *databasev1.RedisSpec) { s.Service = nil },
			untouched, nil, func(i *framework.Instance) {
				checkService(i, corev1.ServiceTypeClusterIP, map[string]string{"example.com/zone": ""})
			}},
		{"deletionPolicy", func(s *databasev1.RedisSpec) { s.DeletionPolicy = platformv1.DeletionPolicyDelete }, untouched,
			nil, nil},
		{"resources", func(s *databasev1.RedisSpec) { s.Resources = bigger }, untouched, nil,
			func(i *framework.Instance) { checkResources(i, bigger) }},
		{"version", framework.WithVersion("8.0"), newImage, nil, func(i *framework.Instance) {
			if got := i.Info("redis_version"); !strings.HasPrefix(got, "8.0.") || got != i.Object().Status.Version {
				i.Errorf("INFO says version %q and the status %q, want 8.0", got, i.Object().Status.Version)
			}
		}},
		{"auth from a Secret to a generated password", func(s *databasev1.RedisSpec) { s.Auth = nil }, newPod, nil,
			func(i *framework.Instance) {
				if password := i.Account().Password; password == "first-password" {
					i.Error("the binding still carries the password of the Secret that is no longer named")
				}
				refuses(i, "first-password")
			}},
		{"auth.passwordFrom", func(s *databasev1.RedisSpec) {
			s.Auth = &databasev1.Auth{PasswordFrom: platformv1.SecretKeyReference{Name: "second", Key: "key"}}
		}, newPod, nil, func(i *framework.Instance) {
			if password := i.Account().Password; password != "second-password" {
				i.Error("the binding does not carry the password of the Secret that is named now")
			}
		}},
	}
}

// rotateIn is how long new content of a Secret may take: the kubelet brings it into the pod within about a minute.
const rotateIn = 5 * time.Minute

// apply makes a change, waits until the object is ready and compares.
func apply(i *framework.Instance, c change) {
	i.Helper()
	before := i.Footprint()
	i.Update(c.edit)
	took := i.WaitReady()
	after := i.Footprint()
	i.ExpectConfig(c.config)
	var err error
	switch c.effect {
	case untouched, reloaded:
		err = before.SameProcess(after)
	case inPlace:
		err = before.RestartedInPlace(after)
	case newImage:
		if before.Pod != after.Pod || before.Run == after.Run {
			err = fmt.Errorf("the pod was %s with run %s and is %s with run %s", before.Pod, before.Run, after.Pod, after.Run)
		}
	case newPod:
		if before.Pod == after.Pod {
			err = fmt.Errorf("the pod is still the old one")
		}
	}
	if err != nil {
		i.Errorf("%s was expected: %v", c.effect, err)
	}
	if c.check != nil {
		c.check(i)
	}
	if got := i.MustDo("GET", "kept"); got != "yes" {
		i.Errorf("after the change the key is %q, want yes", got)
	}
	i.Logf("change to Ready: %s: %s", framework.FormatSeconds(took), c.effect)
}

// rotatePassword changes the content of the Secret that the spec names. The binding has to follow, and
// what it carries has to work.
func rotatePassword(i *framework.Instance, secretName, key string) {
	i.Helper()
	secret := &corev1.Secret{}
	i.MustGet(secretName, secret)
	old, before := string(secret.Data[key]), i.Footprint()
	secret.Data[key] = []byte("third-password")
	if err := framework.Cluster.Client.Update(i.Ctx, secret); err != nil {
		i.Fatal(err)
	}
	start := time.Now()
	i.Eventually(rotateIn, "the new password is in the binding and in force", func() error {
		a := i.Account()
		if a.Password != "third-password" {
			return fmt.Errorf("the binding still carries the old password")
		}
		_, err := i.RedisCLI(a, "PING")
		return err
	})
	i.Logf("new content of the Secret to new password in force: %s", framework.FormatSeconds(time.Since(start)))
	i.WaitReady()
	refuses(i, old)
	if err := before.RestartedInPlace(i.Footprint()); err != nil {
		i.Error(err)
	}
	if got := i.MustDo("GET", "kept"); got != "yes" {
		i.Errorf("after the change the key is %q, want yes", got)
	}
}

// refuses has the test fail when a password opens the instance.
func refuses(i *framework.Instance, password string) {
	i.Helper()
	a := i.Account()
	a.Password = password
	if out, err := i.RedisCLI(a, "PING"); err == nil {
		i.Errorf("a password that is no longer valid is answered with %q", out)
	}
}
