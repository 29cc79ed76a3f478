package relay

import (
	"sync"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// stuck is a toxic that breaks the contract: it cannot be interrupted once it
// has read something.
type stuck struct{ settings[stuckAttributes] }

type stuckAttributes struct{}

func (stuckAttributes) validate() error { return nil }

func (*stuck) Pipe(stub *toxics.ToxicStub) {
	select {
	case <-stub.Interrupt:
		return
	case c := <-stub.Input:
		if c == nil {
			stub.Close()
			return
		}
	}
	Stuck <- struct{}{}
	select {}
}

// Stuck receives whenever a toxic of the type has stuck.
var Stuck = make(chan struct{}, 1)

// RegisterStuck adds the type "stuck".
var RegisterStuck = sync.OnceFunc(func() {
	register("stuck", new(stuck), func() toxic { return new(stuck) })
})
