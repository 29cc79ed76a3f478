package gamehosts

import "time"

// Placement is a game that is to begin on a host.
type Placement struct {
	Game int64         `json:"game"` // no other game of the run has it
	Mode string        `json:"mode"`
	Host string        `json:"host"`
	Age  time.Duration `json:"age,omitempty"` // how long it has been played already, documented time
}

// Inventory is a host that games can be placed on.
type Inventory struct {
	Host     string  `json:"host"`
	Kind     string  `json:"kind"`
	Capacity float64 `json:"capacity"` // games at their dearest that fill its CPU
}

// Reading is what one host says of itself.
type Reading struct {
	Host  string         `json:"host"`
	Kind  string         `json:"kind"` // hardware type
	At    time.Duration  `json:"at"`   // when it was read, by the host's clock
	CPU   float64        `json:"cpu"`  // used, 0 to 1
	Games map[string]int `json:"games"`
}

// Answer is what the hosts of one node say when they are asked.
type Answer struct {
	Boot     int64         `json:"boot"`
	Number   int64         `json:"number"` // of the answer, from 1 on
	Now      time.Duration `json:"now"`    // documented time
	Readings []Reading     `json:"readings"`
}

// Entry is one line of the log of hosts: exactly one of its parts is there.
type Entry struct {
	Began    *Began  `json:"began,omitempty"`
	Answered *Answer `json:"answered,omitempty"`
}

// Began says that a game of Clash began.
type Began struct {
	At   time.Duration `json:"at"`
	Game int64         `json:"game"`
	Host string        `json:"host"`
}
