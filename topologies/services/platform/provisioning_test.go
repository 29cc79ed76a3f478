package platform_test

import (
	"net/http"
	"testing"
	"time"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

// provision asks for a server, and gives the status and what was given.
func (r *rig) provision(t *testing.T, op string, pings map[string]float64) (int, api.Server) {
	t.Helper()
	var server api.Server
	response := r.ask(t, "POST", "/servers", api.ServerRequest{Op: op, Match: "m-" + op, Players: players(0, 10), Pings: pings}, &server)
	return response.StatusCode, server
}

func TestServersAreWhereThePingsAreLowest(t *testing.T) {
	r := start(t, config(platform.Provisioning)) // two servers in eu, two in na
	ids := map[string]bool{}
	for _, c := range []struct {
		name, op string
		pings    map[string]float64
		want     string // data centre, empty for none
	}{
		{"the nearest", "1", map[string]float64{"eu": 200, "na": 900}, "eu"},
		{"the same operation", "1", map[string]float64{"eu": 900, "na": 200}, "eu"},
		{"the only one that all know", "2", map[string]float64{"na": 900, "moon": 1}, "na"},
		{"the last one of the nearest", "3", map[string]float64{"eu": 200, "na": 900}, "eu"},
		{"another one where that is full", "4", map[string]float64{"eu": 200, "na": 900}, "na"},
		{"nowhere", "5", map[string]float64{"eu": 200, "na": 900}, ""},
	} {
		status, server := r.provision(t, c.op, c.pings)
		if server.Centre != c.want || (status == http.StatusCreated) != (c.want != "") {
			t.Errorf("%s: have %d %+v, want %q", c.name, status, server, c.want)
		}
		if c.want == "" && status != http.StatusServiceUnavailable {
			t.Errorf("%s: have %d, want 503", c.name, status)
		}
		ids[server.Server] = true
	}
	if have := len(ids); have != 5 { // four, and none
		t.Errorf("have servers %v, want four", ids)
	}
	r.expect(t, 2, "relapse_provisions_held", "eu")
	r.expect(t, 2, "relapse_provisions_capacity", "eu")
	r.expect(t, 2, "relapse_provisions_total", "na")
	r.expect(t, 1, "relapse_provisions_refused_total")
	r.expect(t, 1, "relapse_handled_total", "provision", "refused", "provisioning")
	_, server := r.provision(t, "1", nil)
	for range 2 {
		if have := r.status(t, "DELETE", "/servers/"+server.Server, nil); have != http.StatusNoContent {
			t.Errorf("giving it back: have %d, want 204", have)
		}
		r.expect(t, 1, "relapse_provisions_held", "eu")
	}
	if _, again := r.provision(t, "6", nil); again.Centre != "eu" || again.Server == server.Server {
		t.Errorf("have %+v, want another server where one was given back", again)
	}
}

func TestServersThatLeakAreTakenBack(t *testing.T) {
	c := config(platform.Provisioning)
	c.Provisioning.Lease = time.Second
	r := start(t, c)
	_, kept := r.provision(t, "1", nil)
	_, leaked := r.provision(t, "2", nil)
	began := time.Now()
	renew := func() (lost api.Lost) {
		t.Helper()
		if have := r.ask(t, "POST", "/leases", api.Leases{Servers: []string{kept.Server}}, &lost).StatusCode; have != http.StatusOK {
			t.Errorf("have %d, want 200", have)
		}
		return lost
	}
	sum := func(name string) float64 { return r.value(t, name, "eu") + r.value(t, name, "na") }
	eventually(t, "one has leaked", func() bool { renew(); return r.value(t, "relapse_provisions_leaked") == 1 })
	if have := sum("relapse_provisions_held"); have != 2 {
		t.Errorf("have %v servers held until the lease ends, want 2", have)
	}
	eventually(t, "it is taken back", func() bool { renew(); return r.value(t, "relapse_provisions_leaked") == 0 })
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("it was taken back after %v, want a lease of 1 s", took)
	}
	if have := sum("relapse_provisions_held"); have != 1 {
		t.Errorf("have %v servers held, want the one whose lease is renewed", have)
	}
	r.expect(t, 1, "relapse_provisions_reclaimed_total")
	if have := renew(); len(have.Lost) != 0 {
		t.Errorf("have %v lost, want none", have.Lost)
	}
	kept = leaked
	if have := renew(); len(have.Lost) != 1 || have.Lost[0] != leaked.Server {
		t.Errorf("have %v lost, want %s", have.Lost, leaked.Server)
	}
}

func TestProvisioningRefuses(t *testing.T) {
	r := start(t, config(platform.Provisioning))
	for name, c := range map[string]api.ServerRequest{
		"no operation":      {Match: "m", Players: players(0, 10)},
		"nobody":            {Op: "1", Match: "m"},
		"a ping below zero": {Op: "1", Match: "m", Players: players(0, 10), Pings: map[string]float64{"eu": -1}},
	} {
		if have := r.status(t, "POST", "/servers", c); have != http.StatusBadRequest {
			t.Errorf("%s: have %d, want 400", name, have)
		}
	}
}
