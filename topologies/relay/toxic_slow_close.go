package relay

import (
	"errors"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// slowCloseAttributes of a toxic of type "slow_close".
type slowCloseAttributes struct {
	// Delay in milliseconds between the sender's close and the receiver's
	// hearing of it.
	Delay float64 `json:"delay_ms"`
}

func (a slowCloseAttributes) validate() error {
	if a.Delay <= 0 || a.Delay > 3600e3 {
		return errors.New("delay_ms must be above zero and under an hour")
	}
	return nil
}

// slowClose holds back the end of the stream and nothing else.
type slowClose struct {
	atOnce
	settings[slowCloseAttributes]
}

func init() { register("slow_close", new(slowClose), func() toxic { return new(slowClose) }) }

func (s *slowClose) Pipe(stub *toxics.ToxicStub)    { runFlow(stub, s, s.released()) }
func (s *slowClose) Cleanup(stub *toxics.ToxicStub) { flush(stub) }
func (s *slowClose) NewState() any                  { return &flow{} }

func (s *slowClose) take(f *flow, data []byte, arrived time.Time) { f.push(data, arrived) }

func (s *slowClose) end(_ *flow, at time.Time) time.Time {
	return at.Add(time.Duration(s.get().Delay * float64(time.Millisecond)))
}
