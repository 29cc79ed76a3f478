package fleet

import (
	"errors"
	"net/http"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

// ControlAddress is where a fleet takes orders.
const ControlAddress = ":9091"

// Control answers the orders that a replay gives:
//
//	GET    /losses          200 and Losses
//	PUT    /losses/{name}   {"share": 0.4, "cluster": "main"}, without a cluster for
//	                        all of them: 204; 400 with the reason, and nothing done
//	DELETE /losses/{name}   204: its servers are added again
func (f *Fleet) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /losses", func(w http.ResponseWriter, _ *http.Request) {
		matchmaking.Answer(w, http.StatusOK, f.Losses())
	})
	mux.HandleFunc("PUT /losses/{name}", func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			Cluster string   `json:"cluster"`
			Share   *float64 `json:"share"`
		}
		services.Order(w, r, &order, func() error {
			if order.Share == nil {
				return errors.New("share: give one")
			}
			return f.Lose(r.PathValue("name"), order.Cluster, *order.Share)
		})
	})
	mux.HandleFunc("DELETE /losses/{name}", func(w http.ResponseWriter, r *http.Request) {
		f.EndLoss(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
