package mms_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/mms"
)

var regions = []string{"a", "b", "c"}

// source is where a list's entries are scattered by.
func source() *rand.Rand { return rand.New(rand.NewPCG(5, 6)) }

// laidOut gives an entry for each letter, which is its region and is busy where it
// is a capital. Servers have numbers from 0 on.
func laidOut(letters string) (entries []matchmaking.Entry) {
	for n, letter := range strings.Split(letters, "") {
		region := strings.ToLower(letter)
		entries = append(entries, matchmaking.Entry{Server: n, Region: region, Epoch: 1, Busy: letter != region})
	}
	return entries
}

func TestFindVisits(t *testing.T) {
	type finds struct {
		region          string
		server, visited int
	}
	none := -1
	for _, tc := range []struct {
		name    string
		indexed bool
		letters string
		finds   []finds
	}{
		{"nobody is there", false, "", []finds{{"a", none, 0}}},
		{"the first of many, one after the other", false, "aaa", []finds{{"a", 0, 1}, {"a", 1, 1}, {"a", 2, 1}, {"a", none, 3}}},
		{"past those in a match", false, "AAAa", []finds{{"a", 3, 4}, {"a", none, 4}}},
		{"past other regions", false, "bbba", []finds{{"a", 3, 4}}},
		{"round from where the last one ended", false, "bbba", []finds{{"a", 3, 4}, {"b", 0, 1}, {"b", 1, 1}}},
		{"round the end", false, "aABbA", []finds{{"b", 3, 4}, {"a", 0, 2}}},
		{"all of it if there is none, and the next one goes on from the same place", false, "aAbB", []finds{{"a", 0, 1}, {"c", none, 4}, {"b", 2, 2}}},
		{"all of it again and again", false, "AAA", []finds{{"a", none, 3}, {"a", none, 3}}},
		{"by an index", true, "AAAa", []finds{{"a", 3, 1}, {"a", none, 1}}},
		{"by an index of nobody", true, "", []finds{{"a", none, 1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := mms.NewList(regions, tc.indexed, source())
			l.Register(laidOut(tc.letters)...)
			for n, want := range tc.finds {
				e, visited, ok := l.Find(want.region)
				have := finds{want.region, none, visited}
				if ok {
					have.server = e.Server
				}
				if have != want {
					t.Errorf("find %d: have %v, want %v", n, have, want)
				}
			}
		})
	}
}

// TestFindVisitsAsManyAsDocumented has free servers spread at random: a look-up
// visits about list length / (free in the region + 1) entries.
func TestFindVisitsAsManyAsDocumented(t *testing.T) {
	const length = 4500
	random := rand.New(rand.NewPCG(1, 2))
	for _, unused := range []int{9, 99, 449} {
		l := mms.NewList(regions, false, source())
		letters := strings.Repeat("a", unused) + strings.Repeat("A", length-unused)
		entries := laidOut(letters)
		random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		l.Register(entries...)
		all := 0
		for range unused {
			_, visited, ok := l.Find("a")
			if !ok {
				t.Fatalf("%d free: none found", unused)
			}
			all += visited
		}
		have, want := float64(all)/float64(unused), float64(length)/float64(unused+1)
		if have < .5*want || have > 1.5*want {
			t.Errorf("%d free: visited %.1f a look-up, want %.1f or so", unused, have, want)
		}
	}
}

// TestWhatIsScatteredIsFoundAsSoon has free servers of each region come in bulk to
// a list in which nobody is free, and each region looked for in turn. Left together,
// one turn is once round the list.
func TestWhatIsScatteredIsFoundAsSoon(t *testing.T) {
	const inMatches, unused, finds = 3600, 300, 3000
	const length = inMatches + 3*unused
	for _, tc := range []struct {
		name     string
		scatters bool
		want     float64 // entries visited a look-up
	}{
		{"left together", false, length / 3.},
		{"scattered", true, length / (unused + 1.)},
	} {
		l := mms.NewList(regions, false, source())
		letters := strings.Repeat("A", inMatches)
		for _, region := range regions {
			letters += strings.Repeat(region, unused)
		}
		entries := laidOut(letters)
		l.Register(entries[:inMatches]...)
		for bulk := range slices.Chunk(entries[inMatches:], unused) {
			registered := l.Register(bulk...)
			if tc.scatters {
				l.Scatter(registered)
			}
		}
		all := 0
		for n := range finds {
			e, visited, ok := l.Find(regions[n%len(regions)])
			if !ok {
				t.Fatalf("%s: none found in %s", tc.name, regions[n%len(regions)])
			}
			l.Settle(e, mms.StateFree) // so that there are always as many
			all += visited
		}
		if have := float64(all) / finds; have < .5*tc.want || have > 1.5*tc.want {
			t.Errorf("%s: visited %.1f a look-up, want %.1f or so", tc.name, have, tc.want)
		}
	}
}

// TestScatterLosesNobody scatters a part of lists, all of them, and more than they
// have.
func TestScatterLosesNobody(t *testing.T) {
	for _, tc := range []struct {
		letters string
		last    int
	}{
		{"", 0}, {"", 3}, {"a", 1}, {"aAbBcC", 0}, {"aAbBcC", 1}, {"aAbBcC", 6}, {"aAbBcC", 9},
		{strings.Repeat("A", 50) + strings.Repeat("a", 30) + strings.Repeat("b", 30), 60},
	} {
		for _, indexed := range []bool{false, true} {
			l := mms.NewList(regions, indexed, source())
			entries := laidOut(tc.letters)
			l.Register(entries...)
			l.Scatter(tc.last)
			found := map[int]bool{}
			for _, region := range regions {
				all := strings.Count(strings.ToLower(tc.letters), region)
				unused := strings.Count(tc.letters, region)
				if haveUnused, haveAll := l.Count(region); haveUnused != unused || haveAll != all {
					t.Errorf("%q, %d: %d of %d in %s are free, want %d of %d", tc.letters, tc.last, haveUnused, haveAll, region, unused, all)
				}
				for range unused {
					e, _, ok := l.Find(region)
					if !ok || found[e.Server] || e != entries[e.Server] || e.Region != region {
						t.Fatalf("%q, %d: found %v, %t in %s, want each free one once", tc.letters, tc.last, e, ok, region)
					}
					found[e.Server] = true
				}
				if e, _, ok := l.Find(region); ok {
					t.Errorf("%q, %d: found %v in %s, want no more", tc.letters, tc.last, e, region)
				}
			}
			l.Forget(entries...)
			for _, region := range regions {
				if _, all := l.Count(region); all != 0 {
					t.Errorf("%q, %d: %d are left in %s, want none", tc.letters, tc.last, all, region)
				}
			}
		}
	}
}

// TestAnEntryHoldsUnderItsEpoch has messages come late, twice and in the wrong
// order to a list that has server 0 free under epoch 5.
func TestAnEntryHoldsUnderItsEpoch(t *testing.T) {
	under := func(epoch int64) matchmaking.Entry { return matchmaking.Entry{Server: 0, Region: "a", Epoch: epoch} }
	inMatch := under(6)
	inMatch.Busy = true
	goneUnder := func(epoch int64) matchmaking.Entry {
		e := under(epoch)
		e.Gone = true
		return e
	}
	listed := func(epoch int64, state string) []matchmaking.Listed {
		return []matchmaking.Listed{{Entry: under(epoch), State: state}}
	}
	for _, tc := range []struct {
		name string
		do   func(l list)
		want []matchmaking.Listed // without what is busy
		all  int
	}{
		{"nothing", func(list) {}, listed(5, matchmaking.Free), 1},
		{"an older registration", func(l list) { l.Register(under(4)) }, listed(5, matchmaking.Free), 1},
		{"a newer one", func(l list) { l.Register(under(6)) }, listed(6, matchmaking.Free), 1},
		{"a newer one in a match", func(l list) { l.Register(inMatch) }, nil, 1},
		{"one of another region", func(l list) { l.Register(matchmaking.Entry{Server: 0, Region: "b", Epoch: 6}) },
			[]matchmaking.Listed{{Entry: matchmaking.Entry{Server: 0, Region: "b", Epoch: 6}, State: matchmaking.Free}}, 0},
		{"the same while it is reserving", func(l list) { l.Find("a"); l.Register(under(5)) }, listed(5, matchmaking.Reserving), 1},
		{"the same while it is held", func(l list) { l.Pick("a", 1, mms.StateHeld); l.Register(under(5)) }, listed(5, matchmaking.Held), 1},
		{"the same while it is busy", func(l list) { l.Settle(under(5), mms.StateBusy); l.Register(under(5)) }, nil, 1},
		{"a newer one while it is held", func(l list) { l.Pick("a", 1, mms.StateHeld); l.Register(under(6)) }, listed(6, matchmaking.Free), 1},
		{"taken under the old one", func(l list) { l.Register(under(6)); l.Settle(under(5), mms.StateBusy) }, listed(6, matchmaking.Free), 1},
		{"forgotten", func(l list) { l.Forget(under(5)) }, nil, 0},
		{"forgotten twice", func(l list) { l.Forget(under(5), under(5)) }, nil, 0},
		{"forgotten under the old one", func(l list) { l.Register(under(6)); l.Forget(under(5)) }, listed(6, matchmaking.Free), 1},
		{"the same after it was forgotten", func(l list) { l.Forget(under(5)); l.Register(under(5)) }, nil, 0},
		{"gone", func(l list) { l.Settle(under(5), mms.StateBusy); l.Register(goneUnder(5)) }, nil, 0},
		{"gone, told twice", func(l list) { l.Register(goneUnder(5), goneUnder(5)) }, nil, 0},
		{"gone under the old one", func(l list) { l.Register(under(6), goneUnder(5)) }, listed(6, matchmaking.Free), 1},
		{"gone under one that is not known yet", func(l list) { l.Register(goneUnder(6)) }, nil, 0},
		{"the same after it is gone", func(l list) { l.Register(goneUnder(5), under(5)) }, nil, 0},
		{"the same after it is gone under a newer one", func(l list) { l.Register(goneUnder(6), under(6)) }, nil, 0},
		{"a newer one after it is gone", func(l list) { l.Register(goneUnder(5), under(6)) }, listed(6, matchmaking.Free), 1},
		{"a newer one after it was forgotten", func(l list) { l.Forget(under(5)); l.Register(under(6)) }, listed(6, matchmaking.Free), 1},
	} {
		l := mms.NewList(regions, false, source())
		l.Register(under(5))
		tc.do(l)
		if have := l.Snapshot(); !slices.Equal(have, tc.want) {
			t.Errorf("%s: have %v, want %v", tc.name, have, tc.want)
		}
		if _, have := l.Count("a"); have != tc.all {
			t.Errorf("%s: have %d of the region, want %d", tc.name, have, tc.all)
		}
	}
}

// list is what tests do to one.
type list interface {
	Register(entries ...matchmaking.Entry) int
	Scatter(last int)
	Find(region string) (matchmaking.Entry, int, bool)
	Pick(region string, count int, s mms.State) []matchmaking.Entry
	Settle(e matchmaking.Entry, s mms.State)
	Forget(entries ...matchmaking.Entry)
	Count(region string) (unused, all int)
	Snapshot() []matchmaking.Listed
}

func TestPick(t *testing.T) {
	l := mms.NewList(regions, false, source())
	l.Register(laidOut("aAbaaB")...)
	for _, tc := range []struct {
		region       string
		count        int
		want, unused int
	}{
		{"c", 1, 0, 0},
		{"a", 2, 2, 1},
		{"a", 2, 1, 0},
		{"a", 2, 0, 0},
		{"b", 5, 1, 0},
	} {
		have := l.Pick(tc.region, tc.count, mms.StateHeld)
		if len(have) != tc.want {
			t.Errorf("%d of %s: have %v, want %d", tc.count, tc.region, have, tc.want)
		}
		for _, e := range have {
			if e.Region != tc.region || e.Busy {
				t.Errorf("%d of %s: have %v", tc.count, tc.region, e)
			}
		}
		if unused, _ := l.Count(tc.region); unused != tc.unused {
			t.Errorf("%d of %s: %d are left, want %d", tc.count, tc.region, unused, tc.unused)
		}
	}
}

// TestAListIsWhatWasDoneToIt compares lists with a map that the same was done to.
func TestAListIsWhatWasDoneToIt(t *testing.T) {
	const servers, deeds = 60, 5000
	states := map[mms.State]string{
		mms.StateFree: matchmaking.Free, mms.StateReserving: matchmaking.Reserving, mms.StateHeld: matchmaking.Held, mms.StateBusy: "busy",
	}
	for _, indexed := range []bool{false, true} {
		random := rand.New(rand.NewPCG(3, 4))
		l := mms.NewList(regions, indexed, source())
		model := map[int]matchmaking.Listed{}
		epochs := make([]int64, servers)
		inState := func(region, state string) (n int) {
			for _, e := range model {
				if (region == "" || e.Region == region) && (state == "" || e.State == state) {
					n++
				}
			}
			return n
		}
		for deed := range deeds {
			server := random.IntN(servers)
			region := regions[server%len(regions)]
			switch random.IntN(7) {
			case 0, 1: // registered anew
				epochs[server]++
				e := matchmaking.Entry{Server: server, Region: region, Epoch: epochs[server], Busy: random.IntN(4) == 0}
				state := matchmaking.Free
				if e.Busy {
					state = states[mms.StateBusy]
				}
				l.Register(e)
				e.Busy = false
				model[server] = matchmaking.Listed{Entry: e, State: state}
			case 2: // found
				e, visited, ok := l.Find(region)
				if want := inState(region, matchmaking.Free) > 0; ok != want {
					t.Fatalf("deed %d: found %t, want %t", deed, ok, want)
				}
				if !ok {
					if want := inState("", ""); !indexed && visited != want {
						t.Fatalf("deed %d: visited %d, want all %d", deed, visited, want)
					}
					continue
				}
				was := model[e.Server]
				if was.Entry != e || was.State != matchmaking.Free || e.Region != region {
					t.Fatalf("deed %d: found %v in %s, want a free one; it was %v", deed, e, region, was)
				}
				model[e.Server] = matchmaking.Listed{Entry: e, State: matchmaking.Reserving}
			case 3: // picked
				count := random.IntN(4)
				want := min(count, inState(region, matchmaking.Free))
				have := l.Pick(region, count, mms.StateHeld)
				if len(have) != want {
					t.Fatalf("deed %d: picked %v, want %d", deed, have, want)
				}
				for _, e := range have {
					if was := model[e.Server]; was.Entry != e || was.State != matchmaking.Free {
						t.Fatalf("deed %d: picked %v, want a free one; it was %v", deed, e, was)
					}
					model[e.Server] = matchmaking.Listed{Entry: e, State: matchmaking.Held}
				}
			case 4: // settled
				was, listed := model[server]
				if !listed {
					continue
				}
				to := []mms.State{mms.StateFree, mms.StateBusy}[random.IntN(2)]
				l.Settle(was.Entry, to)
				was.State = states[to]
				model[server] = was
			case 5: // forgotten
				l.Forget(model[server].Entry)
				delete(model, server)
			case 6: // scattered, which changes nothing but the order
				l.Scatter(random.IntN(servers))
			}
			for _, region := range regions {
				unused, all := l.Count(region)
				if wantUnused, wantAll := inState(region, matchmaking.Free), inState(region, ""); unused != wantUnused || all != wantAll {
					t.Fatalf("deed %d: %d of %d in %s are free, want %d of %d", deed, unused, all, region, wantUnused, wantAll)
				}
			}
		}
		want := []matchmaking.Listed{}
		for _, e := range model {
			if e.State != states[mms.StateBusy] {
				want = append(want, e)
			}
		}
		have := l.Snapshot()
		byServer := func(a, b matchmaking.Listed) int { return a.Server - b.Server }
		slices.SortFunc(have, byServer)
		slices.SortFunc(want, byServer)
		if !slices.Equal(have, want) {
			t.Errorf("indexed %t: have %v, want %v", indexed, have, want)
		}
	}
}

func TestOnlyTheLatestAnswersAreRemembered(t *testing.T) {
	as := mms.NewAnswers(3)
	for n, tc := range []struct {
		id    string
		first bool
	}{
		{"a", true}, {"a", false}, {"b", true}, {"c", true}, {"a", false},
		{"d", true}, // in the place of a
		{"b", false}, {"c", false}, {"d", false},
		{"a", true}, // in the place of b
		{"c", false}, {"b", true}, {"c", true}, {"d", true}, {"b", false},
	} {
		if have := as.First(tc.id); have != tc.first {
			t.Errorf("%d: %s is new: have %t, want %t", n, tc.id, have, tc.first)
		}
	}
}
