package services

import (
	"context"
	"time"
)

// Wait lets a request's modelled cost pass: the time that the documented program
// would have computed or waited. It burns no CPU. It gives false if the context
// of the request ended first, because its caller left.
func Wait(ctx context.Context, cost time.Duration) bool {
	timer := time.NewTimer(cost)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
