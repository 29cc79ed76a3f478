package retry_test

import (
	"errors"
	"testing"

	"relapse/topologies/services/retry"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, have string }{
		{"fixed", "count: 4"},
		{"none", "count: 0"},
		{"as many as there can be", "count: 100"},
		{"backoff", "{count: 4, backoff: {base: 50ms, max: 1s}}"},
		{"backoff without jitter", "{count: 4, backoff: {base: 50ms, max: 50ms, jitter: none}}"},
		{"budget", "{count: 4, budget: {share: 0.2, minimum: 10, lives: 5s, per: class}}"},
		{"budget of free retries alone", "{count: 4, budget: {minimum: 10}}"},
		{"budget with backoff", "{count: 4, backoff: {base: 50ms, max: 1s}, budget: {share: 0.2}}"},
		{"tokens", "{count: 4, tokens: {adds: 0.1, costs: 2, holds: 10, per: all}}"},
		{"permanent errors as well", "{count: 4, permanent: retry}"},
	} {
		if _, err := retry.Parse([]byte(c.have)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, have string }{
		{"an unknown field", "{count: 4, attempts: 5}"},
		{"an unknown field of a part", "{count: 4, budget: {share: 0.2, ttl: 10s}}"},
		{"no mapping", "4"},
		{"a count below zero", "count: -1"},
		{"a count that can only be a slip", "count: 101"},
		{"a part without a count", "backoff: {base: 50ms, max: 1s}"},
		{"another rule for permanent errors", "{count: 4, permanent: never}"},
		{"a budget and tokens", "{count: 4, budget: {share: 0.2}, tokens: {adds: 0.1, holds: 10}}"},
		{"backoff without a base", "{count: 4, backoff: {max: 1s}}"},
		{"backoff without an end", "{count: 4, backoff: {base: 1s}}"},
		{"backoff for days", "{count: 4, backoff: {base: 1s, max: 48h}}"},
		{"another jitter", "{count: 4, backoff: {base: 50ms, max: 1s, jitter: some}}"},
		{"more retries than requests", "{count: 4, budget: {share: 1.2}}"},
		{"a share below zero", "{count: 4, budget: {share: -0.2}}"},
		{"a share that is no number", "{count: 4, budget: {share: .nan}}"},
		{"a budget of nothing", "{count: 4, budget: {}}"},
		{"free retries without end", "{count: 4, budget: {minimum: .inf}}"},
		{"credits that never lived", "{count: 4, budget: {share: 0.2, lives: -1s}}"},
		{"a budget per request", "{count: 4, budget: {share: 0.2, per: request}}"},
		{"tokens that nothing adds", "{count: 4, tokens: {holds: 10}}"},
		{"a bucket too small", "{count: 4, tokens: {adds: 0.1, holds: 0.5}}"},
		{"retries that pay", "{count: 4, tokens: {adds: 0.1, costs: -1, holds: 10}}"},
		{"a bucket per player", "{count: 4, tokens: {adds: 0.1, holds: 10, per: player}}"},
	} {
		if _, err := retry.Parse([]byte(c.have)); !errors.Is(err, retry.ErrConfig) {
			t.Errorf("%s: have %v, want ErrConfig", c.name, err)
		}
	}
}
