package relay

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// The control API: JSON over HTTP, on the topology's own network only.
//
//	GET    /capabilities
//	GET    /links                        names
//	GET    /links/{link}                 State
//	PUT    /links/{link}/toxics/{name}   Toxic
//	DELETE /links/{link}/toxics/{name}
//	PUT    /links/{link}/rules/{name}    Rule
//	DELETE /links/{link}/rules/{name}
//	POST   /reset
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /capabilities", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, s.capabilities, nil)
	})
	mux.HandleFunc("GET /links", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, s.names, nil)
	})
	mux.HandleFunc("GET /links/{link}", s.onLink(func(_ context.Context, l *link, _ *http.Request) (any, error) {
		return s.state(l)
	}))
	mux.HandleFunc("PUT /links/{link}/toxics/{name}", s.onLink(func(ctx context.Context, l *link, r *http.Request) (any, error) {
		var t Toxic
		attributes := json.RawMessage("{}")
		t.Attributes = &attributes
		if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
			return nil, &RequestError{Link: l.Name, Operation: "add a toxic", Problem: err.Error()}
		}
		t.Name, t.Attributes = r.PathValue("name"), attributes
		return nil, l.addToxic(ctx, t)
	}))
	mux.HandleFunc("DELETE /links/{link}/toxics/{name}", s.onLink(func(ctx context.Context, l *link, r *http.Request) (any, error) {
		return nil, l.removeToxic(ctx, r.PathValue("name"))
	}))
	mux.HandleFunc("PUT /links/{link}/rules/{name}", s.onLink(func(_ context.Context, l *link, r *http.Request) (any, error) {
		var rule Rule
		if err := json.NewDecoder(r.Body).Decode(&rule); err != nil {
			return nil, &RequestError{Link: l.Name, Operation: "add a rule", Problem: err.Error()}
		}
		rule.Name = r.PathValue("name")
		return nil, s.addRule(l, rule)
	}))
	mux.HandleFunc("DELETE /links/{link}/rules/{name}", s.onLink(func(_ context.Context, l *link, r *http.Request) (any, error) {
		return nil, s.removeRule(l, r.PathValue("name"))
	}))
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := operationContext(r)
		defer cancel()
		reply(w, nil, s.reset(ctx))
	})
	return mux
}

// operationContext outlives the request: a client that gave up must not leave an
// operation half done.
func operationContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), 10*time.Second)
}

func (s *server) onLink(do func(context.Context, *link, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := operationContext(r)
		defer cancel()
		l, err := s.link(r.PathValue("link"))
		if err != nil {
			reply(w, nil, err)
			return
		}
		answer, err := do(ctx, l, r)
		reply(w, answer, err)
	}
}

// failure is an error on its way to the client: exactly one field is set.
type failure struct {
	UnknownLink *UnknownLinkError `json:"unknown_link,omitempty"`
	Unsupported *UnsupportedError `json:"unsupported,omitempty"`
	Forced      *ForcedError      `json:"forced,omitempty"`
	Request     *RequestError     `json:"request,omitempty"`
	Other       string            `json:"other,omitempty"`
}

func (f failure) err() error {
	switch {
	case f.UnknownLink != nil:
		return f.UnknownLink
	case f.Unsupported != nil:
		return f.Unsupported
	case f.Forced != nil:
		return f.Forced
	case f.Request != nil:
		return f.Request
	default:
		return errors.New(f.Other)
	}
}

func reply(w http.ResponseWriter, answer any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err == nil {
		_ = json.NewEncoder(w).Encode(answer) // the client sees a cut answer
		return
	}
	var f failure
	status := http.StatusInternalServerError
	var (
		unknown     *UnknownLinkError
		unsupported *UnsupportedError
		forced      *ForcedError
		request     *RequestError
	)
	switch {
	case errors.As(err, &unknown):
		f.UnknownLink, status = unknown, http.StatusNotFound
	case errors.As(err, &unsupported):
		f.Unsupported, status = unsupported, http.StatusNotImplemented
	case errors.As(err, &forced):
		f.Forced = forced
	case errors.As(err, &request):
		f.Request, status = request, http.StatusBadRequest
	default:
		f.Other = err.Error()
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f)
}
