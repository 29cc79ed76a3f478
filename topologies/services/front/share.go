package front

import "math"

// whole is how many parts a request has where shares are counted. Whole numbers
// have a share met exactly, however long it lasts.
const whole = 1_000_000

// share picks a part of all requests, spread evenly: what is owed adds up, and
// nothing is drawn. Of any number of requests in a row it picks as many as the
// share is, give or take less than one.
type share struct{ parts, owed int }

// newShare is a share from 0 to 1, of which a part is owed already.
func newShare(of float64, owed int) share {
	return share{parts: int(math.Round(of * whole)), owed: owed}
}

// takes says whether the next request is one of the share.
func (s *share) takes() bool {
	s.owed += s.parts
	if s.owed < whole {
		return false
	}
	s.owed -= whole
	return true
}
