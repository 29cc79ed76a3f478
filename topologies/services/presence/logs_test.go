package presence_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/presence"
)

// action is an entry of the log of actions.
type action struct {
	player, due, number, at int64
	partition               int
	by                      string // without its life
}

func (r *rig) actions() (out []action) {
	r.t.Helper()
	for _, f := range r.log(r.listsClient, presence.ActionsKey) {
		out = append(out, action{
			player: r.number(f["player"]), due: r.number(f["due"]), number: r.number(f["number"]), at: r.number(f["at"]),
			partition: int(r.number(f["partition"])), by: name(f["by"]),
		})
	}
	return out
}

// marks counts the entries of that log.
func (r *rig) marks() int {
	r.t.Helper()
	n, err := r.listsClient.XLen(context.Background(), presence.ActionsKey).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return int(n)
}

// marked gives how often each player was marked.
func (r *rig) marked() map[int64]int {
	r.t.Helper()
	out := map[int64]int{}
	for _, a := range r.actions() {
		out[a.player]++
	}
	return out
}

// each says whether each of the players was marked so often.
func each(marked map[int64]int, players []int64, times int) bool {
	return !slices.ContainsFunc(players, func(p int64) bool { return marked[p] != times })
}

// claim is an entry of the log of claims.
type claim struct {
	partition        int
	number, at       int64
	owner, from, how string // owners without their lives
}

func (r *rig) claimed() (out []claim) {
	r.t.Helper()
	for _, f := range r.log(r.claimsClient, presence.ClaimedKey) {
		out = append(out, claim{
			partition: int(r.number(f["partition"])), number: r.number(f["number"]), at: r.number(f["at"]),
			owner: name(f["owner"]), from: name(f["from"]), how: f["how"],
		})
	}
	return out
}

// moves counts the claims of what another instance had last.
func (r *rig) moves() (n int) {
	r.t.Helper()
	for _, c := range r.claimed() {
		if c.from != "" && c.from != c.owner {
			n++
		}
	}
	return n
}

func (r *rig) log(client *redis.Client, key string) (out []map[string]string) {
	r.t.Helper()
	entries, err := client.XRange(context.Background(), key, "-", "+").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		fields := map[string]string{}
		for name, value := range e.Values {
			fields[name] = fmt.Sprint(value)
		}
		out = append(out, fields)
	}
	return out
}

func (r *rig) number(s string) int64 {
	r.t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// name is an owner's without its life.
func name(owner string) string {
	out, _, _ := strings.Cut(owner, "/")
	return out
}
