package mover

import (
	"cmp"
	"slices"

	"relapse/topologies/services/platform/api"
)

// Step is one table that moves.
type Step struct {
	Table    int
	From, To int // databases
}

// Plan gives the fewest steps after which every database has the same number of tables,
// within one. Homes has the database of each table. The same homes give the same plan.
func Plan(homes [api.Tables]int, databases int) []Step {
	has := make([][]int, databases)
	for table, database := range homes {
		has[database] = append(has[database], table)
	}
	// Where the number does not come out even, those that have more keep more.
	order := make([]int, databases)
	for d := range order {
		order[d] = d
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(has[b]), len(has[a])) })
	wants := make([]int, databases)
	for rank, d := range order {
		wants[d] = api.Tables / databases
		if rank < api.Tables%databases {
			wants[d]++
		}
	}
	var surplus []Step
	for d, tables := range has {
		for _, table := range tables[min(wants[d], len(tables)):] {
			surplus = append(surplus, Step{Table: table, From: d})
		}
	}
	next := 0
	for d, tables := range has {
		for range max(0, wants[d]-len(tables)) {
			surplus[next].To = d
			next++
		}
	}
	return surplus
}
