// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// access says who may do what with a topic: words by principal, such as {"User:alice":["read"]}. The words read, write
// and describe can be asked for; rules in any other form that somebody made by hand are seen with a word of their own,
// and removed.
//
// Who may read a topic may also use the consumer groups that are named like the user, or begin so and go on with a
// dash: alice and alice-reports for User:alice. These rules come with the first topic that a principal may read, and go
// with the last one.
type access map[string][]string

const (
	wordRead     = "read"
	wordWrite    = "write"
	wordDescribe = "describe"
	// wordReadWithoutGroup is seen where the rules for consumer groups are missing.
	wordReadWithoutGroup = "read-without-group"
)

// operations by word.
var operations = map[string]sarama.AclOperation{wordRead: sarama.AclOperationRead, wordWrite: sarama.AclOperationWrite,
	wordDescribe: sarama.AclOperationDescribe}

// anyHost is the host of rules that are for clients everywhere.
const anyHost = "*"

var accessWords = strings.Join(slices.Sorted(maps.Keys(operations)), ", ")

// accessOf reads a JSON object of lists; an empty text is an empty object.
func accessOf(text string) (access, error) {
	all := access{}
	if text == "" {
		return all, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("parameter %q must be a JSON object of lists, such as {\"User:alice\":[\"read\"]}, and is %q",
			parameterAccess, text)
	}
	for _, principal := range slices.Sorted(maps.Keys(all)) {
		if kind, name, ok := strings.Cut(principal, ":"); !ok || kind == "" || name == "" {
			return nil, fmt.Errorf("parameter %q has the principal %q: it must have a type and a name, such as User:alice",
				parameterAccess, principal)
		}
		for _, word := range all[principal] {
			if _, ok := operations[word]; !ok {
				return nil, fmt.Errorf("parameter %q allows %s to %q: it must be one of %s", parameterAccess, principal, word,
					accessWords)
			}
		}
		if len(all[principal]) == 0 {
			delete(all, principal)
			continue
		}
		slices.Sort(all[principal])
		all[principal] = slices.Compact(all[principal])
	}
	return all, nil
}

// String is empty for no access. Principals and words are in order.
func (a access) String() string {
	if len(a) == 0 {
		return ""
	}
	return encoded(a)
}

// rules are all that the cluster has for topics and consumer groups.
type rules struct {
	topics map[string][]sarama.Acl
	// groups are the rules that let a principal use groups, by resource.
	groups map[sarama.Resource][]sarama.Acl
}

// rulesFor are the rules for all resources of a type.
func (s *session) rulesFor(kind sarama.AclResourceType) ([]*sarama.ResourceAcls, error) {
	s.renew()
	response, err := s.local.DescribeAcls(&sarama.DescribeAclsRequest{Version: 2,
		AclFilter: sarama.AclFilter{Version: 2, ResourceType: kind,
			ResourcePatternTypeFilter: sarama.AclPatternAny, Operation: sarama.AclOperationAny,
			PermissionType: sarama.AclPermissionAny}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the access rules: %w", err)
	case response.Err == sarama.ErrSecurityDisabled:
		s.asks = noAuthorizer
		return nil, nil
	case response.Err != sarama.ErrNoError:
		return nil, fmt.Errorf("cannot read the access rules: %w", said(response.Err, response.ErrMsg))
	}
	s.asks = someAuthorizer
	return response.ResourceAcls, nil
}

// topicAccess reads the rules for topics and groups.
func (s *session) topicAccess() (*rules, error) {
	r := &rules{topics: map[string][]sarama.Acl{}, groups: map[sarama.Resource][]sarama.Acl{}}
	for _, kind := range []sarama.AclResourceType{sarama.AclResourceTopic, sarama.AclResourceGroup} {
		resources, err := s.rulesFor(kind)
		if err != nil {
			return nil, err
		}
		for _, resource := range resources {
			for _, rule := range resource.Acls {
				if kind == sarama.AclResourceGroup {
					r.groups[resource.Resource] = append(r.groups[resource.Resource], *rule)
				} else if resource.ResourcePatternType == sarama.AclPatternLiteral {
					r.topics[resource.ResourceName] = append(r.topics[resource.ResourceName], *rule)
				}
			}
		}
	}
	return r, nil
}

// checkAccess refuses access where nothing would keep anybody out, before a topic is made.
func checkAccess(s *session, changes []driver.Change, _ map[string]*topic, problems driver.Problems) error {
	for _, change := range changes {
		// It has been checked.
		if asked, _ := accessOf(change.Parameters[parameterAccess]); change.Intent == driver.Delete || len(asked) == 0 {
			continue
		}
		has, err := s.authorizer()
		if err != nil {
			return err
		}
		if has == noAuthorizer {
			problems[change.Name] = "access needs an authorizer, and the cluster has none: set authorizer.class.name for it, " +
				"or take access out"
		}
	}
	return nil
}

// authorizer says whether the cluster asks for rules.
type authorizer string

const (
	someAuthorizer authorizer = "some"
	noAuthorizer   authorizer = "none"
)

// authorizer asks once.
func (s *session) authorizer() (authorizer, error) {
	if s.asks == "" {
		if _, err := s.rulesFor(sarama.AclResourceCluster); err != nil {
			return "", err
		}
	}
	return s.asks, nil
}

// of is the access to one topic.
func (r *rules) of(topic string) access {
	all := access{}
	for _, rule := range r.topics[topic] {
		word := wordOf(rule)
		if word == wordRead && !r.hasGroups(rule.Principal) {
			word = wordReadWithoutGroup
		}
		all[rule.Principal] = append(all[rule.Principal], word)
	}
	for _, words := range all {
		slices.Sort(words)
	}
	return all
}

func (r *rules) hasGroups(principal string) bool {
	for _, group := range groupsOf(principal) {
		if !slices.Contains(r.groups[group], allow(principal, sarama.AclOperationRead)) {
			return false
		}
	}
	return true
}

// reads says whether a principal may read another topic than those that are left out, or one of these that has a
// problem and keeps its rules.
func (r *rules) reads(principal string, leftOut map[string]access, problems driver.Problems) bool {
	for topic, all := range r.topics {
		_, out := leftOut[topic]
		if (!out || problems[topic] != "") && slices.Contains(all, allow(principal, sarama.AclOperationRead)) {
			return true
		}
	}
	return false
}

// wordOf a rule. One that cannot be asked for has its operation, and what is special of it.
func wordOf(rule sarama.Acl) string {
	operation := rule.Operation
	word := strings.ToLower(operation.String())
	if rule.PermissionType == sarama.AclPermissionDeny {
		word = "deny-" + word
	}
	if rule.Host != anyHost {
		word += "@" + rule.Host
	}
	return word
}

func allow(principal string, operation sarama.AclOperation) sarama.Acl {
	return sarama.Acl{Principal: principal, Host: anyHost, Operation: operation, PermissionType: sarama.AclPermissionAllow}
}

// groupsOf are the consumer groups of a principal.
func groupsOf(principal string) []sarama.Resource {
	_, name, _ := strings.Cut(principal, ":")
	return []sarama.Resource{
		{ResourceType: sarama.AclResourceGroup, ResourceName: name, ResourcePatternType: sarama.AclPatternLiteral},
		{ResourceType: sarama.AclResourceGroup, ResourceName: name + "-", ResourcePatternType: sarama.AclPatternPrefixed},
	}
}

func resourceOf(topic string) sarama.Resource {
	return sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: topic,
		ResourcePatternType: sarama.AclPatternLiteral}
}

// setAccess has topics have the rules that are asked for, and no others.
func setAccess(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	has, wanted := map[string]access{}, map[string]access{}
	for _, change := range changes {
		if change.Intent == driver.Delete {
			continue
		}
		// It has been checked.
		asked, _ := accessOf(change.Parameters[parameterAccess])
		was := access{}
		if t := before[change.Name]; t != nil {
			was = t.access
		}
		if was.String() != asked.String() {
			has[change.Name], wanted[change.Name] = was, asked
		}
	}
	_, err := s.replaceAccess(has, wanted, problems)
	return err
}

// replaceAccess changes the rules of topics, and those of the groups of whoever reads them, and returns those that
// there were. What is added comes before what is removed, so that nobody is locked out between the two, nor where
// nothing can be added.
func (s *session) replaceAccess(has, wanted map[string]access, problems driver.Problems) (*rules, error) {
	if len(has) == 0 {
		return nil, nil
	}
	r, err := s.topicAccess()
	if err != nil {
		return nil, err
	}
	additions, of := additionsOf(wanted)
	if err := s.addRules(additions, of, problems); err != nil {
		return nil, err
	}
	return r, s.removeRules(r.removals(has, wanted, problems))
}

// removals are the rules of topics that are not wanted, and those of the groups of who reads no topic any more. A topic
// whose new rules were refused keeps what it has.
func (r *rules) removals(has, wanted map[string]access, problems driver.Problems) (removals []*sarama.AclFilter) {
	former := map[string]bool{}
	for _, topic := range slices.Sorted(maps.Keys(has)) {
		if problems[topic] != "" {
			continue
		}
		for _, rule := range r.topics[topic] {
			if word := wordOf(rule); slices.Contains(wanted[topic][rule.Principal], word) {
				continue
			} else if word == wordRead {
				former[rule.Principal] = true
			}
			removals = append(removals, filterOf(resourceOf(topic), rule))
		}
	}
	for principal := range former {
		reads := r.reads(principal, has, problems)
		for _, all := range wanted {
			reads = reads || slices.Contains(all[principal], wordRead)
		}
		for _, group := range groupsOf(principal) {
			if !reads {
				removals = append(removals, filterOf(group, allow(principal, sarama.AclOperationRead)))
			}
		}
	}
	return removals
}

// restoreAccess gives topics that stay, since their deletion was refused, the rules back that they had.
func (s *session) restoreAccess(former *rules, topics []string, problems driver.Problems) error {
	additions, of := former.restorations(topics)
	return s.addRules(additions, of, problems)
}

// restorations are the rules that topics have, with those of groups, and which topic each is for.
func (r *rules) restorations(topics []string) (additions []*sarama.AclCreation, of []string) {
	add := func(topic string, resource sarama.Resource, rule sarama.Acl) {
		additions, of = append(additions, &sarama.AclCreation{Resource: resource, Acl: rule}), append(of, topic)
	}
	slices.Sort(topics)
	for _, topic := range topics {
		for _, rule := range r.topics[topic] {
			add(topic, resourceOf(topic), rule)
			if wordOf(rule) != wordRead {
				continue
			}
			for _, group := range groupsOf(rule.Principal) {
				if read := allow(rule.Principal, sarama.AclOperationRead); slices.Contains(r.groups[group], read) {
					add(topic, group, read)
				}
			}
		}
	}
	return additions, of
}

// additionsOf are the rules that topics are to have, and which topic each is for. Those of groups that several topics
// need are for the first.
func additionsOf(wanted map[string]access) (additions []*sarama.AclCreation, topics []string) {
	readers := map[string]bool{}
	for _, topic := range slices.Sorted(maps.Keys(wanted)) {
		add := func(resource sarama.Resource, rule sarama.Acl) {
			additions, topics = append(additions, &sarama.AclCreation{Resource: resource, Acl: rule}), append(topics, topic)
		}
		for _, principal := range slices.Sorted(maps.Keys(wanted[topic])) {
			for _, word := range wanted[topic][principal] {
				add(resourceOf(topic), allow(principal, operations[word]))
				if word != wordRead || readers[principal] {
					continue
				}
				readers[principal] = true
				for _, group := range groupsOf(principal) {
					add(group, allow(principal, sarama.AclOperationRead))
				}
			}
		}
	}
	return additions, topics
}

// addRules makes rules; each is for a topic.
func (s *session) addRules(additions []*sarama.AclCreation, topics []string, problems driver.Problems) error {
	if len(additions) == 0 {
		return nil
	}
	response, err := s.local.CreateAcls(&sarama.CreateAclsRequest{Version: 2, AclCreations: additions})
	if err != nil {
		return fmt.Errorf("cannot make access rules: %w", err)
	}
	if len(response.AclCreationResponses) != len(additions) {
		return errAnswer
	}
	for i, made := range response.AclCreationResponses {
		if err := note(problems, topics[i], said(made.Err, made.ErrMsg)); err != nil {
			return err
		}
	}
	return nil
}

func filterOf(resource sarama.Resource, rule sarama.Acl) *sarama.AclFilter {
	return &sarama.AclFilter{Version: 2, ResourceType: resource.ResourceType, ResourceName: &resource.ResourceName,
		ResourcePatternTypeFilter: resource.ResourcePatternType, Principal: &rule.Principal, Host: &rule.Host,
		Operation: rule.Operation, PermissionType: rule.PermissionType}
}

func (s *session) removeRules(removals []*sarama.AclFilter) error {
	if len(removals) == 0 {
		return nil
	}
	response, err := s.local.DeleteAcls(&sarama.DeleteAclsRequest{Version: 2, Filters: removals})
	if err != nil {
		return fmt.Errorf("cannot remove access rules: %w", err)
	}
	var errs []error
	for _, removed := range response.FilterResponses {
		if removed.Err != sarama.ErrNoError {
			errs = append(errs, said(removed.Err, removed.ErrMsg))
		}
	}
	return errors.Join(errs...)
}
