package store

import (
	"errors"
	"fmt"
)

// Item is something that can be bought, once by each player.
type Item struct {
	Item  string `json:"item"`
	Price int64  `json:"price"`
}

// Catalog gives the first n items, always the same ones. They cost 100 to 500.
func Catalog(n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{fmt.Sprintf("skin-%02d", i+1), int64(100 + 100*(i%5))}
	}
	return items
}

// What a store refuses, and why. Nothing has changed then.
var (
	ErrNotEnough   = errors.New("the balance is not enough")
	ErrOwned       = errors.New("the player owns the item already")
	ErrNotOwned    = errors.New("the player does not own the item")
	ErrLocked      = errors.New("a purchase of the player is unfinished; ask again in a moment")
	ErrOpReused    = errors.New("the operation's id was given to another one; draw a new id for each operation")
	ErrUnknownItem = errors.New("there is no such item; the catalog has those that there are")
	ErrMalformed   = errors.New("the request is malformed")
)
