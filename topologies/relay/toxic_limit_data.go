package relay

import (
	"errors"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// limitDataAttributes of a toxic of type "limit_data".
type limitDataAttributes struct {
	// Bytes that pass of each connection, counted from when it meets the toxic.
	Bytes int64 `json:"bytes"`
}

func (a limitDataAttributes) validate() error {
	if a.Bytes < 0 {
		return errors.New("bytes must not be below zero")
	}
	return nil
}

// limitData ends a connection after so many bytes: an answer cut short.
type limitData struct {
	atOnce
	settings[limitDataAttributes]
}

func init() { register("limit_data", new(limitData), func() toxic { return new(limitData) }) }

func (l *limitData) Pipe(stub *toxics.ToxicStub)    { runFlow(stub, l, l.released()) }
func (l *limitData) Cleanup(stub *toxics.ToxicStub) { flush(stub) }
func (l *limitData) NewState() any                  { return &flow{state: new(int64)} }

func (l *limitData) take(f *flow, data []byte, arrived time.Time) {
	passed, ok := f.state.(*int64)
	if !ok {
		passed = new(int64)
		f.state = passed
	}
	left := max(0, l.get().Bytes-*passed)
	if int64(len(data)) >= left {
		data = data[:left]
		f.sealed = true
	}
	*passed += int64(len(data))
	if len(data) > 0 {
		f.push(data, arrived)
	}
}
