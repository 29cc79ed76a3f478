package front

import (
	"errors"
	"net/http"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

// Control answers the orders that a replay gives: GET /routes, PUT and DELETE
// /skews/{name}.
func (f *Front) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /routes", func(w http.ResponseWriter, _ *http.Request) {
		matchmaking.Answer(w, http.StatusOK, f.State())
	})
	mux.HandleFunc("PUT /skews/{name}", func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			To    string   `json:"to"`
			Share *float64 `json:"share"`
		}
		services.Order(w, r, &order, func() error {
			if order.Share == nil {
				return errors.New("share: give one")
			}
			return f.Skew(r.PathValue("name"), order.To, *order.Share)
		})
	})
	mux.HandleFunc("DELETE /skews/{name}", func(w http.ResponseWriter, r *http.Request) {
		f.DropSkew(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
