// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

type (
	privilege string
	mode      string
)

// account is what an API may declare: one field for each rule of EntityOf.
type account struct {
	Name           string                         `json:"name"`
	PasswordFrom   *platformv1.SecretKeyReference `json:"passwordFrom,omitempty"`
	Login          *bool                          `json:"login,omitempty"`
	RequireTLS     bool                           `json:"requireTLS,omitempty"`
	MaxConnections int32                          `json:"maxConnections,omitempty"`
	Limit          *int32                         `json:"limit,omitempty"`
	Quota          *resource.Quantity             `json:"quota,omitempty"`
	Room           platformv1.ByteSize            `json:"room,omitempty"`
	ValidUntil     *metav1.Time                   `json:"validUntil,omitempty"`
	Comment        string                         `json:"comment,omitempty" parameter:"remark"`
	Mode           mode                           `json:"mode,omitempty"`
	Document       platformv1.JSONDocument        `json:"document,omitempty"`
	Privileges     []privilege                    `json:"privileges,omitempty"`
	Secret         string                         `json:"secret,omitempty" parameter:"-"`
	Grants         []accountGrant                 `json:"grants,omitempty"`
	Beside         []accountGrant                 `json:"beside,omitempty" parameter:"-"`
	Home           *accountHome                   `json:"home,omitempty"`
	Labels         map[string]string              `json:"labels,omitempty"`
	Adopt          bool                           `json:"adopt,omitempty"`
}

type accountGrant struct {
	Table string `json:"table"`
	Mode  mode   `json:"mode,omitempty"`
}

type accountHome struct {
	Name  string `json:"name"`
	Mode  mode   `json:"mode,omitempty"`
	Depth *int32 `json:"depth,omitempty"`
}

func TestEntityOf(t *testing.T) {
	from := &platformv1.SecretKeyReference{Name: "s"}
	for name, c := range map[string]struct {
		declared account
		want     platformv1.EntitySpec
	}{
		"nothing said": {account{Name: "a"}, platformv1.EntitySpec{
			Name: "a", Parameters: platformv1.Parameters{
				"login": "yes", "require-tls": "no", "max-connections": "0", "valid-until": "", "remark": "", "mode": "",
				"document": "", "privileges": "", "grants": "", "home-name": "", "home-mode": "",
			},
		}},
		"all said": {account{
			Name: "b", PasswordFrom: from, Login: new(false), RequireTLS: true, MaxConnections: 5, Limit: new(int32(-1)),
			Quota: new(resource.MustParse("1Ki")), Room: "2Ki",
			ValidUntil: new(metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))),
			Comment:    "Hi", Mode: "ReadWrite", Document: "{\n  \"b\": \"<&>\"\n}", Privileges: []privilege{"b", "A", "a"},
			Secret: "x", Grants: []accountGrant{{"b", ""}, {"<a>", "Read"}}, Beside: []accountGrant{{"c", ""}},
			Home: &accountHome{"/", "Own", new(int32(2))}, Labels: map[string]string{"a": "b"}, Adopt: true,
		}, platformv1.EntitySpec{
			Name: "b", Adopt: true, PasswordFrom: &platformv1.SecretKeyReference{Name: "s", Key: "password"},
			Parameters: platformv1.Parameters{
				"login": "no", "require-tls": "yes", "max-connections": "5", "limit": "-1", "quota": "1024", "room": "2048",
				"valid-until": "2030-01-02T03:04:05Z", "remark": "Hi", "mode": "readwrite", "document": `{"b":"<&>"}`,
				"privileges": "A a b", "grants": `[{"table":"<a>","mode":"Read"},{"table":"b"}]`,
				"home-name": "/", "home-mode": "own", "home-depth": "2",
			},
		}},
	} {
		c.want.Type, c.want.DeletionPolicy = "user", platformv1.EntityDelete
		if got := EntityOf("user", &c.declared); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestEntitiesOfAListAreInItsOrder(t *testing.T) {
	if got := EntitiesOf[account]("user", nil); got != nil {
		t.Errorf("of none: got %v", got)
	}
	declared := []account{{Name: "b"}, {Name: "a", Adopt: true}}
	want := []platformv1.EntitySpec{EntityOf("user", &declared[0]), EntityOf("user", &declared[1])}
	if got := EntitiesOf("user", declared); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParametersOfLeavesWhatIsEmptyToThePlugin(t *testing.T) {
	got := ParametersOf(&account{Name: "a", Comment: "Hi"})
	if want := (platformv1.Parameters{"login": "yes", "require-tls": "no", "max-connections": "0",
		"remark": "Hi"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The plugin refuses a document that is no JSON; until then it is a parameter, which has no line breaks.
func TestADocumentThatIsNoJSONStaysAsItIs(t *testing.T) {
	got := EntityOf("policy", &account{Document: "{\r\n ]"}).Parameters["document"]
	if got != "{   ]" {
		t.Errorf("got %q", got)
	}
}

func TestWhatMayHoldDataIsRetained(t *testing.T) {
	type bucket struct {
		DeletionPolicy platformv1.EntityDeletionPolicy `json:"deletionPolicy,omitempty"`
	}
	for declared, want := range map[bucket]platformv1.EntityDeletionPolicy{
		{}:                        platformv1.EntityRetain,
		{platformv1.EntityDelete}: platformv1.EntityDelete,
	} {
		if got := EntityOf("bucket", &declared).DeletionPolicy; got != want {
			t.Errorf("%+v: got %s, want %s", declared, got, want)
		}
	}
}

func TestEmptyParametersAreLeftToThePlugin(t *testing.T) {
	entity := WithoutEmpty(platformv1.EntitySpec{Parameters: platformv1.Parameters{"owner": "", "locale": "C"}})
	if want := (platformv1.Parameters{"locale": "C"}); !reflect.DeepEqual(entity.Parameters, want) {
		t.Errorf("got %v, want %v", entity.Parameters, want)
	}
}

func TestFillStatus(t *testing.T) {
	type state struct {
		Bucket       string `json:"bucket"`
		Online       bool   `json:"online"`
		QueuedBytes  int64  `json:"queuedBytes"`
		Partitions   int32  `json:"partitions"`
		Replicas     string `json:"replicas" parameter:"replication-factor"`
		DriftRepairs int64  `json:"driftRepairs"`
	}
	got := state{Bucket: "a", Partitions: 7, DriftRepairs: 3}
	FillStatus(&got, map[string]string{
		"online": "yes", "queued-bytes": "5000000000", "partitions": "4294967296", "replication-factor": "3", "other": "x",
	})
	if want := (state{Bucket: "a", Online: true, QueuedBytes: 5000000000, Replicas: "3", DriftRepairs: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestJSONIsOnOneLineAndNotForHTML(t *testing.T) {
	if got := JSON(json.RawMessage("{\n  \"b\": \"<&>\"\n}")); got != `{"b":"<&>"}` {
		t.Errorf("got %s", got)
	}
	if got := JSON(map[string][]string{"b": {"x"}, "a": nil}); got != `{"a":null,"b":["x"]}` {
		t.Errorf("got %s", got)
	}
}

func TestAParameterThatIsTooLongIsNamed(t *testing.T) {
	entity := &platformv1.EntitySpec{Type: "bucket", Name: "a", Parameters: platformv1.Parameters{
		"lifecycle": platformv1.ParameterValue(strings.Repeat("ü", maxParameter)),
	}}
	if err := checkLengths(entity); err != nil {
		t.Errorf("the longest that is allowed: %v", err)
	}
	entity.Parameters["lifecycle"] += "x"
	err := checkLengths(entity)
	if err == nil || !strings.Contains(err.Error(), `lifecycle of bucket "a" takes 4097 characters`) {
		t.Errorf("got %v", err)
	}
}
