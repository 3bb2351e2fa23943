// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// oddPassword has every character that a configuration file, a URI or a shell could trip over.
const oddPassword = `p@ss/w:rd "q' \x41 #1 %41 $HOME ${a} ü`

// TestEveryFieldIsReadBack proves that each field of the spec does something that the data plane shows.
func TestEveryFieldIsReadBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "fields")
	s.secret("chosen", "pw", oddPassword)
	class := s.defaultClass().Name
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("25m"), corev1.ResourceMemory: resource.MustParse("48Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("96Mi")},
	}
	everything := s.redis("everything", safe(), func(spec *databasev1.RedisSpec) {
		spec.Resources = resources
		spec.Storage = databasev1.RedisStorage{Size: resource.MustParse("96Mi"), StorageClassName: &class}
		spec.Auth = &databasev1.Auth{PasswordFrom: platformv1.SecretKeyReference{Name: "chosen", Key: "pw"}}
		spec.Maxmemory = ptr.To(resource.MustParse("24Mi"))
		spec.MaxmemoryPolicy = "allkeys-lru"
		spec.Parameters = platformv1.Parameters{"maxclients": "321", "slowlog-log-slower-than": "5000", "hash-max-listpack-entries": "77"}
		spec.Service = &platformv1.ServiceExposure{Type: corev1.ServiceTypeNodePort, Annotations: map[string]string{"example.com/team": "shop"}}
		spec.DeletionPolicy = platformv1.DeletionPolicyDelete
	})
	modes := map[string]*instance{
		"rdb": s.redis("rdb", version("8.0"), persistence(databasev1.RedisPersistence{
			Mode: databasev1.PersistenceRDB, SaveRules: []databasev1.SaveRule{{Seconds: 900, Changes: 1}, {Seconds: 30, Changes: 50}},
		})),
		"both": s.redis("both", persistence(databasev1.RedisPersistence{Mode: databasev1.PersistenceBoth, AppendFsync: databasev1.AppendFsyncNo})),
		"none": s.redis("none", version("8.0"), persistence(databasev1.RedisPersistence{Mode: databasev1.PersistenceNone})),
	}
	t.Run("everything", func(t *testing.T) {
		i := &instance{space: s.in(t), name: everything.name}
		i.ready()
		i.checkStatus()
		i.checkBinding()
		if a := i.account(); a.password != oddPassword {
			t.Error("the binding does not carry the password of the Secret that the spec names")
		}
		i.want(map[string]string{
			"maxmemory": fmt.Sprint(24 << 20), "maxmemory-policy": "allkeys-lru", "appendonly": "yes", "appendfsync": "always", "save": "",
			"maxclients": "321", "slowlog-log-slower-than": "5000", "hash-max-listpack-entries": "77",
		})
		i.checkPlacement(resources, "96Mi", class)
		i.checkService(corev1.ServiceTypeNodePort, map[string]string{"example.com/team": "shop"})
		i.checkNodePort()
		if got := i.info("redis_version"); !strings.HasPrefix(got, "7.0.") {
			t.Errorf("INFO says version %q, want 7.0", got)
		}
	})
	want := map[string]map[string]string{
		"rdb":  {"appendonly": "no", "save": "900 1 30 50"},
		"both": {"appendonly": "yes", "appendfsync": "no", "save": "3600 1 300 100 60 10000"},
		"none": {"appendonly": "no", "save": ""},
	}
	for name, i := range modes {
		t.Run(name, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			i.ready()
			i.want(want[name])
			i.checkPersistence(name)
		})
	}
}

// checkPersistence proves that data outlives the pod in every mode but None.
func (i *instance) checkPersistence(mode string) {
	i.Helper()
	i.must("SET", "kept", "yes")
	before := i.pod()
	i.delete(before)
	i.eventually(readyIn, "the pod is replaced and answers", func() error { return i.replaced(before) })
	i.ready()
	want := "yes"
	if mode == "none" {
		want = ""
	}
	if got := i.must("GET", "kept"); got != want {
		i.Errorf("after the pod was deleted, the key is %q, want %q", got, want)
	}
}

// want has the test fail unless the running server has these settings now.
func (i *instance) want(settings map[string]string) {
	i.Helper()
	if _, err := i.told(func() (string, error) { return "", i.wantConfig(settings) }); err != nil {
		i.Error(err)
	}
}

// checkPlacement reads resources and storage back from the pod, the claim and the server.
func (i *instance) checkPlacement(resources corev1.ResourceRequirements, size, class string) {
	i.Helper()
	i.checkResources(resources)
	claim := i.claim()
	if got := claim.Spec.Resources.Requests.Storage().String(); got != size {
		i.Errorf("the claim asks for %s, want %s", got, size)
	}
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != class {
		i.Errorf("the claim has class %v, want %s", claim.Spec.StorageClassName, class)
	}
	if claim.Status.Phase != corev1.ClaimBound || len(claim.OwnerReferences) > 0 {
		i.Errorf("the claim is %s and has owners %v, want Bound and none", claim.Status.Phase, claim.OwnerReferences)
	}
	// The data is on the volume, not in the container.
	dir := i.config("dir")
	mounts := ""
	for _, container := range i.pod().Spec.Containers {
		if container.Name == redisComponent {
			for _, mount := range container.VolumeMounts {
				mounts += mount.Name + " at " + mount.MountPath + "; "
				if strings.HasPrefix(dir, mount.MountPath) && i.claimMounted(mount.Name) {
					return
				}
			}
		}
	}
	i.Errorf("redis-server keeps its data in %q, which is not on the claim: mounts are %s", dir, mounts)
}

func (i *instance) claimMounted(volume string) bool {
	for _, v := range i.pod().Spec.Volumes {
		if v.Name == volume {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == i.claim().Name
		}
	}
	return false
}

func (i *instance) checkResources(want corev1.ResourceRequirements) {
	i.Helper()
	for _, container := range i.pod().Spec.Containers {
		if container.Name != redisComponent {
			continue
		}
		for what, pair := range map[string][2]corev1.ResourceList{
			"requests": {container.Resources.Requests, want.Requests}, "limits": {container.Resources.Limits, want.Limits},
		} {
			for name, quantity := range pair[1] {
				if got := pair[0][name]; got.Cmp(quantity) != 0 {
					i.Errorf("%s of %s are %s, want %s", what, name, got.String(), quantity.String())
				}
			}
		}
		return
	}
	i.Errorf("the pod has no container %q", redisComponent)
}

func (i *instance) checkService(kind corev1.ServiceType, annotations map[string]string) {
	i.Helper()
	service := &corev1.Service{}
	i.mustGet(i.application(), service)
	if service.Spec.Type != kind {
		i.Errorf("the Service is of type %s, want %s", service.Spec.Type, kind)
	}
	for key, value := range annotations {
		if service.Annotations[key] != value {
			i.Errorf("annotation %q of the Service is %q, want %q", key, service.Annotations[key], value)
		}
	}
}

// checkNodePort: the port that the status names leads to the Redis on every node, which asks for a password.
func (i *instance) checkNodePort() {
	i.Helper()
	app, nodes := &platformv1.Application{}, &corev1.NodeList{}
	i.mustGet(i.application(), app)
	at := slices.IndexFunc(app.Status.Endpoints, func(e platformv1.Endpoint) bool { return e.NodePort != 0 })
	if at < 0 {
		i.Fatalf("of the endpoints %+v none has a port on nodes", app.Status.Endpoints)
	}
	if err := world.client.List(i.ctx, nodes); err != nil {
		i.Fatal(err)
	}
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				i.asksForAPassword(net.JoinHostPort(address.Address, strconv.Itoa(int(app.Status.Endpoints[at].NodePort))))
			}
		}
	}
}

func (i *instance) asksForAPassword(address string) {
	i.Helper()
	i.eventually(settleIn, "a Redis answers at "+address, func() error {
		ctx, cancel := context.WithTimeout(i.ctx, patientFor)
		defer cancel()
		conn, err := i.space.outside().connect(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		answer := make([]byte, 64)
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(patientFor)); err != nil {
			return err
		}
		n, err := conn.Read(answer)
		if err == nil && !strings.HasPrefix(string(answer[:n]), "-NOAUTH") {
			err = fmt.Errorf("it says %q", answer[:n])
		}
		return err
	})
}

func version(v string) setting {
	return func(spec *databasev1.RedisSpec) { spec.Version = v }
}

func persistence(p databasev1.RedisPersistence) setting {
	return func(spec *databasev1.RedisSpec) { spec.Persistence = p }
}
