// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// declaredEntities is redis with topics that actions keep, beside the users that its driver keeps, and what is changed
// of that.
func declaredEntities(t *testing.T, old, new string) ([]LoadError, *Bundle) {
	t.Helper()
	sources := redisSources(t)
	text := strings.NewReplacer(
		"    parameters: redis\n    cred", `    actions:
      - {name: list, command: [a]}
      - name: set
        command: [a, "${parameters.name}"]
        env: [{name: P, value: "${parameters.partitions}"}, {name: W, value: "${parameters.password}"}]
        parameters: {name: string, partitions: string, password: string}
      - {name: drop, command: [a, "${parameters.name}"], parameters: {name: string}}
    parameters: redis
    cred`,
		"entities:\n", `entities:
  - type: topic
    component: redis
    role: replica
    names: '=~"^[a-z]+$" @allowed("small letters")'
    actions: {list: list, create: set, update: set, delete: drop}
    parameters: topic
    password: Optional
`).Replace(sources[PartComponents].Data[components])
	sources[PartParams].Data["topic.yaml"] = "defaults: {partitions: \"1\"}\n"
	sources[PartParams].Data["topic.cue"] = "#Parameters: {\n\tpartitions?: int & >=1 & <=100\n}\n"
	found := strings.Contains(text, old)
	text = strings.Replace(text, old, new, 1)
	for key, value := range sources[PartParams].Data {
		if strings.HasPrefix(key, "topic") && strings.Contains(value, old) {
			found = true
			sources[PartParams].Data[key] = strings.Replace(value, old, new, 1)
		}
	}
	if !found {
		t.Fatalf("there is no %q", old)
	}
	sources[PartComponents].Data[components] = text
	bundle, errs := Load(sources)
	return errs, bundle
}

func TestEntities(t *testing.T) {
	errs, b := declaredEntities(t, "", "")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got := strings.Join(b.EntityTypes(), " "); got != "acl-user topic" {
		t.Errorf("the types are %s", got)
	}
	user, roles, _ := b.Entity("acl-user")
	if strings.Join(roles, " ") != "primary" {
		t.Errorf("users are asked for at %v", roles)
	}
	topic, roles, _ := b.Entity("topic")
	if strings.Join(roles, " ") != "replica" {
		t.Errorf("topics are asked for at %v", roles)
	}
	app := placeholder.App{Name: "a", Namespace: "n", Version: "7.0"}
	for _, tc := range []struct {
		entity *schema.Entity
		user   platformv1.Parameters
		says   string
	}{
		{topic, nil, "map[partitions:1]"},
		{topic, platformv1.Parameters{"partitions": "7"}, "map[partitions:7]"},
		{topic, platformv1.Parameters{"partitions": "700"},
			`parameter "partitions" has value "700": it must be a whole number from 1 to 100`},
		{topic, platformv1.Parameters{"partition": "7"}, `did you mean "partitions"?`},
		{user, platformv1.Parameters{"commands": "+@read -keys +client|list"},
			"map[commands:+@read -keys +client|list enabled:yes]"},
		{user, platformv1.Parameters{"keys": "~a %R~b"}, "map[enabled:yes keys:~a %R~b]"},
		{user, platformv1.Parameters{"keys": "allkeys"}, `parameter "keys" has value "allkeys": it must be patterns`},
		{user, platformv1.Parameters{"commands": "+@all (~x)"}, `parameter "commands" has value`},
	} {
		parameters, errs := b.EntityParameters(tc.entity, app, tc.user)
		if got := says(parameters, errs); !strings.Contains(got, tc.says) {
			t.Errorf("%s %v: got %s, want %s", tc.entity.Type, tc.user, got, tc.says)
		}
	}
	if err := user.CheckEntityName("default"); err == nil ||
		!strings.Contains(err.Error(), `is "default": it must be 1 to 63 letters`) {
		t.Errorf("the instance's own user: %v", err)
	}
	p, err := b.RenderPlan("redis", sampleValues(&b.Components.Components[0], "standalone", "7.0", 0))
	if err != nil || len(p.Entities) != 2 || p.Driver == nil || p.Driver.Username != "default" || p.Driver.TLS {
		t.Errorf("the plan has %+v and %+v, %v", p.Driver, p.Entities, err)
	}
}

func TestBrokenEntities(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, says string }{
		"twice": {"type: acl-user", "type: topic", "names must differ"},
		"component": {"type: topic\n    component: redis", "type: topic\n    component: redi",
			`names the component "redi"`},
		"role": {"role: replica", "role: boss", `names the role "boss"`},
		"role of each": {"role: replica", "role: replica\n    pods: Each",
			"is of the pod that is asked, and each of them is"},
		"pods":                {"role: replica", "pods: Some", "pods"},
		"no names":            {`    names: '=~"^[a-z]+$" @allowed("small letters")'` + "\n", "", "names is missing"},
		"names that are none": {`names: '=~"^[a-z]+$" @allowed("small letters")'`, `names: '=~'`, "is no CUE constraint"},
		"nobody keeps it": {"    actions: {list: list, create: set, update: set, delete: drop}\n", "",
			"must have either a driver or actions"},
		"two keep it": {"    actions: {list: list", "    driver: acl-user\n    actions: {list: list",
			"must have either a driver or actions"},
		"no list": {"list: list, ", "", "list is missing"},
		"action": {"list: list", "list: lift",
			`names the action of component "redis" "lift", which is not there: there is drop, list, set`},
		"action takes more": {"delete: drop", "delete: set",
			`names the action "set", which takes "partitions": nothing gives it that`},
		"action takes less": {"update: set", "update: drop",
			`names the action "drop", which does not take "partitions": it would come to nothing`},
		"password of none": {"    password: Optional\n", "", `which takes "password": nothing gives it that`},
		"password for all": {"command: [a, \"${parameters.name}\"]\n        env",
			"command: [a, \"${parameters.name}\", \"${parameters.password}\"]\n        env",
			"has the password on its command line"},
		"password":        {"password: Optional", "password: Maybe", "password"},
		"parameters":      {"parameters: topic", "parameters: topics", `names the parameter set "topics"`},
		"component's set": {"parameters: topic", "parameters: redis", "which a component has"},
		"parameter name": {"\tpartitions?:", "\tname?: string\n\tpartitions?:",
			`which has "name": every entity has a field for that`},
		"dynamic": {"defaults: {partitions: \"1\"}\n", "dynamic: [partitions]\n", "dynamic is for a component"},
		"resetValues": {"defaults: {partitions: \"1\"}\n", "resetValues: {partitions: \"1\"}\n",
			"resetValues is for a component"},
		"lists":   {"defaults: {partitions: \"1\"}\n", "lists: [partitions]\n", "lists is for a component"},
		"default": {"\"1\"", "\"101\"", "the plugin's default is not allowed"},
		"kind of driver": {"    driver: acl-user\n", "    driver: stream\n",
			`names the kind of the driver for redis "stream", which is not there: there is acl-user`},
		"no driver": {"    driver:\n      protocol: redis\n      address: 127.0.0.1:6379\n      tls: true\n     " +
			" credential: default\n      entitiesFile: /zeroinfra/config/users/entities.conf\n", "",
			"needs a driver of component \"redis\""},
		"protocol":             {"protocol: redis", "protocol: memcached", "protocol"},
		"address of elsewhere": {"address: 127.0.0.1:6379", "address: 10.0.0.1:6379", "an address within the pod"},
		"credential of driver": {"      credential: default\n      entitiesFile",
			"      credential: root\n      entitiesFile", `names the credential of the component "root"`},
		"file of the driver": {"entitiesFile: /zeroinfra/config/users/entities.conf", "entitiesFile: /data/users.conf",
			"a folder of its own below /zeroinfra/config"},
		"driver of nothing": {"  - type: acl-user\n    component: redis\n    driver: acl-user\n",
			"  - type: acl-user\n    component: redis\n    actions: {list: list, create: drop, delete: drop}\n",
			"is used by no entity, action or metric"},
		"driver's parameters": {"    parameters: acl-user\n", "    parameters: topic\n", `have "partitions", which the ` +
			`driver for redis does not take for "acl-user": it takes enabled, keys, channels, commands`},
	} {
		errs, _ := declaredEntities(t, tc.old, tc.new)
		if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Message, tc.says) && e.Line > 0 }) {
			t.Errorf("%s: got %v; want %q", name, errs, tc.says)
		}
	}
}

func says(parameters map[string]string, errs []error) string {
	if len(errs) > 0 {
		return errs[0].Error()
	}
	return fmt.Sprint(parameters)
}
