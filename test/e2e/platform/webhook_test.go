// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// atOnce is when a test gives up on an answer of kubectl. It takes a fraction of a second on a machine that does
// nothing else.
const atOnce = 30 * time.Second

// manifest is a Redis with one parameter, as a person writes it.
func manifest(name, parameter, value string) string {
	return fmt.Sprintf(`apiVersion: database.zeroinfra.github.com/v1
kind: Redis
metadata:
  name: %s
spec:
  version: "7.0"
  parameters:
    %s: %q
`, name, parameter, value)
}

// kubectlApply applies a manifest with kubectl and returns what that says, and after how long.
func kubectlApply(s *framework.Namespace, text string) (string, time.Duration, error) {
	s.Helper()
	command := exec.CommandContext(s.Ctx, "kubectl", "--kubeconfig", framework.Config.Kubeconfig, "--namespace", s.Name,
		"apply", "-f", "-")
	command.Stdin = strings.NewReader(text)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	start := time.Now()
	err := command.Run()
	return out.String(), time.Since(start), err
}

// TestWebhook proves that kubectl apply says at once what is wrong with a Redis, and that without the operator it is
// stored and judged when the operator is back.
func TestWebhook(t *testing.T) {
	s := framework.NewNamespace(t, "webhook")
	bad := manifest("db", "maxclient", "100")
	var out string
	var took time.Duration
	var err error
	s.Eventually(framework.SettleTimeout, "the API server asks the operator", func() error {
		out, took, err = kubectlApply(s, bad)
		if err == nil {
			// Nobody was asked. What is stored would not be sent again.
			s.Delete(&databasev1.Redis{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "db"}})
			s.Eventually(framework.SettleTimeout, "what was taken is gone",
				func() error { return framework.ErrUnlessNotFound(s.Get("db", &databasev1.Redis{})) })
		}
		return wantSaid(out, took, err)
	})
	t.Logf("kubectl says after %s: %s", framework.FormatSeconds(took), out)
	if err := framework.ErrUnlessNotFound(s.Get("db", &databasev1.Redis{})); err != nil {
		t.Errorf("it was stored: %v", err)
	}
	logLatency(s, "with the webhook")

	s.StopOperator()
	out, took, err = kubectlApply(s, bad)
	t.Logf("without the operator kubectl says after %s: %s", framework.FormatSeconds(took), out)
	if err != nil || took > atOnce {
		t.Errorf("it is not stored while the operator is away, or only after %s: %v", framework.FormatSeconds(took), err)
	}
	logLatency(s, "without the operator")

	if err := framework.Install(s.Ctx, framework.OperatorName); err != nil {
		t.Fatal(err)
	}
	i := &framework.Instance{Namespace: s, Name: "db"}
	i.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonInvalidParameters,
		Texts: []string{"maxclient", "maxclients"}})
	// The operator works before the API server reaches it for sure, and what is stored already is not sent again.
	policies := []string{"allkeys-lru", "allkeys-lfu"}
	tries := 0
	s.Eventually(framework.SettleTimeout, "another field of it can be edited, with a warning", func() error {
		policy := policies[tries%len(policies)]
		tries++
		out, _, err := kubectlApply(s, strings.Replace(bad, "version: \"7.0\"", "version: \"7.0\"\n  maxmemoryPolicy: "+
			policy, 1))
		if err != nil || !strings.Contains(out, "Warning: it is still refused") {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
	if out, _, err = kubectlApply(s, manifest("db", "maxclients", "100")); err != nil {
		t.Fatalf("it cannot be mended: %v: %s", err, out)
	}
	t.Logf("mended and ready after %s", framework.FormatSeconds(i.WaitReady()))
}

// wantSaid returns an error unless kubectl was told at once what is wrong.
func wantSaid(out string, took time.Duration, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("it was taken: %s", out)
	case took > atOnce:
		return fmt.Errorf("it took %s", framework.FormatSeconds(took))
	case !strings.Contains(out, `parameter "maxclient"`) || !strings.Contains(out, "maxclients"):
		return fmt.Errorf("it does not say what is wrong: %s", out)
	}
	return nil
}

// logLatency logs how long it takes to have a good Redis judged.
func logLatency(s *framework.Namespace, when string) {
	s.Helper()
	const rounds = 40
	var took []time.Duration
	for range rounds {
		start := time.Now()
		object := framework.NewRedis("measured", parameter("maxclients", "100"))
		object.Namespace = s.Name
		if err := framework.Cluster.Client.Create(s.Ctx, object, client.DryRunAll); err != nil {
			s.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	s.Logf("create %s: median %.1f ms, 95th percentile %.1f ms", when, ms(took[rounds/2]), ms(took[rounds*95/100]))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
