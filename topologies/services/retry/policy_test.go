package retry_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/retry"
)

// client makes requests of a policy on a clock that the test turns.
type client struct {
	*retry.Policy
	now      time.Duration
	requests []time.Duration // when
	retries  []time.Duration // when each was granted
}

func newClient(t *testing.T, text string) *client {
	t.Helper()
	config, err := retry.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := &client{}
	c.Policy, err = retry.New(config, func() time.Duration { return c.now }, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request makes one request whose attempts end with a status each, the last one
// over and over, and gives the number of attempts.
func (c *client) request(class string, statuses ...int) int {
	c.Request(class)
	c.requests = append(c.requests, c.now)
	for attempt := 1; ; attempt++ {
		status := statuses[min(attempt, len(statuses))-1]
		if status/100 == 2 {
			c.Success(class)
			return attempt
		}
		if _, again := c.Next(class, attempt, status); !again {
			return attempt
		}
		c.retries = append(c.retries, c.now)
	}
}

func TestAttempts(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		statuses     []int
		want         int
	}{
		{"success", "count: 4", []int{200}, 1},
		{"success at the third", "count: 4", []int{503, 0, 200}, 3},
		{"failure for good", "count: 4", []int{503}, 5},
		{"no answer", "count: 4", []int{0}, 5},
		{"no retries", "count: 0", []int{503}, 1},
		{"permanent error", "count: 4", []int{400}, 1},
		{"permanent error at the second", "count: 4", []int{503, 404}, 2},
		{"come back later", "count: 4", []int{429}, 5},
		{"too early", "count: 4", []int{425}, 5},
		{"request timeout", "count: 4", []int{408}, 5},
		{"permanent error, retried", "{count: 4, permanent: retry}", []int{400}, 5},
		{"permanent error, given up", "{count: 4, permanent: give_up}", []int{400}, 1},
		{"backoff", "{count: 3, backoff: {base: 1ms, max: 1s}}", []int{503}, 4},
		{"a budget that is full", "{count: 4, budget: {minimum: 1, lives: 3s}}", []int{503}, 4},
		{"a bucket that is full", "{count: 4, tokens: {adds: 0.1, holds: 2}}", []int{503}, 3},
	} {
		if have := newClient(t, c.policy).request("a", c.statuses...); have != c.want {
			t.Errorf("%s: have %d attempts, want %d", c.name, have, c.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	waits := func(policy string) []time.Duration {
		c := newClient(t, policy)
		var out []time.Duration
		for attempt := 1; ; attempt++ {
			after, again := c.Next("a", attempt, 503)
			if !again {
				return out
			}
			out = append(out, after)
		}
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		name, policy string
		want         []time.Duration
	}{
		{"at once", "count: 3", []time.Duration{0, 0, 0}},
		{"doubled up to the most", "{count: 5, backoff: {base: 50ms, max: 300ms, jitter: none}}", []time.Duration{50 * ms, 100 * ms, 200 * ms, 300 * ms, 300 * ms}},
		{"always the same", "{count: 2, backoff: {base: 1s, max: 1s, jitter: none}}", []time.Duration{time.Second, time.Second}},
	} {
		if have := waits(c.policy); !slices.Equal(have, c.want) {
			t.Errorf("%s: have %v, want %v", c.name, have, c.want)
		}
	}
	if have := waits("{count: 100, backoff: {base: 1ms, max: 1h, jitter: none}}"); have[99] != time.Hour {
		t.Errorf("the 100th: have %v, want the most, 1h", have[99])
	}
}

// Full jitter draws from the whole of the backoff, and not near it only: that is
// what takes apart clients that failed together.
func TestFullJitterIsEven(t *testing.T) {
	c := newClient(t, "{count: 3, backoff: {base: 100ms, max: 1s}}")
	const draws, tenths = 10_000, 10
	var count [tenths]int
	most := 200 * time.Millisecond // of the second retry
	for range draws {
		after, again := c.Next("a", 2, 503)
		if !again || after < 0 || after > most {
			t.Fatalf("have %v, %t; want a wait up to %v", after, again, most)
		}
		count[min(int(after*tenths/most), tenths-1)]++
	}
	for n, have := range count {
		// The deviation of each count is 30.
		if have < 850 || have > 1150 {
			t.Errorf("tenth %d: have %d of %d draws, want about a tenth", n, have, draws)
		}
	}
	a, b := newClient(t, "{count: 1, backoff: {base: 1s, max: 1s}}"), newClient(t, "{count: 1, backoff: {base: 1s, max: 1s}}")
	for range 100 {
		have, _ := a.Next("a", 1, 503)
		want, _ := b.Next("a", 1, 503)
		if have != want {
			t.Fatalf("equal seeds: have %v and %v", have, want)
		}
	}
}

// amplification is attempts by requests in a bad burst: so many requests a
// second that all fail, for so long, after a time in which all succeeded.
func amplification(t *testing.T, policy string, perSecond int, well, burst time.Duration) float64 {
	t.Helper()
	c := newClient(t, policy)
	gap := time.Second / time.Duration(perSecond)
	for ; c.now < well; c.now += gap {
		c.request("good", 200)
	}
	requests, attempts := 0, 0
	for ; c.now < well+burst; c.now += gap {
		requests++
		attempts += c.request("bad", 503)
	}
	return float64(attempts) / float64(requests)
}

// TestAmplification holds the figures of the incident: a fixed count amplifies a
// burst by one and the count, exactly; a budget or tokens bound it by 1.2
// (edge-13), which backoff alone does not.
func TestAmplification(t *testing.T) {
	const well, burst = 20 * time.Second, 5 * time.Second
	for _, c := range []struct {
		name, policy string
		least, most  float64
	}{
		{"fixed", "count: 4", 5, 5},
		{"fixed, one", "count: 1", 2, 2},
		{"backoff", "{count: 4, backoff: {base: 50ms, max: 1s}}", 5, 5},
		// A burst of half the time that credits live finds those of the requests
		// before it as well: twice its own.
		{"budget with credits from before", "{count: 4, budget: {share: 0.2}}", 1.35, 1.4},
		{"budget whose credits live shorter than the burst", "{count: 4, budget: {share: 0.1, lives: 2s}}", 1.1, 1.2},
		{"tokens", "{count: 4, tokens: {adds: 0.1, holds: 50}}", 1.1, 1.11},
		{"permanent", "{count: 4, permanent: give_up}", 5, 5}, // 503 is taken for transient
	} {
		have := amplification(t, c.policy, 100, well, burst)
		if have < c.least || have > c.most {
			t.Errorf("%s: have %.3f attempts a request, want %v to %v", c.name, have, c.least, c.most)
		}
	}
}

// What a class spends is not there for another, unless each has its own: a burst
// of bad requests leaves nothing for the good ones that lose a packet.
func TestPerClass(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		want         int // attempts of a good request that fails once
	}{
		{"a budget for all", "{count: 4, budget: {share: 0.1, minimum: 1}}", 1},
		{"a budget for each", "{count: 4, budget: {share: 0.1, minimum: 1, per: class}}", 2},
		{"tokens for all", "{count: 4, tokens: {adds: 0.1, holds: 10}}", 1},
		{"tokens for each", "{count: 4, tokens: {adds: 0.1, holds: 10, per: class}}", 2},
	} {
		client := newClient(t, c.policy)
		for range 500 {
			client.now += 10 * time.Millisecond
			client.request("bad", 503)
		}
		if have := client.request("good", 503, 200); have != c.want {
			t.Errorf("%s: have %d attempts, want %d", c.name, have, c.want)
		}
	}
}

func TestTokensComeBackWithSuccesses(t *testing.T) {
	c := newClient(t, "{count: 4, tokens: {adds: 0.1, holds: 3}}")
	if have := c.request("a", 503); have != 4 {
		t.Errorf("a full bucket: have %d attempts, want 4", have)
	}
	if have := c.request("a", 503); have != 1 {
		t.Errorf("an empty one: have %d attempts, want 1", have)
	}
	for range 9 {
		c.request("a", 200)
	}
	if have := c.request("a", 503); have != 1 {
		t.Errorf("after nine successes: have %d attempts, want 1", have)
	}
	c.request("a", 200)
	if have := c.request("a", 503); have != 2 {
		t.Errorf("after ten: have %d attempts, want 2", have)
	}
	for range 1000 {
		c.request("a", 200)
	}
	if have := c.request("a", 503); have != 4 {
		t.Errorf("after many: have %d attempts, want the 4 of a full bucket", have)
	}
}

func TestCreditsExpire(t *testing.T) {
	c := newClient(t, "{count: 100, budget: {share: 0.5, lives: 10s}}")
	for range 19 {
		c.request("a", 200)
	}
	c.now = 9 * time.Second
	if have := c.request("a", 503); have != 11 {
		t.Errorf("credits of 20 requests: have %d attempts, want 11", have)
	}
	c.now = 11 * time.Second
	// Those of the first second are gone; that of the one at 9 s went with them,
	// and what it spent weighs on.
	if have := c.request("a", 503); have != 1 {
		t.Errorf("credits of old requests: have %d attempts, want 1", have)
	}
	c.now = time.Hour
	c.request("a", 200)
	if have := c.request("a", 503); have != 2 {
		t.Errorf("credits of two requests after a long time: have %d attempts, want 2", have)
	}
}

// TestBudgetBound plays random clients and holds their retries against what a
// budget promises, whatever they do: in any nine tenths of the time that credits
// live there are no more retries than the share of the requests of that time,
// and the free ones.
func TestBudgetBound(t *testing.T) {
	const share, minimum, lives = 0.2, 3.0, 10 * time.Second
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 50 {
		c := newClient(t, "{count: 3, budget: {share: 0.2, minimum: 3}}")
		fails := 0.05 + 0.95*rng.Float64()
		for c.now < time.Minute {
			gap := time.Duration(rng.ExpFloat64() * float64(20*time.Millisecond))
			if rng.IntN(200) == 0 {
				gap += time.Duration(rng.IntN(15)) * time.Second // nobody is there
			}
			c.now += gap
			if rng.Float64() < fails {
				c.request("a", 503)
			} else {
				c.request("a", 200)
			}
		}
		within := func(times []time.Duration, from, to time.Duration) (n int) {
			for _, at := range times {
				if at > from && at <= to {
					n++
				}
			}
			return n
		}
		for n := 0; n < len(c.retries); n += 10 {
			end := c.retries[n]
			retries := within(c.retries[:n+1], end-lives*9/10, end)
			most := share*float64(within(c.requests, end-lives, end)) + minimum*lives.Seconds()
			if float64(retries) > most+1e-6 {
				t.Fatalf("round %d: %d retries up to %v, want %.1f at most", round, retries, end, most)
			}
		}
		if len(c.retries) == 0 {
			t.Errorf("round %d: no retries, so that nothing was bounded", round)
		}
	}
}

// TestTokensBound: no more retries than the bucket held, and a share of the
// successes.
func TestTokensBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 200 {
		c := newClient(t, "{count: 5, tokens: {adds: 0.1, costs: 1, holds: 20}}")
		successes := 0
		for range 2000 {
			if rng.IntN(3) == 0 {
				c.request("a", 503)
			} else {
				successes++
				c.request("a", 200)
			}
			if most := 20 + 0.1*float64(successes); float64(len(c.retries)) > most+1e-6 {
				t.Fatalf("round %d: %d retries after %d successes, want %.1f at most", round, len(c.retries), successes, most)
			}
		}
		if len(c.retries) < 20 {
			t.Errorf("round %d: %d retries, want those of a full bucket at least", round, len(c.retries))
		}
	}
}
