package history

import (
	"fmt"
	"slices"
)

// keeps is how many claims of a partition are known, the last ones.
const keeps = 64

// partition is what the history says of one.
type partition struct {
	claims []Claimed // the last ones, in the order in which they were made
	acted  int64     // the highest number that was acted under
	till   int64     // the last end of a lease that is known
	owned  bool
	said   bool // that it is without an owner
}

// Moves is how many claims were of a partition that another instance had last.
func (c *Checker) Moves() int { return c.moves }

// Unowned is how many partitions had no owner when it was last read.
func (c *Checker) Unowned() (n int) {
	for k := range c.partitions {
		if !c.partitions[k].owned {
			n++
		}
	}
	return n
}

// Spread is by how many partitions the instance with the most had more than the one
// with the fewest when it was last read.
func (c *Checker) Spread() int { return c.spread }

func (c *Checker) claimed(e Claimed) {
	c.highest = max(c.highest, e.Number)
	if e.From != "" && e.From != e.Owner {
		c.moves++
	}
	p := c.at(e.Partition)
	if p == nil {
		return
	}
	if len(p.claims) == keeps {
		p.claims = slices.Delete(p.claims, 0, 1)
	}
	p.claims = append(p.claims, e)
}

// withoutClaim says why an action was not by right, or nothing. It notes the number.
func (c *Checker) withoutClaim(e Acted) string {
	p := c.at(e.Partition)
	if p == nil {
		return "there is no such partition"
	}
	before := p.acted
	p.acted = max(p.acted, e.Number)
	switch is := c.partition(e.Player); {
	case is != e.Partition:
		return fmt.Sprintf("the player is in partition %d", is)
	case e.Number < before:
		return fmt.Sprintf("the partition was acted on under %d before", before)
	}
	known, own := false, false
	var newer *Claimed
	for n := range p.claims {
		claim := &p.claims[n]
		known = known || claim.Number == e.Number
		own = own || claim.Number == e.Number && claim.Owner == e.Owner
		if claim.Number > e.Number && newer == nil {
			newer = claim
		}
	}
	switch {
	case known && !own:
		return "that claim is another instance's"
	case !known && (c.lost < 0 || e.Number <= c.lost):
		return "nobody has made that claim"
	// Here a time of the lists is compared with one of the claims.
	case newer != nil && newer.At+c.interval+c.slack < e.At:
		return fmt.Sprintf("%s had claimed the partition under %d at %s", newer.Owner, newer.Number, seconds(newer.At))
	}
	return ""
}

// held takes who has what.
func (c *Checker) held(e Held) (found []Violation) {
	counts := map[string]int{}
	for _, name := range e.Instances {
		counts[name] = 0
	}
	for k := range c.partitions {
		c.partitions[k].owned = false
	}
	for _, h := range e.Claims {
		p := c.at(h.Partition)
		if p == nil {
			continue
		}
		p.till = h.Till
		if h.Till <= e.At {
			continue
		}
		p.owned, p.said = true, false
		counts[h.Owner]++
		if c.began == 0 {
			c.began = e.At
		}
	}
	c.spread = spread(counts)
	if c.began == 0 {
		return nil
	}
	for k := range c.partitions {
		p := &c.partitions[k]
		since := max(p.till, c.began)
		if p.owned || p.said || e.At <= since+c.lease+c.slack {
			continue
		}
		p.said = true
		found = append(found, Violation{
			Invariant: Unowned, Player: -1, Partition: k, At: e.At, Says: "without an owner since " + seconds(since),
		})
	}
	return found
}

func spread(counts map[string]int) int {
	first, least, most := true, 0, 0
	for _, n := range counts {
		if first {
			first, least, most = false, n, n
		}
		least, most = min(least, n), max(most, n)
	}
	return most - least
}

func (c *Checker) at(k int) *partition {
	if k < 0 || k >= len(c.partitions) {
		return nil
	}
	return &c.partitions[k]
}
