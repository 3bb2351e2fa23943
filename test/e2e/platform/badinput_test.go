// SPDX-License-Identifier: Apache-2.0

package platform

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
	"github.com/zeroinfra/test/e2e/framework"
)

// refusal is an edit that the API server itself has to refuse, with a text in its answer.
type refusal struct {
	name string
	edit framework.Setting
	text string
}

func parameter(name, value string) framework.Setting {
	return func(s *databasev1.RedisSpec) {
		s.Parameters = platformv1.Parameters{name: platformv1.ParameterValue(value)}
	}
}

func passwordFrom(secret string) framework.Setting {
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
		{"maxmemory over the limit", func(s *databasev1.RedisSpec) { s.Maxmemory = ptr.To(resource.MustParse("1Gi")) },
			"limits.memory"},
		{"negative maxmemory", func(s *databasev1.RedisSpec) { s.Maxmemory = ptr.To(resource.MustParse("-1")) }, "maxmemory"},
		{"negative storage", func(s *databasev1.RedisSpec) { s.Storage.Size = resource.MustParse("-1Gi") }, "storage"},
		{"version that is no version", framework.WithVersion("seven"), "version"},
		{"unknown eviction policy", func(s *databasev1.RedisSpec) { s.MaxmemoryPolicy = "random" }, "maxmemoryPolicy"},
		{"save rules without snapshots", framework.WithPersistence(databasev1.RedisPersistence{
			Mode: databasev1.PersistenceAOF, SaveRules: []databasev1.SaveRule{{Seconds: 1, Changes: 1}},
		}), "saveRules"},
		{"empty Secret name", passwordFrom(""), "name"},
		{"user default", framework.WithUser("default"), "instance's own"},
		{"user with a rule for a password",
			func(s *databasev1.RedisSpec) { framework.WithUser("app")(s); s.Users[0].Commands = "+@read >secret" }, "commands"},
		{"Sentinels of one server", framework.WithSentinels(3), "sentinel needs replicas"},
		{"failover of one server", func(s *databasev1.RedisSpec) {
			s.Failover = &databasev1.Failover{Mode: platformv1.FailoverManual}
		}, "failover needs replicas"},
		{"more replicas to write than there are",
			func(s *databasev1.RedisSpec) { s.Durability = &databasev1.RedisDurability{MinReplicas: 1} },
			"cannot be above replicas"},
		{"unknown Service type", func(s *databasev1.RedisSpec) {
			s.Service = &platformv1.ServiceExposure{ServiceSettings: platformv1.ServiceSettings{Type: "Magic"}}
		}, "service"},
	}
}

// refusedAsChange are refused as a change only.
func refusedAsChange() []refusal {
	return []refusal{
		{"shrinking storage", func(s *databasev1.RedisSpec) { s.Storage.Size = resource.MustParse("32Mi") }, "cannot shrink"},
		{"another storage class", func(s *databasev1.RedisSpec) { s.Storage.StorageClassName = ptr.To("other") },
			"immutable"},
		{"Sentinels for a server that had none",
			func(s *databasev1.RedisSpec) { framework.WithReplicas(1)(s); framework.WithSentinels(3)(s) },
			"sentinel can neither be added"},
		{"another plugin version", func(s *databasev1.RedisSpec) { s.PluginVersion = "2.0.0" }, "UpgradeApp"},
		{"persistence switched off", framework.WithPersistence(databasev1.RedisPersistence{Mode: databasev1.PersistenceNone}),
			"persistence.mode"},
	}
}

func stalls() []framework.ExpectedStall {
	negative := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("-1Mi")}}
	upsideDown := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
	}
	return []framework.ExpectedStall{
		{Name: "unsupported version", Edit: framework.WithVersion("6.2"), Reason: platformv1.ReasonVersionNotSupported,
			Texts: []string{"6.2", "7.0", "8.0"}},
		{Name: "unknown parameter", Edit: parameter("maxclient", "100"), Reason: platformv1.ReasonInvalidParameters,
			Texts: []string{"maxclient", "maxclients"}},
		{Name: "wrong value of a parameter", Edit: parameter("maxclients", "lots"),
			Reason: platformv1.ReasonInvalidParameters, Texts: []string{"maxclients", "lots"}},
		{Name: "value out of range", Edit: parameter("maxclients", "-5"), Reason: platformv1.ReasonInvalidParameters,
			Texts: []string{"maxclients", "-5"}},
		{Name: "parameter that the engine owns", Edit: parameter("port", "7000"), Reason: platformv1.ReasonInvalidParameters,
			Texts: []string{"port"}},
		{Name: "missing Secret", Edit: passwordFrom("absent"), Reason: platformv1.ReasonSecretNotFound,
			Texts: []string{"absent"}},
		{Name: "missing key in a Secret", Edit: passwordFrom("half"), Reason: platformv1.ReasonSecretNotFound,
			Texts: []string{"half", "password"}},
		{Name: "negative memory limit", Edit: func(s *databasev1.RedisSpec) { s.Resources = negative },
			Reason: platformv1.ReasonInvalidSpec, Texts: []string{"memory"}},
		{Name: "request above its limit", Edit: func(s *databasev1.RedisSpec) { s.Resources = upsideDown },
			Reason: platformv1.ReasonInvalidSpec, Texts: []string{"memory"}},
	}
}

// TestBadInputAtCreation proves that bad input is refused at once, or said within seconds and before anything is made.
func TestBadInputAtCreation(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "badnew")
	s.CreateSecret("half", "other", "x")
	for n, r := range refusedAlways() {
		t.Run(r.name, func(t *testing.T) {
			s := s.In(t)
			s.ExpectRefused(s.TryCreate(framework.NewRedis(fmt.Sprintf("refused%d", n), r.edit)), r.text)
		})
	}
	created := append(stalls(),
		framework.ExpectedStall{Name: "unknown plugin version",
			Edit: func(s *databasev1.RedisSpec) { s.PluginVersion = "9.9.9" }, Reason: platformv1.ReasonPluginNotFound,
			Texts: []string{"redis", "9.9.9"}},
		framework.ExpectedStall{Name: "unknown storage class",
			Edit:   func(s *databasev1.RedisSpec) { s.Storage.StorageClassName = ptr.To("absent") },
			Reason: platformv1.ReasonStorageClassNotFound, Texts: []string{"absent"}},
	)
	for n, c := range created {
		t.Run(c.Name, func(t *testing.T) {
			s := s.In(t)
			object := framework.NewRedis(fmt.Sprintf("stalled%d", n), c.Edit)
			if err := s.TryCreate(object); err != nil {
				wantJudged(s, err, c.Texts...)
				return
			}
			i := &framework.Instance{Namespace: s, Name: object.Name}
			i.ExpectStalled(c)
			if err := framework.ErrUnlessNotFound(i.Get(i.PodName(), &corev1.Pod{})); err != nil {
				t.Errorf("a pod was made in spite of the error: %v", err)
			}
			if !meta.IsStatusConditionFalse(i.Object().Status.Conditions, platformv1.AcceptedCondition) {
				t.Errorf("condition Accepted is not False: %s", framework.Describe(i.Object().Status.Conditions))
			}
		})
	}
	t.Run("unknown field", func(t *testing.T) {
		s := s.In(t)
		object := &unstructured.Unstructured{
			Object: map[string]any{"spec": map[string]any{"version": "7.0", "colour": "red"}}}
		object.SetGroupVersionKind(databasev1.GroupVersion.WithKind("Redis"))
		object.SetName("unknown")
		s.ExpectRefused(s.TryCreate(object), "colour")
	})
	t.Run("name too long", func(t *testing.T) {
		s := s.In(t)
		s.ExpectRefused(s.TryCreate(framework.NewRedis(strings.Repeat("n", 33))), "at most 32 characters")
	})
	t.Run("name with a dot", func(t *testing.T) {
		s := s.In(t)
		s.ExpectRefused(s.TryCreate(framework.NewRedis("a.b")), "dot")
	})
}

// TestBadChanges proves that a bad change of a running instance gives its error and harms nothing that runs, and that
// the mended spec is taken.
func TestBadChanges(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "badedit")
	s.CreateSecret("half", "other", "x")
	fixed := s.Name
	s.CopyClass(fixed, func(class *storagev1.StorageClass) { class.AllowVolumeExpansion = ptr.To(false) })
	i := s.CreateRedis("db", framework.WithFsyncAlways(),
		func(spec *databasev1.RedisSpec) { spec.Storage.StorageClassName = &fixed })
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	good := i.Object().Spec
	before := i.Footprint()
	for _, r := range append(refusedAlways(), refusedAsChange()...) {
		t.Run(r.name, func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			i.ExpectRefused(i.TryUpdate(r.edit), r.text)
		})
	}
	changed := append(stalls(), framework.ExpectedStall{
		Name:   "expansion that the class does not allow",
		Edit:   func(s *databasev1.RedisSpec) { s.Storage.Size = resource.MustParse("128Mi") },
		Reason: platformv1.ReasonVolumeExpansionUnsupported, Texts: []string{"64Mi", "128Mi", "class"},
	})
	for _, c := range changed {
		t.Run(c.Name, func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			if err := i.TryUpdate(c.Edit); err != nil {
				wantJudged(i.Namespace, err, c.Texts...)
				return
			}
			i.ExpectStalled(c)
			unharmed(i, before)
			i.Update(func(spec *databasev1.RedisSpec) { *spec = *good.DeepCopy() })
			t.Logf("mended and ready after %s", framework.FormatSeconds(i.WaitReady()))
			unharmed(i, before)
		})
	}
	unharmed(i, before)
}

// unharmed proves that an instance runs as it did: same pod, same process, same data.
func unharmed(i *framework.Instance, before framework.Footprint) {
	i.Helper()
	if err := before.SameProcess(i.Footprint()); err != nil {
		i.Error(err)
	}
	if got := i.MustDo("GET", "kept"); got != "yes" {
		i.Errorf("the key is %q, want yes", got)
	}
}

// TestMissingThingsAppear proves that an instance which waits for something goes on by itself once that is there.
func TestMissingThingsAppear(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "appear")
	class := s.Name
	waitsForSecret := s.CreateRedis("secret", passwordFrom("late"))
	waitsForClass := s.CreateRedis("class", func(spec *databasev1.RedisSpec) { spec.Storage.StorageClassName = &class })
	waitsForSecret.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonSecretNotFound, Texts: []string{"late"}})
	waitsForClass.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonStorageClassNotFound,
		Texts: []string{class}})
	s.CreateSecret("late", "password", "came-late")
	s.CopyClass(class, func(*storagev1.StorageClass) {})
	t.Logf("Secret made to Ready: %s", framework.FormatSeconds(waitsForSecret.WaitReady()))
	t.Logf("both ready after another %s", framework.FormatSeconds(waitsForClass.WaitReady()))
	waitsForSecret.CheckBinding()
	if got := waitsForClass.Claim().Spec.StorageClassName; got == nil || *got != class {
		t.Errorf("the claim has class %v, want %s", got, class)
	}
}
