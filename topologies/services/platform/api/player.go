// Package api is what the platform's services, its players and its background
// workers say to each other, over HTTP with JSON.
package api

import (
	"encoding/binary"
	"hash/fnv"
)

// Documented numbers: players were hashed into 64 tables from the first day, so
// that a further database only takes over whole tables, and background work was
// divided into 256 partitions by hash. See the README of the incident
// valorant-launch.
const (
	Tables     = 64
	Partitions = 256
)

// Player is a player's number, from 0.
type Player int64

// Table is the one of the [Tables] tables that has the player's rows.
func (p Player) Table() int { return int(p.hash() % Tables) }

// Partition is the one of the [Partitions] partitions that the player's
// background work is in.
func (p Player) Partition() int { return int((p.hash() >> 32) % Partitions) }

// hash spreads numbers that follow each other. Table and partition take bits of
// it that have nothing to do with each other, so that a partition is not busy
// whenever a table is.
func (p Player) hash() uint64 {
	h := fnv.New64a()
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], uint64(p))
	h.Write(number[:]) // never fails
	return mix(h.Sum64())
}

// mix is the finalizer of MurmurHash3: FNV alone leaves the low bits of small
// numbers too regular.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
