package presence

import "strconv"

// Keys of the lists. The heartbeats of players who are online are in the sorted sets
// of [api.SeenKey]: sessions write them, and a player who is marked offline is taken
// out.
const (
	// FencesKey is a hash, of a partition's number to "NUMBER OWNER": the highest
	// claim number that was shown, and by whom.
	FencesKey = "presence:fences"
	// TopKey is the highest claim number that was shown for any partition.
	TopKey = "presence:top"
	// LivesKey counts the instances that were ever started.
	LivesKey = "presence:lives"
	// ActionsKey is the log of actions, a stream. Fields: player, partition; due
	// (the tick, a multiple of the tick's length since the epoch); by (the owner),
	// number (of its claim; 0 without partitions); seen (the heartbeat that it went
	// by) and at, both in ms on the lists' clock.
	ActionsKey = "actions"
)

// Keys of the claims.
const (
	// ClaimsKey is a hash, of a partition's number to "NUMBER TILL OWNER": the
	// number of the claim and the end of its lease in ms on the claims' clock.
	ClaimsKey = "presence:claims"
	// InstancesKey is a sorted set of the instances that are there, by the end of
	// their leases in ms.
	InstancesKey = "presence:instances"
	// JoinedKey is a hash, of an instance to when it was first seen, in ms.
	JoinedKey = "presence:joined"
	// NumberKey is the highest number that was given to a claim.
	NumberKey = "presence:number"
	// ClaimedKey is the log of claims, a stream. Fields: partition, number, owner;
	// from (the owner before, or nothing), how (free, stolen, anew or left), at
	// (ms). What was left has no field from.
	ClaimedKey = "presence:claimed"
)

// MarksKey is the hash of a partition's players who were ever marked offline: a
// player's number to the tick for which it was last marked.
func MarksKey(partition int) string { return "offline:" + strconv.Itoa(partition) }
