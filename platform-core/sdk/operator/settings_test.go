// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	uberzap "go.uber.org/zap"

	"github.com/zeroinfra/platform-core/internal/engine"
)

// Values that cannot work are refused before anything is started, and the error names the flag.
func TestBadFlagsAreRefused(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	good := []string{"--namespace=zeroinfra", "--agent-image=agent:1"}
	tests := map[string]struct {
		args []string
		want string
	}{
		"no namespace":    {[]string{"--agent-image=agent:1"}, "POD_NAMESPACE"},
		"no agent image":  {[]string{"--namespace=zeroinfra"}, "--agent-image"},
		"no domain":       {append(good, "--cluster-domain="), "--cluster-domain"},
		"no workers":      {append(good, "--workers=0"), "--workers"},
		"too many":        {append(good, "--workers=101"), "--workers"},
		"no namespaces":   {append(good, "--watch-namespaces=a,B"), "--watch-namespaces"},
		"no requests":     {append(good, "--kube-api-qps=0"), "--kube-api-qps"},
		"no burst":        {append(good, "--kube-api-burst=0"), "--kube-api-burst"},
		"unknown level":   {append(good, "--log-level=loud"), "--log-level"},
		"a level too far": {append(good, "--log-level=fatal"), "--log-level"},
		"unknown format":  {append(good, "--log-format=xml"), "--log-format"},
		"unknown flag":    {append(good, "--colour"), "--colour"},
		"an argument":     {append(good, "now"), "now"},
		"no such file":    {append(good, "--kubeconfig=/nowhere/at/all"), "/nowhere/at/all"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			command := Command(Options{Domain: "database", Version: "1.2.3"})
			command.SetArgs(test.args)
			err := command.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want something about %s", err, test.want)
			}
		})
	}
}

func TestTheNamespaceComesFromThePod(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "from-pod")
	command := Command(Options{Domain: "database"})
	if got, err := command.Flags().GetString("namespace"); err != nil || got != "from-pod" {
		t.Errorf("namespace is %q, %v", got, err)
	}
}

func TestVersion(t *testing.T) {
	command := Command(Options{Domain: "database", Version: "1.2.3"})
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--version"})
	if err := command.Execute(); err != nil || !strings.Contains(out.String(), "1.2.3") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// Standard output is where collectors of logs look; standard error is for what ends the program before there is a log.
func TestTheLogIsOnStandardOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := os.Stdout
	t.Cleanup(func() { os.Stdout = before })
	os.Stdout = file
	log, err := (&settings{logFormat: "json"}).logger(uberzap.NewAtomicLevel())
	if err != nil {
		t.Fatal(err)
	}
	log.Info("it works", "object", "a")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := map[string]any{}
	if err := json.Unmarshal(data, &line); err != nil || line["msg"] != "it works" || line["object"] != "a" {
		t.Errorf("got %q: %v", data, err)
	}
}

// What all pods get is refused at the start where it cannot work.
func TestSettingsOfPods(t *testing.T) {
	flags := func(args ...string) (*engine.PodSettings, error) {
		var s podSettings
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.bind(set)
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		return s.settings()
	}
	got, err := flags("--pod-image-pull-secrets=a,b", "--pod-labels=sidecar.istio.io/inject=false",
		"--pod-annotations=linkerd.io/inject=disabled",
		"--pod-annotations=note=x y", "--agent-cpu-limit=500m", "--job-cpu-limit=2")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.ImagePullSecrets, []string{"a", "b"}) || got.Labels["sidecar.istio.io/inject"] != "false" ||
		got.Annotations["linkerd.io/inject"] != "disabled" ||
		got.Annotations["note"] != "x y" || got.AgentCPU.String() != "500m" || got.JobCPU.String() != "2" {
		t.Errorf("got %+v", got)
	}
	for arg, says := range map[string]string{
		"--pod-image-pull-secrets=A":                          "--pod-image-pull-secrets takes names of Secrets",
		"--pod-labels=a b=c":                                  "--pod-labels",
		"--pod-labels=a=b c":                                  "--pod-labels",
		"--pod-labels=platform.zeroinfra.github.com/role=any": "the operator sets it itself",
		"--pod-annotations=app.kubernetes.io/name=other":      "the operator sets it itself",
		"--agent-cpu-limit=0":                                 "--agent-cpu-limit takes a quantity above 0",
		"--job-cpu-limit=much":                                "--job-cpu-limit takes a quantity above 0",
	} {
		if _, err := flags(arg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", arg, err, says)
		}
	}
}

// What a ConfigMap says reaches what pods and names are rendered with, and what else goes by it.
func TestSettingsReachTheEngine(t *testing.T) {
	flags := settings{agentImage: "agent:1", clusterDomain: "cluster.local", workers: 1, qps: 1, burst: 1,
		logLevel: "info", gitOpsManagers: []string{"a"}, entityInterval: time.Minute, historyLimit: -1}
	l, err := newLive(flags, uberzap.NewAtomicLevel())
	if err != nil {
		t.Fatal(err)
	}
	if got := l.rendering.Get(); got.AgentImage != "agent:1" || got.ImageRegistry != "" ||
		got.ClusterDomain != "cluster.local" || !slices.Equal(l.rendering.Respected(), []string{"a"}) ||
		l.rendering.EntityInterval() != time.Minute {
		t.Errorf("the flags give %+v, %q and %s", got, l.rendering.Respected(), l.rendering.EntityInterval())
	}
	values, err := flags.tuned()
	if err != nil {
		t.Fatal(err)
	}
	values.ImageRegistry, values.ClusterDomain, values.GitOpsManagers, values.EntityInterval,
		values.HistoryLimit = "mirror.example.com", "corp.example", "one,two", time.Hour, 3
	l.use(values)
	if got := l.rendering.Get(); got.ImageRegistry != "mirror.example.com" || got.ClusterDomain != "corp.example" {
		t.Errorf("it renders with %+v", got)
	}
	if got := l.rendering.Respected(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("it respects %q", got)
	}
	if got := l.rendering.EntityInterval(); got != time.Hour {
		t.Errorf("Entities are looked at each %s", got)
	}
	if got := l.rendering.History(); got.TTL != nil || got.Limit == nil || *got.Limit != 3 {
		t.Errorf("it keeps records for %+v", got)
	}
	values.GitOpsManagers = ""
	if l.use(values); len(l.rendering.Respected()) > 0 {
		t.Errorf("it respects %q, want nobody", l.rendering.Respected())
	}
}
