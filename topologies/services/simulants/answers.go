package simulants

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"relapse/topologies/services/http1"
	"relapse/topologies/services/platform/api"
)

// outcome is what became of a request.
type outcome uint8

const (
	succeeded = outcome(http1.OK)
	refused   = outcome(http1.Refused)
	failed    = outcome(http1.Failed)
	timedOut  = outcome(http1.TimedOut)
	// declined is an answer by the rules: the agent is taken (409), the money is not
	// enough (409), the wallet is locked for the moment (423).
	declined = outcome(len(http1.Outcomes))
	// unsent was never sent: no slot was free before its timeout.
	unsent   = outcome(len(http1.Outcomes) + 1)
	outcomes = len(http1.Outcomes) + 2
)

func (o outcome) String() string {
	switch o {
	case declined:
		return "declined"
	case unsent:
		return "unsent"
	}
	return http1.Outcome(o).String()
}

// outcomeOf sorts what became of a request that was sent.
func outcomeOf(status int, err error) outcome {
	if err == nil && (status == http.StatusConflict || status == http.StatusLocked) {
		return declined
	}
	return outcome(http1.OutcomeOf(status, err))
}

// result is what came of an action.
type result struct {
	became outcome
	status int           // 0 if there was no answer
	late   time.Duration // by which it was sent after its time
	answer answer
	goods  []good // of the catalog
	bad    error  // why an answer that says yes could not be read
	// foreign is an answer that says it is for another player. Nothing of it is used.
	foreign bool
}

// definite says whether the platform has decided: a player that was told nothing, or
// to come again, does not know whether its operation has been carried out.
func (r *result) definite() bool {
	return r.became == succeeded || r.status >= 400 && r.status < 500 &&
		r.status != http.StatusLocked && r.status != http.StatusTooManyRequests && r.status != http.StatusRequestTimeout
}

// answer is all that the platform's answers say; each says some of it.
type answer struct {
	Token    string `json:"token"`
	LastsMS  int64  `json:"lasts_ms"`
	Settings struct {
		// Player is whom the answer was made for (api.SettingPlayer).
		Player *string `json:"player"`
	} `json:"settings"`
	Party    string   `json:"party"`
	Ticket   string   `json:"ticket"`
	State    string   `json:"state"`
	Match    string   `json:"match"`
	Balance  *int64   `json:"balance"`
	Version  int64    `json:"version"`
	Items    []string `json:"items"`
	Equipped string   `json:"equipped"`
}

// good is an item that the store sells.
type good struct {
	Item  string `json:"item"`
	Price int64  `json:"price"`
}

var (
	errNoToken   = errors.New("no token in it")
	errNoBalance = errors.New("no balance in it")
	errNoID      = errors.New("no id in it")
	errNoPlayer  = errors.New("it does not say for whom it is")
)

// read reads the body of an answer that says yes into the result.
func (r *result) read(o op, body []byte) {
	if !calls[o].answer {
		return
	}
	if o == opCatalog {
		r.bad = json.Unmarshal(body, &r.goods)
		return
	}
	if r.bad = json.Unmarshal(body, &r.answer); r.bad != nil {
		r.bad = fmt.Errorf("%w in %.100q", r.bad, body)
		return
	}
	a := &r.answer
	switch o {
	case opLogin, opRelogin, opRenew:
		r.need(a.Token != "", errNoToken)
	case opConfig:
		r.need(a.Settings.Player != nil, errNoPlayer)
	case opWallet, opBuy:
		r.need(a.Balance != nil, errNoBalance)
	case opParty:
		r.need(a.Party != "", errNoID)
	case opQueue:
		r.need(a.Ticket != "", errNoID)
	case opTicket:
		r.need(a.State != api.Matched || a.Match != "", errNoID)
	}
}

func (r *result) need(there bool, otherwise error) {
	if !there {
		r.bad = otherwise
	}
}
