package platform

import (
	"fmt"
	"slices"

	"relapse/topologies/services/platform/api"
)

// match is one match. The lock of agents is its own, but for what never changes.
type match struct {
	asked  api.MatchRequest
	agents []string // of the players, in their order; empty for none
	state  string
	server api.Server
}

// team gives the agents of a player's team. The first team is the larger one.
func (m *match) team(at int) []string {
	first := firstTeam(len(m.agents))
	if at < first {
		return m.agents[:first]
	}
	return m.agents[first:]
}

// firstTeam is how many of the players of a match, from the first one, are a team.
func firstTeam(players int) int { return (players + 1) / 2 }

// taken says whether somebody else of a player's team has an agent. The lock is held.
func (m *match) taken(at int, agent string) bool { return slices.Contains(m.team(at), agent) }

// free is an agent that nobody of a player's team has. The lock is held.
func (m *match) free(at int) string {
	for _, agent := range api.Agents {
		if !m.taken(at, agent) {
			return agent
		}
	}
	// A team of more players than there are agents is no team of the documented game.
	return fmt.Sprintf("agent-%02d", len(api.Agents)+1+at)
}
