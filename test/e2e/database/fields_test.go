// SPDX-License-Identifier: Apache-2.0

package database

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
	"github.com/zeroinfra/test/e2e/framework"
)

// oddPassword has every character that a configuration file, a URI or a shell could trip over.
const oddPassword = `p@ss/w:rd "q' \x41 #1 %41 $HOME ${a} ü`

// TestEveryFieldIsReadBack proves that each field of the spec does something that the data plane shows.
func TestEveryFieldIsReadBack(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "fields")
	s.CreateSecret("chosen", "pw", oddPassword)
	class := s.DefaultClass().Name
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("25m"),
			corev1.ResourceMemory: resource.MustParse("48Mi")},
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"),
			corev1.ResourceMemory: resource.MustParse("96Mi")},
	}
	everything := s.CreateRedis("everything", framework.WithFsyncAlways(), func(spec *databasev1.RedisSpec) {
		spec.Resources = resources
		spec.Storage = platformv1.InstanceStorage{Size: resource.MustParse("96Mi"), StorageClassName: &class}
		spec.Auth = &databasev1.Auth{PasswordFrom: platformv1.SecretKeyReference{Name: "chosen", Key: "pw"}}
		spec.Maxmemory = ptr.To(resource.MustParse("24Mi"))
		spec.MaxmemoryPolicy = "allkeys-lru"
		spec.Parameters = platformv1.Parameters{"maxclients": "321", "slowlog-log-slower-than": "5000",
			"hash-max-listpack-entries": "77"}
		spec.Service = &platformv1.ServiceExposure{
			ServiceSettings: platformv1.ServiceSettings{Type: corev1.ServiceTypeNodePort,
				Annotations: map[string]string{"example.com/team": "shop"}}}
		spec.DeletionPolicy = platformv1.DeletionPolicyDelete
	})
	modes := map[string]*framework.Instance{
		"rdb": s.CreateRedis("rdb", framework.WithVersion("8.0"), framework.WithPersistence(databasev1.RedisPersistence{
			Mode: databasev1.PersistenceRDB, SaveRules: []databasev1.SaveRule{{Seconds: 900, Changes: 1},
				{Seconds: 30, Changes: 50}},
		})),
		"both": s.CreateRedis("both", framework.WithPersistence(
			databasev1.RedisPersistence{Mode: databasev1.PersistenceBoth, AppendFsync: databasev1.AppendFsyncNo})),
		"none": s.CreateRedis("none", framework.WithVersion("8.0"),
			framework.WithPersistence(databasev1.RedisPersistence{Mode: databasev1.PersistenceNone})),
	}
	t.Run("everything", func(t *testing.T) {
		i := &framework.Instance{Namespace: s.In(t), Name: everything.Name}
		i.WaitReady()
		checkStatus(i)
		i.CheckBinding()
		if a := i.Account(); a.Password != oddPassword {
			t.Error("the binding does not carry the password of the Secret that the spec names")
		}
		i.ExpectConfig(map[string]string{
			"maxmemory": fmt.Sprint(24 << 20), "maxmemory-policy": "allkeys-lru", "appendonly": "yes", "appendfsync": "always",
			"save":       "",
			"maxclients": "321", "slowlog-log-slower-than": "5000", "hash-max-listpack-entries": "77",
		})
		checkPlacement(i, resources, "96Mi", class)
		checkService(i, corev1.ServiceTypeNodePort, map[string]string{"example.com/team": "shop"})
		checkNodePort(i)
		if got := i.Info("redis_version"); !strings.HasPrefix(got, "7.0.") {
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
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			i.WaitReady()
			i.ExpectConfig(want[name])
			checkPersistence(i, name)
		})
	}
}

// checkPersistence proves that data outlives the pod in every mode but None.
func checkPersistence(i *framework.Instance, mode string) {
	i.Helper()
	i.MustDo("SET", "kept", "yes")
	before := i.Pod()
	i.Delete(before)
	i.Eventually(framework.ReadyTimeout, "the pod is replaced and answers", func() error { return i.PodReplaced(before) })
	i.WaitReady()
	want := "yes"
	if mode == "none" {
		want = ""
	}
	if got := i.MustDo("GET", "kept"); got != want {
		i.Errorf("after the pod was deleted, the key is %q, want %q", got, want)
	}
}

// checkPlacement reads resources and storage back from the pod, the claim and the server.
func checkPlacement(i *framework.Instance, resources corev1.ResourceRequirements, size, class string) {
	i.Helper()
	checkResources(i, resources)
	claim := i.Claim()
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
	dir := i.Config("dir")
	mounts := ""
	for _, container := range i.Pod().Spec.Containers {
		if container.Name == framework.RedisComponent {
			for _, mount := range container.VolumeMounts {
				mounts += mount.Name + " at " + mount.MountPath + "; "
				if strings.HasPrefix(dir, mount.MountPath) && claimMounted(i, mount.Name) {
					return
				}
			}
		}
	}
	i.Errorf("redis-server keeps its data in %q, which is not on the claim: mounts are %s", dir, mounts)
}

func claimMounted(i *framework.Instance, volume string) bool {
	for _, v := range i.Pod().Spec.Volumes {
		if v.Name == volume {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == i.Claim().Name
		}
	}
	return false
}

func checkResources(i *framework.Instance, want corev1.ResourceRequirements) {
	i.Helper()
	for _, container := range i.Pod().Spec.Containers {
		if container.Name != framework.RedisComponent {
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
	i.Errorf("the pod has no container %q", framework.RedisComponent)
}

func checkService(i *framework.Instance, kind corev1.ServiceType, annotations map[string]string) {
	i.Helper()
	service := &corev1.Service{}
	i.MustGet(i.Application(), service)
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
func checkNodePort(i *framework.Instance) {
	i.Helper()
	app, nodes := &platformv1.Application{}, &corev1.NodeList{}
	i.MustGet(i.Application(), app)
	at := slices.IndexFunc(app.Status.Endpoints, func(e platformv1.Endpoint) bool { return e.NodePort != 0 })
	if at < 0 {
		i.Fatalf("of the endpoints %+v none has a port on nodes", app.Status.Endpoints)
	}
	if err := framework.Cluster.Client.List(i.Ctx, nodes); err != nil {
		i.Fatal(err)
	}
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				asksForAPassword(i, net.JoinHostPort(address.Address, strconv.Itoa(int(app.Status.Endpoints[at].NodePort))))
			}
		}
	}
}

func asksForAPassword(i *framework.Instance, address string) {
	i.Helper()
	i.Eventually(framework.SettleTimeout, "a Redis answers at "+address, func() error {
		ctx, cancel := context.WithTimeout(i.Ctx, framework.ClientTimeout)
		defer cancel()
		conn, err := i.Namespace.NewExternalClient().Connect(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		answer := make([]byte, 64)
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(framework.ClientTimeout)); err != nil {
			return err
		}
		n, err := conn.Read(answer)
		if err == nil && !strings.HasPrefix(string(answer[:n]), "-NOAUTH") {
			err = fmt.Errorf("it says %q", answer[:n])
		}
		return err
	})
}
