package services_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"relapse/topologies/services"
)

// poor has no memory for the first connections that it is asked for.
type poor struct {
	net.Listener
	refusals atomic.Int32
}

func (p *poor) Accept() (net.Conn, error) {
	if p.refusals.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.ENOMEM}
	}
	return p.Listener.Accept()
}

func TestServeOutlastsAWantOfMemory(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := &poor{Listener: inner}
	listener.refusals.Store(2)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- services.ServeListener(ctx, listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}()
	client := &http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
