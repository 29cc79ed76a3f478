package replays

import (
	"math/bits"
	"slices"
	"strings"
)

// combinations gives every set of causes to take away: none, then one, then two
// together and so on, each in the order of the list. None is the documented
// incident, with all causes in it.
func combinations(of []string) [][]string {
	if len(of) == 0 {
		return nil
	}
	var out [][]string
	for size := range len(of) + 1 {
		for set := range 1 << len(of) {
			if bits.OnesCount(uint(set)) != size {
				continue
			}
			off := []string{}
			for n, cause := range of {
				if set&(1<<n) != 0 {
					off = append(off, cause)
				}
			}
			out = append(out, off)
		}
	}
	return out
}

// armWithout names the arm without some causes.
func armWithout(off []string) string {
	if len(off) == 0 {
		return "unfixed"
	}
	return "without-" + strings.Join(off, "-and-")
}

// combination says which of the combined causes are there once some are taken
// away; nil where those are not among the combined ones.
func (i *Incident) combination(off []string) *PlannedCombination {
	on := []string{}
	for _, cause := range i.Combine {
		if !slices.Contains(off, cause) {
			on = append(on, cause)
		}
	}
	if len(i.Combine) == 0 || len(on)+len(off) != len(i.Combine) {
		return nil
	}
	return &PlannedCombination{On: on, Of: i.Combine}
}

// combinationArm is the incident with several causes taken away. What one of
// them restores or cures stays so without the others, and only what all of them
// leave is left.
func (i *Incident) combinationArm(off []string) armSpec {
	a := armSpec{role: RoleCause, combines: i.combination(off)}
	var all Promise
	var says []string
	for n, name := range off {
		c, _ := i.Causes.Get(name)
		a.changes = append(a.changes, c.Without)
		says = append(says, c.Says)
		p := i.causePromise(c)
		all.Restores = union(all.Restores, p.Restores)
		all.Cures = union(all.Cures, p.Cures)
		if n == 0 {
			all.Leaves = p.Leaves
		}
		all.Leaves = slices.DeleteFunc(slices.Clone(all.Leaves), func(id string) bool { return !slices.Contains(p.Leaves, id) })
	}
	a.says = "Without all of these: " + strings.Join(says, "; ")
	a.expected, a.expects = all.expected(), i.promised(all)
	return a
}

// causePromise is what one of the causes combined promises, in lists: its own, or
// what causeArm makes of a necessary cause that says nothing.
func (i *Incident) causePromise(c Cause) Promise {
	if c.Promise.empty() {
		return Promise{Restores: checkIDs(i.Objectives), Cures: checkIDs(i.Symptoms)}
	}
	return c.Promise
}

func union(a, b Names) Names {
	out := slices.Clone(a)
	for _, id := range b {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// needed says whether a cause, taken away, is said to prevent the outage. The
// claim of combine is that each of its causes is.
func (c Cause) needed(objectives []string) bool {
	if c.Promise.empty() {
		return c.Necessary
	}
	return !slices.ContainsFunc(slices.Concat(c.Leaves, c.Breaks), func(id string) bool { return slices.Contains(objectives, id) })
}
