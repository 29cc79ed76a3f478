package main

// The services of our own that the binary can run inside a container, one line
// each: importing a package registers its service.
import (
	_ "relapse/topologies/services/account"
	_ "relapse/topologies/services/echo"
	_ "relapse/topologies/services/edge"
	_ "relapse/topologies/services/fleet"
	_ "relapse/topologies/services/front"
	_ "relapse/topologies/services/gamehosts"
	_ "relapse/topologies/services/games"
	_ "relapse/topologies/services/gameserver"
	_ "relapse/topologies/services/host"
	_ "relapse/topologies/services/limiter"
	_ "relapse/topologies/services/mms"
	_ "relapse/topologies/services/platform"
	_ "relapse/topologies/services/players"
	_ "relapse/topologies/services/presence"
	_ "relapse/topologies/services/presence/audit"
	_ "relapse/topologies/services/rebalancer"
	_ "relapse/topologies/services/simulants"
	_ "relapse/topologies/services/store"
	_ "relapse/topologies/services/store/audit"
	_ "relapse/topologies/services/store/mover"
	_ "relapse/topologies/services/tournament"
	_ "relapse/topologies/services/tournament/audit"
)
