package presence

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"relapse/topologies/services"
)

// ticks is what is kept from one tick to the next.
type ticks struct {
	*Instance
	from    string // where to begin, without partitions
	failing bool
}

// ticks handles who is due, every tick until the context ends.
func (i *Instance) ticks(ctx context.Context) {
	// Without partitions nothing that is due before the first tick is its own.
	t := ticks{Instance: i, from: "+inf"}
	phase := i.random(streamTicks).Float64() * float64(i.config.Tick)
	if !services.Wait(ctx, time.Duration(phase)) {
		return
	}
	ticker := time.NewTicker(i.config.Tick)
	defer ticker.Stop()
	for {
		err := t.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			i.metrics.ticks.Inc()
			t.failing = false
		default:
			if !t.failing {
				i.config.Log.Warn("players who are due are not handled; tried again every tick", "error", err)
			}
			t.failing = true
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// once handles who is due.
func (t *ticks) once(ctx context.Context) error {
	claims := t.owned()
	if len(claims) == 0 {
		return nil
	}
	partitions := slices.Sorted(maps.Keys(claims))
	from, most := "-inf", readAtOnce
	if t.config.Unpartitioned {
		from, most = t.from, -1
	}
	last, found, err := t.due(ctx, partitions, func(int) string { return from }, most)
	if err != nil {
		return err
	}
	t.from = "(" + strconv.FormatInt(last, 10)
	for _, b := range found {
		for players := range slices.Chunk(b.players, batchAtOnce) {
			if err := t.handle(ctx, batch{b.partition, claims[b.partition], players}); err != nil {
				return err
			}
		}
	}
	return nil
}

// handle handles players of one partition.
func (t *ticks) handle(ctx context.Context, b batch) error {
	count := float64(len(b.players))
	if !t.mayBegin(b.partition, b.number, t.config.Work) {
		t.metrics.notBegun.Add(count)
		return nil
	}
	t.metrics.inHand.Set(count)
	defer t.metrics.inHand.Set(0)
	if t.config.Work > 0 && !services.Wait(ctx, t.config.Work) {
		return nil
	}
	m, err := t.mark(ctx, b)
	if err != nil {
		return err
	}
	if m.refused {
		t.metrics.refused.Add(count)
		return nil
	}
	t.metrics.passed.Add(float64(m.passed))
	t.metrics.actions.Add(float64(len(m.delays)))
	for _, d := range m.delays {
		t.metrics.delay.Observe(d.Seconds())
	}
	return nil
}
