// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// refusal is an edit that the API server itself has to refuse, with a text in its answer.
type refusal struct {
	name string
	edit setting
	text string
}

func parameter(name, value string) setting {
	return func(s *databasev1.RedisSpec) {
		s.Parameters = platformv1.Parameters{name: platformv1.ParameterValue(value)}
	}
}

func passwordFrom(secret string) setting {
	return func(s *databasev1.RedisSpec) {
		s.Auth = &databasev1.Auth{PasswordFrom: platformv1.SecretKeyReference{Name: secret}}
	}
}

// refusedAlways are refused at creation and as a change of a running instance.
func refusedAlways() []refusal {
	return []refusal{
		{"line break in a parameter", parameter("notify-keyspace-events", "Ex\nrequirepass x"), "parameters"},
		{"parameter with a field of its own", parameter("maxmemory", "1"), "spec.maxmemory"},
		{"password as a parameter", parameter("requirepass", "x"), "auth.passwordFrom"},
		{"maxmemory over the limit", func(s *databasev1.RedisSpec) { s.Maxmemory = ptr.To(resource.MustParse("1Gi")) }, "limits.memory"},
		{"negative maxmemory", func(s *databasev1.RedisSpec) { s.Maxmemory = ptr.To(resource.MustParse("-1")) }, "maxmemory"},
		{"negative storage", func(s *databasev1.RedisSpec) { s.Storage.Size = resource.MustParse("-1Gi") }, "storage"},
		{"version that is no version", version("seven"), "version"},
		{"unknown eviction policy", func(s *databasev1.RedisSpec) { s.MaxmemoryPolicy = "random" }, "maxmemoryPolicy"},
		{"save rules without snapshots", persistence(databasev1.RedisPersistence{
			Mode: databasev1.PersistenceAOF, SaveRules: []databasev1.SaveRule{{Seconds: 1, Changes: 1}},
		}), "saveRules"},
		{"empty Secret name", passwordFrom(""), "name"},
		{"user default", withUser("default"), "instance's own"},
		{"user with a rule for a password", func(s *databasev1.RedisSpec) { withUser("app")(s); s.Users[0].Commands = "+@read >secret" }, "commands"},
		{"Sentinels of one server", withSentinels(3), "sentinel needs replicas"},
		{"failover of one server", func(s *databasev1.RedisSpec) { s.Failover = &databasev1.Failover{Mode: platformv1.FailoverManual} }, "failover needs replicas"},
		{"more replicas to write than there are", func(s *databasev1.RedisSpec) { s.Durability = &databasev1.RedisDurability{MinReplicas: 1} }, "cannot be above replicas"},
		{"unknown Service type", func(s *databasev1.RedisSpec) { s.Service = &platformv1.ServiceExposure{Type: "Magic"} }, "service"},
	}
}

// refusedAsChange are refused as a change only.
func refusedAsChange() []refusal {
	return []refusal{
		{"shrinking storage", func(s *databasev1.RedisSpec) { s.Storage.Size = resource.MustParse("32Mi") }, "cannot shrink"},
		{"another storage class", func(s *databasev1.RedisSpec) { s.Storage.StorageClassName = ptr.To("other") }, "immutable"},
		{"Sentinels for a server that had none", func(s *databasev1.RedisSpec) { withReplicas(1)(s); withSentinels(3)(s) }, "sentinel can neither be added"},
		{"another plugin version", func(s *databasev1.RedisSpec) { s.PluginVersion = "2.0.0" }, "UpgradeApp"},
		{"persistence switched off", persistence(databasev1.RedisPersistence{Mode: databasev1.PersistenceNone}), "persistence.mode"},
	}
}

// stall is an edit that one object's schema cannot judge: the object says what is wrong as a condition.
type stall struct {
	name   string
	edit   setting
	reason string
	// texts all have to be in the message, or in the refusal where the operator's webhook is asked in time.
	texts []string
}

func stalls() []stall {
	negative := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("-1Mi")}}
	upsideDown := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
	}
	return []stall{
		{"unsupported version", version("6.2"), platformv1.ReasonVersionNotSupported, []string{"6.2", "7.0", "8.0"}},
		{"unknown parameter", parameter("maxclient", "100"), platformv1.ReasonInvalidParameters, []string{"maxclient", "maxclients"}},
		{"wrong value of a parameter", parameter("maxclients", "lots"), platformv1.ReasonInvalidParameters, []string{"maxclients", "lots"}},
		{"value out of range", parameter("maxclients", "-5"), platformv1.ReasonInvalidParameters, []string{"maxclients", "-5"}},
		{"parameter that the engine owns", parameter("port", "7000"), platformv1.ReasonInvalidParameters, []string{"port"}},
		{"missing Secret", passwordFrom("absent"), platformv1.ReasonSecretNotFound, []string{"absent"}},
		{"missing key in a Secret", passwordFrom("half"), platformv1.ReasonSecretNotFound, []string{"half", "password"}},
		{"negative memory limit", func(s *databasev1.RedisSpec) { s.Resources = negative }, platformv1.ReasonInvalidSpec, []string{"memory"}},
		{"request above its limit", func(s *databasev1.RedisSpec) { s.Resources = upsideDown }, platformv1.ReasonInvalidSpec, []string{"memory"}},
	}
}

// TestBadInputAtCreation proves that bad input is refused at once, or said within seconds and before anything is made.
func TestBadInputAtCreation(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "badnew")
	s.secret("half", "other", "x")
	for n, r := range refusedAlways() {
		t.Run(r.name, func(t *testing.T) {
			s := s.in(t)
			s.wantRefused(s.tryCreate(redisObject(fmt.Sprintf("refused%d", n), r.edit)), r.text)
		})
	}
	created := append(stalls(),
		stall{"unknown plugin version", func(s *databasev1.RedisSpec) { s.PluginVersion = "9.9.9" }, platformv1.ReasonPluginNotFound, []string{"redis", "9.9.9"}},
		stall{"unknown storage class", func(s *databasev1.RedisSpec) { s.Storage.StorageClassName = ptr.To("absent") },
			platformv1.ReasonStorageClassNotFound, []string{"absent"}},
	)
	for n, c := range created {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			object := redisObject(fmt.Sprintf("stalled%d", n), c.edit)
			if err := s.tryCreate(object); err != nil {
				s.wantJudged(err, c.texts...)
				return
			}
			i := &instance{space: s, name: object.Name}
			i.stalled(c)
			if err := gone(i.get(i.podName(), &corev1.Pod{})); err != nil {
				t.Errorf("a pod was made in spite of the error: %v", err)
			}
			if !meta.IsStatusConditionFalse(i.object().Status.Conditions, platformv1.AcceptedCondition) {
				t.Errorf("condition Accepted is not False: %s", describe(i.object().Status.Conditions))
			}
		})
	}
	t.Run("unknown field", func(t *testing.T) {
		s := s.in(t)
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"version": "7.0", "colour": "red"}}}
		object.SetGroupVersionKind(databasev1.GroupVersion.WithKind("Redis"))
		object.SetName("unknown")
		s.wantRefused(s.tryCreate(object), "colour")
	})
	t.Run("name too long", func(t *testing.T) {
		s := s.in(t)
		s.wantRefused(s.tryCreate(redisObject(strings.Repeat("n", 33))), "at most 32 characters")
	})
	t.Run("name with a dot", func(t *testing.T) {
		s := s.in(t)
		s.wantRefused(s.tryCreate(redisObject("a.b")), "dot")
	})
}

// TestBadChanges proves that a bad change of a running instance gives its error and harms nothing that runs, and that
// the mended spec is taken.
func TestBadChanges(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "badedit")
	s.secret("half", "other", "x")
	fixed := s.name
	s.copyClass(fixed, func(class *storagev1.StorageClass) { class.AllowVolumeExpansion = ptr.To(false) })
	i := s.redis("db", safe(), func(spec *databasev1.RedisSpec) { spec.Storage.StorageClassName = &fixed })
	i.ready()
	i.must("SET", "kept", "yes")
	good := i.object().Spec
	before := i.footprint()
	for _, r := range append(refusedAlways(), refusedAsChange()...) {
		t.Run(r.name, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			i.wantRefused(i.tryUpdate(r.edit), r.text)
		})
	}
	changed := append(stalls(), stall{
		"expansion that the class does not allow", func(s *databasev1.RedisSpec) { s.Storage.Size = resource.MustParse("128Mi") },
		platformv1.ReasonVolumeExpansionUnsupported, []string{"64Mi", "128Mi", "class"},
	})
	for _, c := range changed {
		t.Run(c.name, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			if err := i.tryUpdate(c.edit); err != nil {
				i.wantJudged(err, c.texts...)
				return
			}
			i.stalled(c)
			i.unharmed(before)
			i.update(func(spec *databasev1.RedisSpec) { *spec = *good.DeepCopy() })
			t.Logf("mended and ready after %s", seconds(i.ready()))
			i.unharmed(before)
		})
	}
	i.unharmed(before)
}

// stalled waits for the error of a bad spec: as a condition, soon, with its reason and a sentence that names what is wrong.
func (i *instance) stalled(c stall) {
	i.Helper()
	var message string
	took := i.eventually(errorIn, fmt.Sprintf("Redis %q says %s", i.name, c.reason), func() error {
		r := i.object()
		stalled := meta.FindStatusCondition(r.Status.Conditions, platformv1.StalledCondition)
		if stalled == nil || stalled.Reason != c.reason || r.Status.ObservedGeneration != r.Generation {
			return fmt.Errorf("at generation %d of %d it says: %s", r.Status.ObservedGeneration, r.Generation, describe(r.Status.Conditions))
		}
		message = stalled.Message
		for _, text := range c.texts {
			if !strings.Contains(message, text) {
				return fmt.Errorf("the message says nothing of %q: %s", text, message)
			}
		}
		return nil
	})
	i.Logf("after %s: %s: %s", seconds(took), c.reason, message)
}

// unharmed proves that an instance runs as it did: same pod, same process, same data.
func (i *instance) unharmed(before footprint) {
	i.Helper()
	if err := before.sameProcess(i.footprint()); err != nil {
		i.Error(err)
	}
	if got := i.must("GET", "kept"); got != "yes" {
		i.Errorf("the key is %q, want yes", got)
	}
}

// TestMissingThingsAppear proves that an instance which waits for something goes on by itself once that is there.
func TestMissingThingsAppear(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "appear")
	class := s.name
	waitsForSecret := s.redis("secret", passwordFrom("late"))
	waitsForClass := s.redis("class", func(spec *databasev1.RedisSpec) { spec.Storage.StorageClassName = &class })
	waitsForSecret.stalled(stall{reason: platformv1.ReasonSecretNotFound, texts: []string{"late"}})
	waitsForClass.stalled(stall{reason: platformv1.ReasonStorageClassNotFound, texts: []string{class}})
	s.secret("late", "password", "came-late")
	s.copyClass(class, func(*storagev1.StorageClass) {})
	t.Logf("Secret made to Ready: %s", seconds(waitsForSecret.ready()))
	t.Logf("both ready after another %s", seconds(waitsForClass.ready()))
	waitsForSecret.checkBinding()
	if got := waitsForClass.claim().Spec.StorageClassName; got == nil || *got != class {
		t.Errorf("the claim has class %v, want %s", got, class)
	}
}
