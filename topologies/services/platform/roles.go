package platform

import (
	"context"
	"slices"
)

// The roles, and the other service that they ask.
const (
	Session      = "session"
	Origin       = "config" // of the settings that session gives to players
	Party        = "party"
	Queue        = "queue"
	Agents       = "agents"
	Provisioning = "provisioning"
	Games        = "games"
	Results      = "results"

	Store = "store"
)

// role is one of the platform's services.
type role interface {
	routes() []route
	// run does what is not asked for by a request, until the context ends.
	run(ctx context.Context) error
}

// kind is what is known of a role before it is made.
type kind struct {
	name  string
	peers []string // whom it asks
	make  func(*Platform) (role, error)
}

// kinds are all roles.
var kinds = []kind{
	{Session, []string{Origin}, newSession},
	{Origin, nil, newOrigin},
	{Party, nil, newParty},
	{Queue, []string{Agents}, newQueue},
	{Agents, []string{Provisioning, Games}, newAgents},
	{Provisioning, nil, newProvisioning},
	{Games, []string{Results, Provisioning, Agents}, newGames},
	{Results, []string{Store}, newResults},
}

// Roles lists all roles.
func Roles() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Peers lists whom some roles ask.
func Peers(roles []string) []string {
	var names []string
	for _, k := range kinds {
		if slices.Contains(roles, k.name) {
			names = append(names, k.peers...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
