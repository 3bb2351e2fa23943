// SPDX-License-Identifier: Apache-2.0

package plan

import "regexp"

// DefaultActionSeconds is how long an action may run that does not say.
const DefaultActionSeconds = 30

// ExitDataBad is the exit code by which an action, or a Job, says that it has found the data itself to be bad
// (report.ReasonDataBad). Any other one but 0 says no more than that it did not get to its end.
const ExitDataBad = 65

// Action is a command that the ops agent runs when an operator asks for it, beside the middleware and in its image.
//
// The expressions are CEL over those variables that a probe has, and json: standard output read as JSON, or null when
// it is none.
type Action struct {
	// Name within the component, for example move-leader.
	Name string `json:"name"`
	// Description in one line.
	Description string `json:"description,omitempty"`
	// Command and arguments; never through a shell. A word that is just ${parameters.NAME} is that parameter, whose value
	// then must not begin with a dash. Either it or Query is there.
	Command []string `json:"command,omitempty"`
	// Query is a statement that the driver runs in place of a command.
	Query *Query `json:"query,omitempty"`
	// Env is added to the container's environment. A value may be just ${parameters.NAME}, too.
	Env []EnvVar `json:"env,omitempty"`
	// Parameters by name: the CUE constraint that the engine checks a value with before it calls. Each must be given.
	Parameters map[string]string `json:"parameters,omitempty"`
	// TimeoutSeconds until it is killed with all of its process group. Default 30.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// Success is a boolean expression. Default "exitCode == 0".
	Success string `json:"success,omitempty"`
	// Outputs are string expressions by name, evaluated when it succeeded.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// Query is a statement in the words of the middleware's protocol. Its result takes the place of what a command writes
// to standard output: a JSON list with an object for each row, with the values as texts, or null, by column. What the
// middleware says when it refuses is on standard error, and the exit code is 1 then.
type Query struct {
	// Statement is one; it is fixed text.
	Statement string `json:"statement"`
	// Arguments of the statement, in order. One that is just ${parameters.NAME} is that parameter.
	Arguments []string `json:"arguments,omitempty"`
	// Database that it is for; the middleware's own when empty.
	Database string `json:"database,omitempty"`
}

var parameterForm = regexp.MustCompile(`^\$\{parameters\.([a-z][A-Za-z0-9]*)\}$`)

// ParameterOf returns the parameter that a word of an action stands for as a whole.
func ParameterOf(word string) (name string, ok bool) {
	match := parameterForm.FindStringSubmatch(word)
	if match == nil {
		return "", false
	}
	return match[1], true
}

// Fill returns the action with the parameters in their places. Values are not checked.
func (a *Action) Fill(parameters map[string]string) *Action {
	value := func(text string) string {
		if name, ok := ParameterOf(text); ok {
			return parameters[name]
		}
		return text
	}
	all := func(words []string) []string {
		var filled []string
		for _, word := range words {
			filled = append(filled, value(word))
		}
		return filled
	}
	filled := *a
	filled.Command, filled.Env = all(a.Command), nil
	for _, v := range a.Env {
		v.Value = value(v.Value)
		filled.Env = append(filled.Env, v)
	}
	if a.Query != nil {
		query := *a.Query
		query.Arguments = all(query.Arguments)
		filled.Query = &query
	}
	return &filled
}

// Action returns the action with the name.
func (p *Plan) Action(name string) (*Action, bool) {
	for i := range p.Actions {
		if p.Actions[i].Name == name {
			return &p.Actions[i], true
		}
	}
	return nil, false
}
