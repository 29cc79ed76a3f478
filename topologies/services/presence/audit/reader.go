package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence"
	"relapse/topologies/services/presence/history"
)

// reader reads the history where it has left off.
type reader struct {
	lists, claims *redis.Client
	acted         string // the last entry of the log of actions that was read
	claimed       string // and of that of claims
	run           string // of the claims' server
}

func newReader(lists, claims *redis.Client) reader {
	return reader{lists: lists, claims: claims, acted: "0-0", claimed: "0-0"}
}

// reading is what was read at once.
type reading struct {
	events                    []history.Event
	players, instances, marks int
}

// read reads on. What it has read is taken for read only if all of it was.
func (r *reader) read(ctx context.Context) (reading, error) {
	lists, err := r.readLists(ctx)
	if err != nil {
		return reading{}, fmt.Errorf("read the lists: %w", err)
	}
	claims, err := r.readClaims(ctx)
	if err != nil {
		return reading{}, fmt.Errorf("read the claims: %w", err)
	}
	var out reading
	if r.run != "" && r.run != claims.run {
		out.events = append(out.events, history.Lost{})
	}
	for _, e := range claims.claimed {
		out.events = append(out.events, e)
	}
	for _, e := range lists.acted {
		out.events = append(out.events, e)
	}
	out.events = append(out.events, lists.heard, claims.held)
	out.players, out.instances, out.marks = len(lists.heard.Beats), len(claims.held.Instances), len(lists.acted)
	r.acted, r.claimed, r.run = lists.last, claims.last, claims.run
	return out, nil
}

// fromLists is what the lists hold.
type fromLists struct {
	heard history.Heard
	acted []history.Acted
	last  string
}

// readLists reads heartbeats, then actions.
func (r *reader) readLists(ctx context.Context) (out fromLists, err error) {
	pipe := r.lists.Pipeline()
	now := pipe.Time(ctx)
	var seen [api.Partitions]*redis.ZSliceCmd
	for k := range seen {
		seen[k] = pipe.ZRangeWithScores(ctx, api.SeenKey(k), 0, -1)
	}
	log := pipe.XRange(ctx, presence.ActionsKey, "("+r.acted, "+")
	if _, err := pipe.Exec(ctx); err != nil {
		return out, err
	}
	out.heard.At = now.Val().UnixMilli()
	for k, cmd := range seen {
		for _, z := range cmd.Val() {
			player, err := api.ParsePlayer(fmt.Sprint(z.Member))
			if err != nil {
				return out, fmt.Errorf("%s: %w", api.SeenKey(k), err)
			}
			out.heard.Beats = append(out.heard.Beats, history.Beat{Player: int64(player), At: int64(z.Score)})
		}
	}
	out.last = r.acted
	for _, m := range log.Val() {
		f := fields{entry: m}
		out.acted = append(out.acted, history.Acted{
			At: f.number("at"), Player: f.number("player"), Partition: int(f.number("partition")),
			Due: f.number("due"), Owner: f.text("by"), Number: f.number("number"),
		})
		if f.err != nil {
			return out, fmt.Errorf("%s: %w", presence.ActionsKey, f.err)
		}
		out.last = m.ID
	}
	return out, nil
}

// fromClaims is what the claims' server holds.
type fromClaims struct {
	run     string
	claimed []history.Claimed
	held    history.Held
	last    string
}

func (r *reader) readClaims(ctx context.Context) (out fromClaims, err error) {
	pipe := r.claims.Pipeline()
	now := pipe.Time(ctx)
	server := pipe.Info(ctx, "server")
	instances := pipe.ZRangeWithScores(ctx, presence.InstancesKey, 0, -1)
	claims := pipe.HGetAll(ctx, presence.ClaimsKey)
	log := pipe.XRange(ctx, presence.ClaimedKey, "("+r.claimed, "+")
	if _, err := pipe.Exec(ctx); err != nil {
		return out, err
	}
	if out.run = runOf(server.Val()); out.run == "" {
		return out, errors.New("INFO server names no run_id; without it a restart is not known")
	}
	out.held.At = now.Val().UnixMilli()
	for _, z := range instances.Val() {
		if int64(z.Score) > out.held.At {
			out.held.Instances = append(out.held.Instances, fmt.Sprint(z.Member))
		}
	}
	for k, claim := range claims.Val() {
		h, err := holding(k, claim)
		if err != nil {
			return out, fmt.Errorf("%s: %w", presence.ClaimsKey, err)
		}
		out.held.Claims = append(out.held.Claims, h)
	}
	out.last = r.claimed
	for _, m := range log.Val() {
		out.last = m.ID
		f := fields{entry: m}
		if f.text("how") == "left" {
			continue // the claim ends, which the holdings show
		}
		out.claimed = append(out.claimed, history.Claimed{
			At: f.number("at"), Partition: int(f.number("partition")), Number: f.number("number"),
			Owner: f.text("owner"), From: f.text("from"),
		})
		if f.err != nil {
			return out, fmt.Errorf("%s: %w", presence.ClaimedKey, f.err)
		}
	}
	return out, nil
}

// holding reads a claim as [presence.ClaimsKey] has it.
func holding(partition, claim string) (history.Holding, error) {
	k, err := strconv.Atoi(partition)
	if err != nil {
		return history.Holding{}, err
	}
	_, rest, _ := strings.Cut(claim, " ")
	end, owner, found := strings.Cut(rest, " ")
	if !found {
		return history.Holding{}, fmt.Errorf("partition %d is claimed by %q: want NUMBER TILL OWNER", k, claim)
	}
	till, err := strconv.ParseInt(end, 10, 64)
	if err != nil {
		return history.Holding{}, fmt.Errorf("partition %d is claimed by %q: %w", k, claim, err)
	}
	return history.Holding{Partition: k, Owner: owner, Till: till}, nil
}

// runOf finds the name of a server's run in what INFO gives.
func runOf(info string) string {
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		if run, found := strings.CutPrefix(strings.TrimSpace(lines.Text()), "run_id:"); found {
			return run
		}
	}
	return ""
}

// fields reads an entry of a log. The first mistake is kept.
type fields struct {
	entry redis.XMessage
	err   error
}

func (f *fields) text(name string) string {
	value, found := f.entry.Values[name].(string)
	if !found && f.err == nil {
		f.err = fmt.Errorf("entry %s has no field %s", f.entry.ID, name)
	}
	return value
}

func (f *fields) number(name string) int64 {
	text := f.text(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("entry %s, field %s: %w", f.entry.ID, name, err)
	}
	return n
}
