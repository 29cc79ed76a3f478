package platform

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/platform/api"
)

// Cohorts is how many different settings there are: players are dealt out among them,
// as they are for changes that not all get at once. A choice.
const Cohorts = 16

func cohortOf(p api.Player) int { return p.Partition() % Cohorts }

// OriginConfig is what the origin of the settings is made of.
type OriginConfig struct {
	// ChangeEvery is how often there is a new version, documented time; 0 for only
	// when it is ordered.
	ChangeEvery time.Duration
}

// origin stands for the database that the settings come from. What a read takes is
// modelled (see [Config.Costs], [DefaultOriginTakes]), and with the pool of workers
// gives it a capacity that caches must keep the load below.
//
//	GET  /documents/{cohort}  200 Settings, that the players of the cohort share
//	POST /documents           200 Version, the next one
type origin struct {
	p     *Platform
	every time.Duration // real time, 0 for never
	began time.Time

	mu      sync.Mutex
	ordered int64 // changes
	answers *answers[int64]
}

func newOrigin(p *Platform) (role, error) {
	c := p.config.Origin
	if c.ChangeEvery != 0 {
		if err := positive(map[string]time.Duration{"the time between changes": c.ChangeEvery}); err != nil {
			return nil, err
		}
	}
	o := &origin{p: p, began: time.Now(), answers: newAnswers[int64](p.config.Remember)}
	if c.ChangeEvery > 0 {
		o.every = max(p.real(c.ChangeEvery), 1)
	}
	p.gauge("relapse_config_version", "Version of the settings at their origin.", func() float64 {
		o.mu.Lock()
		defer o.mu.Unlock()
		return float64(o.version(time.Now()))
	})
	return o, nil
}

func (o *origin) routes() []route {
	return []route{
		{"GET /documents/{cohort}", "read", o.read},
		{"POST /documents", "change", o.change},
	}
}

func (o *origin) run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// version is the one that holds. The lock is held.
func (o *origin) version(now time.Time) int64 {
	version := 1 + o.ordered
	if o.every > 0 {
		version += int64(now.Sub(o.began) / o.every)
	}
	return version
}

func (o *origin) read(w http.ResponseWriter, r *http.Request) error {
	cohort, err := strconv.Atoi(r.PathValue("cohort"))
	if err != nil || cohort < 0 || cohort >= Cohorts {
		return refuse(http.StatusNotFound, "cohort %q: want 0 to %d", r.PathValue("cohort"), Cohorts-1)
	}
	o.mu.Lock()
	version := o.version(time.Now())
	o.mu.Unlock()
	matchmaking.Answer(w, http.StatusOK, api.Settings{Version: version, Settings: map[string]string{
		"cohort":         strconv.Itoa(cohort),
		"shop.rotation":  strconv.FormatInt(version, 10),
		"queue.enabled":  "true",
		"chat.enabled":   strconv.FormatBool(cohort%2 == 0),
		"telemetry.rate": strconv.Itoa(1 + cohort),
	}})
	return nil
}

func (o *origin) change(w http.ResponseWriter, r *http.Request) error {
	var asked api.Change
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if err := checkOp(asked.Op); err != nil {
		return bad(err)
	}
	o.mu.Lock()
	now := time.Now()
	version, known := o.answers.get(asked.Op, now)
	if !known {
		o.ordered++
		version = o.version(now)
		o.answers.put(asked.Op, version, now)
	}
	o.mu.Unlock()
	matchmaking.Answer(w, http.StatusOK, api.Version{Version: version})
	return nil
}
