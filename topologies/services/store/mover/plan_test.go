package mover_test

import (
	"slices"
	"testing"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/mover"
)

// spread gives homes where the databases have so many tables, one after the other.
func spread(counts ...int) (homes [api.Tables]int) {
	table := 0
	for d, n := range counts {
		for range n {
			homes[table] = d
			table++
		}
	}
	return homes
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name  string
		homes [api.Tables]int
		on    int
		moves int
		want  []int // tables of each database
	}{
		{"2 x 32 to 4 x 16", spread(32, 32), 4, 32, []int{16, 16, 16, 16}},
		{"1 x 64 to 2 x 32", spread(64), 2, 32, []int{32, 32}},
		{"2 x 32 to 3", spread(32, 32), 3, 21, []int{22, 21, 21}},
		{"those that have more keep more", spread(21, 21, 22), 3, 0, []int{21, 21, 22}},
		{"even already", spread(16, 16, 16, 16), 4, 0, []int{16, 16, 16, 16}},
		{"broken off", spread(20, 30, 14), 4, 18, []int{16, 16, 16, 16}},
		{"more databases than tables", spread(64), 65, 63, append(slices.Repeat([]int{1}, 64), 0)},
		{"one", spread(64), 1, 0, []int{64}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := mover.Plan(c.homes, c.on)
			if len(plan) != c.moves {
				t.Errorf("have %d moves, want %d", len(plan), c.moves)
			}
			homes, moved := c.homes, map[int]bool{}
			for _, step := range plan {
				if moved[step.Table] || homes[step.Table] != step.From || step.From == step.To {
					t.Errorf("have %+v, with the table on %d", step, homes[step.Table])
				}
				moved[step.Table], homes[step.Table] = true, step.To
			}
			have := make([]int, c.on)
			for _, d := range homes {
				have[d]++
			}
			if !slices.Equal(have, c.want) {
				t.Errorf("have %v, want %v", have, c.want)
			}
			if again := mover.Plan(c.homes, c.on); !slices.Equal(again, plan) {
				t.Errorf("have another plan for the same homes")
			}
		})
	}
}
