package services_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
)

func init() {
	services.Register("b-test", "ends at once", func(context.Context, []string) error { return nil })
	services.Register("a-test", "gives its arguments back", func(_ context.Context, args []string) error {
		return errors.New(strings.Join(args, " "))
	})
}

func TestRunFindsAServiceByName(t *testing.T) {
	if err := services.Run(t.Context(), "b-test", nil); err != nil {
		t.Errorf("b-test: have %v, want no error", err)
	}
	if err := services.Run(t.Context(), "a-test", []string{"--x", "1"}); err == nil || err.Error() != "--x 1" {
		t.Errorf("a-test: have %v, want its arguments", err)
	}
	var unknown *services.UnknownServiceError
	if err := services.Run(t.Context(), "c-test", nil); !errors.As(err, &unknown) || unknown.Name != "c-test" {
		t.Fatalf("c-test: have %v, want an UnknownServiceError", err)
	}
	if want := []string{"a-test", "b-test"}; !slices.Equal(unknown.Known, want) {
		t.Errorf("known: have %v, want %v", unknown.Known, want)
	}
}

func TestRegisterRefusesANameTwice(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	services.Register("a-test", "", nil)
}

func TestServeEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "relapse_things_total"})
	registry.MustRegister(counter)
	counter.Add(3)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- services.ServeListener(ctx, listener, services.MetricsHandler(registry)) }()

	response, err := http.Get("http://" + listener.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := "relapse_things_total 3\n"; !strings.Contains(string(body), want) {
		t.Errorf("metrics: have %q, want them to hold %q", body, want)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: have %v, want no error", err)
	}
}

func TestServeSaysWhichAddressIsTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = services.Serve(t.Context(), listener.Addr().String(), http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("have %v, want an error that names %s", err, listener.Addr())
	}
}
