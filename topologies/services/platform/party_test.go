package platform_test

import (
	"net/http"
	"testing"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

func TestParties(t *testing.T) {
	r := start(t, config(platform.Party))
	ids := map[string]string{} // by the name that a step gives
	for _, c := range []struct {
		name, op string
		players  []api.Player
		status   int
		party    string // name of the party that it is
		parties  float64
	}{
		{"a party", "1", players(0, 5), 200, "a", 1},
		{"the same operation", "1", players(0, 5), 200, "a", 1},
		{"the same operation, whoever it names", "1", players(9, 1), 200, "a", 1},
		{"another party", "2", players(5, 1), 200, "b", 2},
		{"one that players leave others for", "3", players(4, 2), 200, "c", 2},
		{"no operation", "", players(0, 1), 400, "", 2},
		{"nobody", "4", nil, 400, "", 2},
		{"more than a team", "4", players(0, 6), 400, "", 2},
		{"a player twice", "4", []api.Player{1, 1}, 400, "", 2},
		{"no player", "4", []api.Player{-1}, 400, "", 2},
	} {
		var party api.Party
		response := r.ask(t, "POST", "/parties", api.PartyRequest{Op: c.op, Players: c.players}, &party)
		if response.StatusCode != c.status {
			t.Errorf("%s: have %d, want %d", c.name, response.StatusCode, c.status)
		}
		if c.party != "" {
			if ids[c.party] == "" {
				ids[c.party] = party.Party
			}
			if party.Party == "" || party.Party != ids[c.party] {
				t.Errorf("%s: have party %q, want %q", c.name, party.Party, ids[c.party])
			}
		}
		if have := r.value(t, "relapse_parties"); have != c.parties {
			t.Errorf("%s: have %v parties, want %v", c.name, have, c.parties)
		}
	}
	for _, c := range []struct {
		party   string
		parties float64
	}{{"a", 1}, {"a", 1}, {"b", 1}, {"c", 0}} {
		if have := r.status(t, "DELETE", "/parties/"+ids[c.party], nil); have != http.StatusNoContent {
			t.Errorf("ending %s: have %d, want 204", c.party, have)
		}
		if have := r.value(t, "relapse_parties"); have != c.parties {
			t.Errorf("ending %s: have %v parties, want %v", c.party, have, c.parties)
		}
	}
	r.expect(t, 5, "relapse_handled_total", "create", "malformed", "party")
	if have := r.status(t, "POST", "/parties", map[string]int{"size": 3}); have != http.StatusBadRequest {
		t.Errorf("a field that nobody knows: have %d, want 400", have)
	}
}
