package store

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/shards"
)

// Inventory is what a player owns: GET /inventory?player=P.
type Inventory struct {
	Items    []string `json:"items"`    // sorted
	Equipped string   `json:"equipped"` // one of them, or ""
}

// grant is an item that a purchase has locked the money for: POST /items, by the node
// that owns wallets. It answers 200 whenever the player has the item by that operation,
// and 409 if it is another one's.
type grant struct {
	Op     string     `json:"op"`
	Player api.Player `json:"player"`
	Item   string     `json:"item"`
	Price  int64      `json:"price"`
}

// granted is the answer to a grant.
type granted struct {
	Made bool `json:"made"` // by this request, and not by an earlier one
}

// items is the inventory as the wallet sees it, on this node or on another one.
type items interface {
	// grant gives a player an item, once for each operation. ErrOwned says that the
	// player has it by another operation, and so always will.
	grant(ctx context.Context, g grant) (made bool, err error)
	owns(ctx context.Context, p api.Player, item string) (bool, error)
	read(ctx context.Context, p api.Player) (Inventory, error)
	// equip has a player wear an item. Doing so twice is doing so once.
	equip(ctx context.Context, o order) error
}

// inventory is the service that owns items.
type inventory struct{ shards *shards.Shards }

var (
	putItem = shards.PerTable(`
		insert into inventory_NN (player, item, op, price) values ($1, $2, $3, $4) on conflict (player, item) do nothing`)
	itemOp = shards.PerTable(`select op from inventory_NN where player = $1 and item = $2`)
)

func (i *inventory) grant(ctx context.Context, g grant) (made bool, err error) {
	err = i.shards.Write(ctx, g.Player, func(ctx context.Context, tx pgx.Tx, table int) error {
		op := ""
		b := &pgx.Batch{}
		b.Queue(putItem[table], int64(g.Player), g.Item, g.Op, g.Price).Exec(func(tag pgconn.CommandTag) error {
			made = tag.RowsAffected() == 1
			return nil
		})
		b.Queue(itemOp[table], int64(g.Player), g.Item).QueryRow(func(row pgx.Row) error { return row.Scan(&op) })
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if op != g.Op {
			return ErrOwned
		}
		return nil
	})
	return made, err
}

var readInventory = shards.PerTable(`
	select ` + shards.Served + `, exists (select from wallet_NN w where w.player = $3),
		coalesce((select array_agg(item order by item) from inventory_NN where player = $3), '{}'),
		coalesce((select max(item) from inventory_NN where player = $3 and equipped), '')
	from placement p where p.tbl = $1`)

func (i *inventory) read(ctx context.Context, p api.Player) (Inventory, error) {
	is := Inventory{}
	err := i.shards.Read(ctx, p, func(ctx context.Context, db *pgxpool.Pool, table int, epoch int64) (served, present bool, err error) {
		err = db.QueryRow(ctx, readInventory[table], table, epoch, int64(p)).Scan(&served, &present, &is.Items, &is.Equipped)
		return served, present, err
	})
	return is, err
}

func (i *inventory) owns(ctx context.Context, p api.Player, item string) (bool, error) {
	is, err := i.read(ctx, p)
	return slices.Contains(is.Items, item), err
}

var equipItem = shards.PerTable(`
	update inventory_NN set equipped = (item = $2)
	where player = $1 and (equipped or item = $2) and exists (select from inventory_NN where player = $1 and item = $2)`)

func (i *inventory) equip(ctx context.Context, o order) error {
	return i.shards.Write(ctx, o.Player, func(ctx context.Context, tx pgx.Tx, table int) error {
		tag, err := tx.Exec(ctx, equipItem[table], int64(o.Player), o.Item)
		if err == nil && tag.RowsAffected() == 0 {
			return ErrNotOwned
		}
		return err
	})
}

// elsewhere is the inventory on another node.
type elsewhere struct {
	node    *api.Client
	timeout time.Duration
}

// call asks the other node. A connection that broke is tried once more: it may have
// been closed while it was idle, and all that is asked may be asked twice.
func (e *elsewhere) call(ctx context.Context, method, path string, body, into any) error {
	deadline := time.Now().Add(e.timeout)
	if ends, has := ctx.Deadline(); has && ends.Before(deadline) {
		deadline = ends
	}
	err := e.node.Call(method, path, body, into, deadline)
	if err != nil && api.StatusOf(err) == 0 && time.Now().Before(deadline) && ctx.Err() == nil {
		err = e.node.Call(method, path, body, into, deadline)
	}
	return err
}

func (e *elsewhere) grant(ctx context.Context, g grant) (bool, error) {
	var done granted
	err := e.call(ctx, http.MethodPost, "/items", g, &done)
	if api.StatusOf(err) == http.StatusConflict {
		return false, ErrOwned
	}
	return done.Made, err
}

func (e *elsewhere) owns(ctx context.Context, p api.Player, item string) (bool, error) {
	is, err := e.read(ctx, p)
	return slices.Contains(is.Items, item), err
}

func (e *elsewhere) read(ctx context.Context, p api.Player) (is Inventory, err error) {
	err = e.call(ctx, http.MethodGet, "/inventory?player="+p.String(), nil, &is)
	return is, err
}

func (e *elsewhere) equip(ctx context.Context, o order) error {
	err := e.call(ctx, http.MethodPost, "/equip", o, nil)
	if api.StatusOf(err) == http.StatusConflict {
		return ErrNotOwned
	}
	return err
}
