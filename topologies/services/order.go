package services

import (
	"encoding/json"
	"net/http"
)

// Order reads an order that a replay gives as JSON and carries it out: 204, or
// 400 with the reason. A field that means nothing is refused, since an order
// that is half understood would be half obeyed.
func Order(w http.ResponseWriter, r *http.Request, into any, do func() error) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		err = do()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
