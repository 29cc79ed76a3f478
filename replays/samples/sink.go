package samples

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// sink collects one scrape of one node and stores it at once. It remembers the
// series of earlier scrapes, so that a scrape costs a look-up a sample and
// makes no labels.
type sink struct {
	store   *Store
	node    string
	host    string // "" for none
	refs    map[string]*series
	points  []sinkPoint
	key     []byte
	builder labels.Builder
}

type sinkPoint struct {
	series *series
	v      float64
}

func newSink(s *Store, node, host string) *sink {
	return &sink{store: s, node: node, host: host, refs: map[string]*series{}}
}

func (k *sink) reset() { k.points = k.points[:0] }

// add adds a value with labels as name, value, name, value...
func (k *sink) add(v float64, name string, pairs ...string) {
	k.key = append(k.key[:0], name...)
	for _, p := range pairs {
		k.key = append(k.key, 0xff) // in no UTF-8 text, so that no two keys are alike
		k.key = append(k.key, p...)
	}
	ref, ok := k.refs[string(k.key)]
	if !ok {
		b := labels.NewScratchBuilder(len(pairs)/2 + 1)
		b.Add(labels.MetricName, name)
		for i := 0; i+1 < len(pairs); i += 2 {
			b.Add(pairs[i], pairs[i+1])
		}
		b.Sort()
		ref = k.remember(string(k.key), b.Labels())
	}
	k.points = append(k.points, sinkPoint{ref, v})
}

// addText adds a value of the series that a text spells as raw; what gives its
// labels is only asked the first time.
func (k *sink) addText(v float64, raw []byte, what func(*labels.Labels)) {
	ref, ok := k.refs[string(raw)]
	if !ok {
		var l labels.Labels
		what(&l)
		ref = k.remember(string(raw), l)
	}
	k.points = append(k.points, sinkPoint{ref, v})
}

// remember finds the series of the given labels and the sink's node and host. A
// label of that name that came with them is kept as exported_node or
// exported_host, as Prometheus would.
func (k *sink) remember(key string, l labels.Labels) *series {
	k.builder.Reset(l)
	set := func(name, value string) {
		if own := l.Get(name); own != "" {
			k.builder.Set("exported_"+name, own)
		}
		k.builder.Set(name, value)
	}
	set("node", k.node)
	if k.host != "" {
		set("host", k.host)
	}
	k.store.mu.Lock()
	ref := k.store.find(k.builder.Labels())
	k.store.mu.Unlock()
	k.refs[key] = ref
	return ref
}

func (k *sink) commit(at time.Time) {
	t := at.UnixMilli()
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	for _, p := range k.points {
		p.series.append(point{t, p.v})
	}
}
