// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// Rewrite returns a copy of the plan in which each text that may say something about one pod is what the function makes
// of it: arguments of commands, values of variables, the working directory, and the arguments of entries. Names, keys,
// paths of files, the probe's expressions and the arguments of a follower are as before. An error says where the text
// is.
func (p *Plan) Rewrite(text func(string) (string, error)) (*Plan, error) {
	rewritten := *p
	r := rewriter{text: text}
	rewritten.Process = r.process(p.Process)
	rewritten.Files = nil
	for _, file := range p.Files {
		rewritten.Files = append(rewritten.Files, r.file(file))
	}
	if p.TLS != nil {
		rewritten.TLS = &TLS{Reload: r.reload("tls: reload", p.TLS.Reload)}
	}
	rewritten.Actions = nil
	for _, action := range p.Actions {
		rewritten.Actions = append(rewritten.Actions, r.action(action))
	}
	rewritten.Writing = r.writing(p.Writing)
	rewritten.Probe.Command = r.list("probe: command", p.Probe.Command)
	rewritten.Probe.Reserved = r.list("probe: reserved", p.Probe.Reserved)
	rewritten.Probe.Env = r.env("probe", p.Probe.Env)
	if r.err != nil {
		return nil, r.err
	}
	return &rewritten, nil
}

// rewriter keeps the first error.
type rewriter struct {
	text func(string) (string, error)
	err  error
}

func (r *rewriter) process(p Process) Process {
	p.Command = r.list("process: command", p.Command)
	p.Env = r.env("process", p.Env)
	p.Dir = r.one("process: dir", p.Dir)
	p.Reload = r.reload("reload", p.Reload)
	p.Hooks = r.hooks(p.Hooks)
	return p
}

func (r *rewriter) hooks(h *Hooks) *Hooks {
	if h == nil {
		return nil
	}
	return &Hooks{PreStart: r.hook(PreStart, h.PreStart), PostStart: r.hook(PostStart, h.PostStart),
		PreStop: r.hook(PreStop, h.PreStop)}
}

func (r *rewriter) hook(point HookPoint, h *Hook) *Hook {
	if h == nil {
		return nil
	}
	hook, where := *h, "hook "+string(point)
	hook.Command = r.list(where+": command", hook.Command)
	hook.Env = r.env(where, hook.Env)
	return &hook
}

func (r *rewriter) reload(where string, how *Reload) *Reload {
	if how == nil {
		return nil
	}
	reload := *how
	reload.Command = r.list(where+": command", reload.Command)
	reload.Each = r.list(where+": each", reload.Each)
	reload.Env = r.env(where, reload.Env)
	return &reload
}

// action leaves the words that stand for parameters alone: they are filled in at each run.
func (r *rewriter) action(a Action) Action {
	keep := r.text
	inner := rewriter{err: r.err, text: func(text string) (string, error) {
		if _, ok := ParameterOf(text); ok {
			return text, nil
		}
		return keep(text)
	}}
	where := fmt.Sprintf("action %q", a.Name)
	a.Command = inner.list(where+": command", a.Command)
	a.Env = inner.env(where, a.Env)
	if a.Query != nil {
		query := *a.Query
		query.Arguments = inner.list(where+": arguments", query.Arguments)
		a.Query = &query
	}
	r.err = inner.err
	return a
}

func (r *rewriter) writing(w *Writing) *Writing {
	if w == nil {
		return nil
	}
	writing := *w
	writing.PrimaryArgs = r.list("writing: primaryArgs", w.PrimaryArgs)
	for _, action := range []**Action{&writing.Promote, &writing.Follow, &writing.Rejoin, &writing.UpdateMembers} {
		if *action != nil {
			*action = new(r.action(**action))
		}
	}
	return &writing
}

func (r *rewriter) file(f File) File {
	entries := f.Entries
	f.Entries = nil
	for _, entry := range entries {
		entry.Args = r.list(fmt.Sprintf("file %q: setting %q", f.Path, entry.Key), entry.Args)
		f.Entries = append(f.Entries, entry)
	}
	return f
}

func (r *rewriter) env(where string, vars []EnvVar) []EnvVar {
	var rewritten []EnvVar
	for _, v := range vars {
		v.Value = r.one(fmt.Sprintf("%s: variable %q", where, v.Name), v.Value)
		rewritten = append(rewritten, v)
	}
	return rewritten
}

func (r *rewriter) list(where string, texts []string) []string {
	var rewritten []string
	for _, text := range texts {
		rewritten = append(rewritten, r.one(where, text))
	}
	return rewritten
}

func (r *rewriter) one(where, text string) string {
	rewritten, err := r.text(text)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", where, err)
	}
	return rewritten
}
