package api

import (
	"fmt"
	"strconv"
)

// SeenKey is the Redis key of the sorted set that has when the players of a partition
// were heard of last: the member is a player's number as [Player.String] gives it, the
// score the time in milliseconds on Redis' own clock.
func SeenKey(partition int) string { return "seen:" + strconv.Itoa(partition) }

// String gives the player's number as addresses and keys have it.
func (p Player) String() string { return strconv.FormatInt(int64(p), 10) }

// ParsePlayer reads what [Player.String] gives.
func ParsePlayer(s string) (Player, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("player %q: want a number from 0", s)
	}
	return Player(n), nil
}
