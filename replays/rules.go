package replays

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"relapse/replays/samples"
	"relapse/topologies"
)

// ruleFile is the form of a Prometheus rule file, so that a mistake in one is
// told with its place; what the rules mean is for [samples.ParseRules].
type ruleFile struct {
	Groups []struct {
		Name        string            `yaml:"name"`
		Interval    ruleDuration      `yaml:"interval"`
		QueryOffset ruleDuration      `yaml:"query_offset"`
		Limit       int               `yaml:"limit"`
		Labels      map[string]string `yaml:"labels"`
		Rules       []struct {
			Record        string            `yaml:"record"`
			Alert         string            `yaml:"alert"`
			Expr          string            `yaml:"expr"`
			For           ruleDuration      `yaml:"for"`
			KeepFiringFor ruleDuration      `yaml:"keep_firing_for"`
			Labels        map[string]string `yaml:"labels"`
			Annotations   map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// ruleDuration is a duration as Prometheus writes it: 500ms, 1m30s, 2d.
type ruleDuration string

// UnmarshalYAML checks the duration.
func (d *ruleDuration) UnmarshalYAML(node ast.Node) error {
	text := node.GetToken().Value
	if err := samples.CheckDuration(text); err != nil {
		return &placedError{node, fmt.Sprintf("%q is not a duration of a rule file", text), "write whole numbers and units, the largest first: 500ms, 1m30s, 2d"}
	}
	*d = ruleDuration(text)
	return nil
}

// alertRules reads the rule file.
func (s *source) alertRules() (*samples.Rules, error) {
	if err := s.parse("a Prometheus rule file", "groups:"); err != nil {
		return nil, err
	}
	var file ruleFile
	if err := s.decode(&file); err != nil {
		return nil, err
	}
	count := 0
	for _, g := range file.Groups {
		count += len(g.Rules)
	}
	if count == 0 {
		return nil, s.fail("the file holds no rule", ruleHint, "groups")
	}
	rules, err := samples.ParseRules(s.src)
	var bad *samples.RuleError
	switch {
	case errors.As(err, &bad) && bad.Expression != nil:
		return nil, s.queryError(bad.Expression, bad.Rule, "groups", bad.Group, "rules", bad.Index, "expr")
	case errors.As(err, &bad):
		return nil, s.fail(bad.Rule+": "+bad.Problem, ruleHint, "groups", bad.Group, "rules", bad.Index)
	case err != nil:
		return nil, topologies.NewFileError(s.file, s.src, 1, 1, err.Error(), ruleHint)
	}
	return rules, nil
}

const ruleHint = "a rule file holds groups: [{name: …, rules: [{alert: …, expr: …, for: 1s}]}]"
