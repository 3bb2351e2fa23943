// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// operatedIn is how long an Operation may take that waits for a kubelet to look at its volumes.
	operatedIn = 12 * time.Minute
	// volumesBefore and volumesAfter are what the volumes have that grow. A file system takes something for itself.
	volumesBefore, volumesAfter = "320Mi", "512Mi"
	grownBy                     = 96 << 20
)

// operated is an instance that Operations are tried on.
type operated struct {
	*framework.Application
	target platformv1.TargetReference
	// component of the plugin, and container that runs it.
	component string
	// settle waits until it serves as a whole, write puts a word into it, and holds waits until all of these are read
	// back.
	settle func()
	write  func(word string)
	holds  func(words []string)
}

// operatedPlugin is a plugin, and the Operations that are tried one after the other on an instance of it.
type operatedPlugin struct {
	name string
	// make makes the instance, and as is the same for a subtest.
	make func(s *framework.Namespace)
	as   func(s *framework.Namespace) *operated
	// tries of Operations, in order.
	tries []operatedTry
}

// operatedTry is one Operation.
type operatedTry struct {
	template string
	pods     fate
	// begin returns the parameters, in pairs, and what reads the effect back once the Operation has succeeded; nil where
	// the pods show all of it.
	begin func(o *operated) (parameters []string, took func(op *platformv1.Operation))
}

// fate is what an Operation does to pods.
type fate string

const (
	processesGoOn   fate = "pods and processes go on"
	processesBegin  fate = "pods and containers stay, and each process is started once more"
	podsStay        fate = "pods stay, whatever becomes of their processes"
	podsEnd         fate = "no pod is left, and all claims are"
	podsBegin       fate = "there are pods again, with the claims of before"
	onePodBeginsNew fate = "one pod and its claim are made anew"
)

// stand is which pod one is, and what was started in it.
type stand struct {
	uid        types.UID
	containers string
	starts     int64
}

func (o *operated) stands() (map[string]stand, error) {
	all := map[string]stand{}
	for _, pod := range o.Pods() {
		told, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
		if err != nil {
			return nil, err
		}
		all[pod.Name] = stand{pod.UID, fmt.Sprint(framework.Restarts(&pod)), told.Starts}
	}
	return all, nil
}

// volumes are the claims by name.
func (o *operated) volumes() map[string]types.UID {
	all := map[string]types.UID{}
	for name, claim := range o.Claims() {
		all[name] = claim.UID
	}
	return all
}

// became says what is not as it was to become of pods and claims.
func (f fate) became(before, after map[string]stand, claimsBefore, claimsAfter map[string]types.UID, one string) error {
	if f != onePodBeginsNew && !maps.Equal(claimsBefore, claimsAfter) {
		return fmt.Errorf("the claims were %v and are %v", claimsBefore, claimsAfter)
	}
	switch f {
	case podsEnd:
		if len(after) > 0 {
			return fmt.Errorf("pods %v are left", slices.Sorted(maps.Keys(after)))
		}
		return nil
	case podsBegin:
		if len(after) == 0 {
			return fmt.Errorf("there are no pods")
		}
		return nil
	}
	if !slices.Equal(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))) {
		return fmt.Errorf("the pods were %v and are %v", before, after)
	}
	for name, was := range before {
		is := after[name]
		anew := f == onePodBeginsNew && name == one
		switch {
		case anew == (was.uid == is.uid):
			return fmt.Errorf("pod %s was %s and is %s", name, was.uid, is.uid)
		case f == processesGoOn && was != is, f == processesBegin &&
			(was.containers != is.containers || is.starts != was.starts+1):
			return fmt.Errorf("pod %s was %+v and is %+v", name, was, is)
		}
	}
	if f == onePodBeginsNew {
		for name, uid := range claimsBefore {
			if anew := strings.HasSuffix(name, one); anew == (claimsAfter[name] == uid) {
				return fmt.Errorf("claim %s was %s and is %s", name, uid, claimsAfter[name])
			}
		}
	}
	return nil
}

// resized asks for another limit of memory. The container's control group tells it.
func resized(memory string) func(*operated) ([]string, func(*platformv1.Operation)) {
	const script = "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
	return func(o *operated) ([]string, func(*platformv1.Operation)) {
		return []string{"memoryLimit", memory}, func(*platformv1.Operation) {
			want := resource.MustParse(memory)
			for _, pod := range o.Pods() {
				o.Eventually(framework.SettleTimeout, fmt.Sprintf("the kernel gives pod %s %s of memory", pod.Name, memory),
					func() error {
						out, err := o.in(pod.Name, "sh", "-c", script)
						if err == nil && strings.TrimSpace(out) != strconv.FormatInt(want.Value(), 10) {
							err = fmt.Errorf("it gives %q", out)
						}
						return err
					})
			}
		}
	}
}

// grown asks for larger volumes. The claims have that then, and so have the file systems.
func grown(o *operated) ([]string, func(*platformv1.Operation)) {
	before := map[string]int64{}
	for _, pod := range o.Pods() {
		size, err := o.room(pod.Name)
		if err != nil {
			o.Fatal(err)
		}
		before[pod.Name] = size
	}
	return []string{"size", volumesAfter}, func(*platformv1.Operation) {
		want := resource.MustParse(volumesAfter)
		for name, claim := range o.Claims() {
			if got := claim.Status.Capacity[corev1.ResourceStorage]; got.Cmp(want) < 0 {
				o.Errorf("claim %s has a capacity of %s, want %s", name, got.String(), volumesAfter)
			}
		}
		for pod, size := range before {
			o.Eventually(framework.VolumeGrowthTimeout, "the file system in pod "+pod+" has grown", func() error {
				now, err := o.room(pod)
				if err == nil && now < size+grownBy {
					err = fmt.Errorf("it had %d MiB and has %d MiB", size>>20, now>>20)
				}
				return err
			})
		}
	}
}

// in runs a command in the container of a pod that runs the middleware.
func (o *operated) in(pod string, command ...string) (string, error) {
	return framework.Run(o.Ctx, o.Namespace.Name, pod, o.component, "", command...)
}

func (o *operated) room(pod string) (int64, error) { return o.FileSystem(pod, o.component, "/data") }

// operatedRedis is a Redis alone, asked for by its kind.
var operatedRedis = operatedPlugin{
	name: "redis",
	make: func(s *framework.Namespace) {
		s.CreateRedis("db", framework.WithFsyncAlways(),
			func(spec *databasev1.RedisSpec) { spec.Storage.Size = resource.MustParse(volumesBefore) })
	},
	as: func(s *framework.Namespace) *operated {
		i := &framework.Instance{Namespace: s, Name: "db"}
		return &operated{Application: &framework.Application{Namespace: s, Name: i.Application()}, target: i.Reference(),
			component: framework.RedisComponent,
			settle:    func() { i.WaitReady() },
			write:     func(word string) { i.MustDo("SET", "kept:"+word, word) },
			holds: func(words []string) {
				for _, word := range words {
					if got := i.MustDo("GET", "kept:"+word); got != word {
						s.Errorf("the key of %q is %q", word, got)
					}
				}
			},
		}
	},
	tries: []operatedTry{{"Reload", processesGoOn, nil}, {"VerticalScaleVolume", processesGoOn, grown}},
}

// operatedEtcd is an etcd of three members.
var operatedEtcd = operatedPlugin{
	name: "etcd",
	make: func(s *framework.Namespace) {
		spec := etcdApplication()
		spec.Components[0].Storage.Size = resource.MustParse(volumesBefore)
		s.CreateApplication("store", spec)
	},
	as: func(s *framework.Namespace) *operated {
		e := &etcd{Application: &framework.Application{Namespace: s, Name: "store"}, scheme: "http"}
		return &operated{Application: e.Application, target: framework.CoreReference("Application", e.Name),
			component: etcdComponent,
			settle:    func() { e.WaitReady(); e.led() },
			write:     func(word string) { e.mustCtl(e.Pods()[0].Name, e.service(), "put", "kept/"+word, word) },
			holds: func(words []string) {
				for _, word := range words {
					if got := e.mustCtl(e.Pods()[0].Name, e.service(), "get", "kept/"+word, "--print-value-only"); got != word {
						s.Errorf("the key of %q is %q", word, got)
					}
				}
			},
		}
	},
	tries: []operatedTry{{"Restart", processesBegin, nil}, {"VerticalScaleVolume", processesGoOn, grown}},
}

// operatedNginx is a web server of two pods. It keeps nothing, and has to answer.
var operatedNginx = operatedPlugin{
	name: "nginx",
	make: func(s *framework.Namespace) {
		s.EnsureCommonOperator()
		spec := nginxApplication()
		spec.Version = "1.22"
		s.CreateApplication("site", spec)
	},
	as: func(s *framework.Namespace) *operated {
		n := &nginx{&framework.Application{Namespace: s, Name: "site"}}
		return &operated{Application: n.Application, target: framework.CoreReference("Application", n.Name),
			component: nginxComponent,
			settle:    func() { n.WaitReady() },
			write:     func(string) {},
			holds: func([]string) {
				n.Eventually(framework.EndpointTimeout, "the Service answers", func() error {
					_, err := n.exec(n.Pods()[0].Name, "wget", "-q", "-O", "/dev/null", "http://"+n.Name+":8080/")
					return err
				})
			},
		}
	},
	tries: []operatedTry{
		{"Restart", processesBegin, nil},
		{"Reload", processesGoOn, func(o *operated) ([]string, func(*platformv1.Operation)) {
			before := workersOf(o)
			return nil, func(*platformv1.Operation) {
				o.Eventually(framework.SettleTimeout, "all workers are others", func() error {
					for pod, workers := range workersOf(o) {
						if slices.ContainsFunc(workers, func(w string) bool { return slices.Contains(before[pod], w) }) {
							return fmt.Errorf("in %s they were %v and are %v", pod, before[pod], workers)
						}
					}
					return nil
				})
			}
		}},
		{"Stop", podsEnd, nil},
		{"Start", podsBegin, nil},
		{"UpgradePaaS", podsStay, func(o *operated) ([]string, func(*platformv1.Operation)) {
			return []string{"version", "1.26"}, func(*platformv1.Operation) {
				for _, pod := range o.Pods() {
					if said, err := o.in(pod.Name, "sh", "-c", "nginx -v 2>&1"); err != nil || !strings.Contains(said, "nginx/1.26.") {
						o.Errorf("pod %s says %q: %v", pod.Name, said, err)
					}
				}
			}
		}},
	},
}

func workersOf(o *operated) map[string][]string {
	o.Helper()
	n, all := &nginx{o.Application}, map[string][]string{}
	for _, pod := range o.Pods() {
		_, workers, err := n.processes(pod.Name)
		if err != nil {
			o.Fatal(err)
		}
		all[pod.Name] = workers
	}
	return all
}

// operatedMinio is an ObjectStorage of one server.
var operatedMinio = operatedPlugin{
	name: "minio",
	make: func(s *framework.Namespace) {
		s.EnsureStorageOperator()
		o := s.CreateObjectStorage("media",
			func(spec *storagev1.ObjectStorageSpec) { spec.Storage.Size = resource.MustParse(volumesBefore) })
		o.WaitReady()
		root := o.RootClient(o.Pod("main", 0))
		o.Retry("a bucket is made", func() error {
			there, err := root.BucketExists(s.Ctx, "kept")
			if err == nil && !there {
				err = root.MakeBucket(s.Ctx, "kept", minio.MakeBucketOptions{})
			}
			return err
		})
	},
	as: func(s *framework.Namespace) *operated {
		o := &framework.ObjectStorage{Namespace: s, Name: "media", PortForwards: s.NewPortForwards()}
		return &operated{Application: o.Application(), component: "minio",
			target: platformv1.TargetReference{APIVersion: storagev1.GroupVersion.String(), Kind: "ObjectStorage", Name: o.Name},
			settle: func() { o.WaitReady() },
			write:  func(word string) { o.Put(o.RootClient(o.Pod("main", 0)), "kept", word, word) },
			holds: func(words []string) {
				for _, word := range words {
					o.WaitForObject(o.RootClient(o.Pod("main", 0)), "kept", word, word)
				}
			},
		}
	},
	tries: []operatedTry{
		{"Restart", processesBegin, nil},
		{"RotateCredentials", processesBegin, func(o *operated) ([]string, func(*platformv1.Operation)) {
			store := &framework.ObjectStorage{Namespace: o.Namespace, Name: "media", PortForwards: o.Namespace.NewPortForwards()}
			former := store.Binding()
			return nil, func(*platformv1.Operation) {
				if now := store.Binding(); now["secretKey"] == former["secretKey"] || now["accessKey"] != former["accessKey"] {
					o.Error("clients are told the former key, or another account")
				}
				store.ExpectPutRefused(store.ClientAs(store.Pod("main", 0), former["accessKey"], former["secretKey"]), "kept",
					"late", "SignatureDoesNotMatch", "InvalidAccessKeyId")
			}
		}},
		{"VerticalScaleResource", podsStay, resized("640Mi")},
		{"VerticalScaleVolume", processesGoOn, grown},
		{"Stop", podsEnd, nil},
		{"Start", podsBegin, nil},
	},
}

// operatedPostgreSQL is a PostgreSQL of a primary and two replicas.
var operatedPostgreSQL = operatedPlugin{
	name: "postgresql",
	make: func(s *framework.Namespace) {
		r := s.CreateReplicatedPostgreSQL("db",
			framework.WithComponent(framework.PostgreSQLComponent,
				func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse(volumesBefore) }))
		r.WaitReady()
		(&framework.PostgreSQLApplication{Application: r.Application, Client: framework.PostgreSQLClient}).SQL("postgres",
			"CREATE TABLE kept (n serial, word text)")
	},
	as: func(s *framework.Namespace) *operated {
		r := &framework.Replicated{Application: &framework.Application{Namespace: s, Name: "db"},
			Kind: framework.ReplicatedPostgreSQLKind}
		p := &framework.PostgreSQLApplication{Application: r.Application, Client: framework.PostgreSQLClient}
		return &operated{Application: r.Application, target: framework.CoreReference("Application", r.Name),
			component: framework.PostgreSQLComponent,
			settle:    func() { r.WaitForPrimary() },
			write:     func(word string) { p.SQL("postgres", "INSERT INTO kept (word) VALUES ('"+word+"')") },
			holds: func(words []string) {
				p.WaitForAnswer(strings.Join(words, ","), "SELECT string_agg(word, ',' ORDER BY n) FROM kept")
			},
		}
	},
	tries: []operatedTry{
		{"Reload", processesGoOn, func(o *operated) ([]string, func(*platformv1.Operation)) {
			before := everyMember(o, "SELECT pg_conf_load_time()")
			return nil, func(*platformv1.Operation) {
				for pod, now := range everyMember(o, "SELECT pg_conf_load_time()") {
					if now == before[pod] {
						o.Errorf("%s has its configuration since %s", pod, now)
					}
				}
			}
		}},
		{"VerticalScaleResource", podsStay, resized("448Mi")},
		{"RebuildMember", onePodBeginsNew, func(o *operated) ([]string, func(*platformv1.Operation)) {
			member := (&framework.Replicated{Application: o.Application, Kind: framework.ReplicatedPostgreSQLKind}).Follower()
			return []string{"pod", member}, func(*platformv1.Operation) {
				o.settle()
				primary := o.Object().Status.Primary
				o.Eventually(framework.SettleTimeout, "the member has a copy of the data", func() error {
					all := everyMember(o, "SELECT count(*) || ' ' || pg_is_in_recovery() FROM kept")
					if want := strings.Replace(all[primary], "false", "true", 1); all[member] != want || want == all[primary] {
						return fmt.Errorf("they say %v", all)
					}
					return nil
				})
			}
		}},
		{"VerticalScaleVolume", processesGoOn, grown},
	},
}

// everyMember is what each server says for itself.
func everyMember(o *operated, statement string) map[string]string {
	o.Helper()
	all := map[string]string{}
	for _, pod := range o.Pods() {
		o.Eventually(framework.SettleTimeout, "pod "+pod.Name+" answers", func() error {
			out, err := o.in(pod.Name, "/usr/lib/postgresql/"+framework.PostgreSQLVersion+"/bin/psql", "-X", "-A", "-t", "-q",
				"-h", "/zeroinfra/run", "-U", "postgres", "-c", statement)
			all[pod.Name] = strings.TrimSpace(out)
			return err
		})
	}
	return all
}
