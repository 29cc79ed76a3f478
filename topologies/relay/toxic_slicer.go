package relay

import (
	"errors"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// slicerAttributes of a toxic of type "slicer".
type slicerAttributes struct {
	// Size of a slice in bytes.
	Size int `json:"size"`
	// Delay in milliseconds between slices.
	Delay float64 `json:"delay_ms"`
}

func (a slicerAttributes) validate() error {
	if a.Size < 1 {
		return errors.New("size must be 1 byte or more")
	}
	if a.Delay < 0 || a.Delay > 3600e3 {
		return errors.New("delay_ms must not be below zero, and under an hour")
	}
	return nil
}

// slicer hands data on in small slices, each in a write of its own, so that
// receivers meet messages in parts.
type slicer struct {
	settings[slicerAttributes]
}

func init() { register("slicer", new(slicer), func() toxic { return new(slicer) }) }

func (s *slicer) Pipe(stub *toxics.ToxicStub)    { runFlow(stub, s, s.released()) }
func (s *slicer) Cleanup(stub *toxics.ToxicStub) { flush(stub) }
func (s *slicer) NewState() any                  { return &flow{} }

func (s *slicer) window() int                         { return 1 }
func (s *slicer) end(_ *flow, at time.Time) time.Time { return at }

func (s *slicer) take(f *flow, data []byte, _ time.Time) {
	a := s.get()
	gap := time.Duration(a.Delay * float64(time.Millisecond))
	due := time.Now()
	if next := f.last.Add(gap); next.After(due) {
		due = next
	}
	for sent := 0; sent < len(data); sent += a.Size {
		f.push(data[sent:min(sent+a.Size, len(data))], due)
		due = due.Add(gap)
	}
}
