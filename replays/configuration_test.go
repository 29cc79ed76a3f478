package replays_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"relapse/replays"
	"relapse/topologies"
)

// fill sets a field to something that is not its default.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("z")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint16:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf("value"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		fill(v.Field(0))
	}
}

// TestEverySettingCounts holds that whatever a node or a host can be set to is a
// part of its configuration, also what is added later, but for how it is measured.
func TestEverySettingCounts(t *testing.T) {
	rehearsal := []string{"Metrics", "Operations", "Probe", "Agent", "Front", "Fleet"}
	node := func(n topologies.Node) replays.Configuration {
		return replays.ConfigurationOf(&topologies.Topology{Nodes: []topologies.Node{n}}, nil)
	}
	base := topologies.Node{Name: "a", Image: "x"}
	for n := range reflect.TypeFor[topologies.Node]().NumField() {
		changed := base
		fill(reflect.ValueOf(&changed).Elem().Field(n))
		name := reflect.TypeFor[topologies.Node]().Field(n).Name
		if differs := len(node(base).Drift(node(changed))) > 0; differs == slices.Contains(rehearsal, name) {
			t.Errorf("a node's %s makes a difference: %t", name, differs)
		}
	}
	host := func(h topologies.Host) replays.Configuration {
		return replays.ConfigurationOf(&topologies.Topology{Hosts: []topologies.Host{h}}, nil)
	}
	small := topologies.Host{Name: "h", Memory: 1}
	for n := range reflect.TypeFor[topologies.Host]().NumField() {
		changed := small
		fill(reflect.ValueOf(&changed).Elem().Field(n))
		if len(host(small).Drift(host(changed))) == 0 {
			t.Errorf("a host's %s makes no difference", reflect.TypeFor[topologies.Host]().Field(n).Name)
		}
	}
	linked := replays.ConfigurationOf(&topologies.Topology{Links: []topologies.Link{{Client: "a", Server: "b", Port: 1}}}, nil)
	if d := (replays.Configuration{}).Drift(linked); len(d) != 1 || d[0].String() != "link a -> b:1: tested nothing, deployed true" {
		t.Errorf("a link more makes the differences %v", d)
	}
}

func TestDriftOfImages(t *testing.T) {
	topology := &topologies.Topology{Nodes: []topologies.Node{{Name: "a", Image: "redis:7"}, {Name: "b", Image: topologies.OwnImage}}}
	of := func(redis, own string) replays.Configuration {
		var uses []topologies.ImageUse
		if redis != "" {
			uses = append(uses, topologies.ImageUse{Ref: "redis:7", Digest: redis})
		}
		// The image is one, whatever build is mounted into it.
		if own != "" {
			uses = append(uses, topologies.ImageUse{Ref: topologies.OwnImage, Digest: "sha256:base", Versions: map[string]string{"relapse": own}})
		}
		return replays.ConfigurationOf(topology, uses)
	}
	for _, tc := range []struct {
		name             string
		tested, deployed replays.Configuration
		want             string // differences; and what is not compared
	}{
		{"the same", of("1", "2"), of("1", "2"), ""},
		{"another image under the same name", of("1", "2"), of("3", "2"), "image digest redis:7: tested 1, deployed 3"},
		{"another build of our own", of("1", "2"), of("1", "4"), "image digest relapse: tested 2, deployed 4"},
		{"an image that this machine has not", of("1", "2"), of("", "2"), "not compared: redis:7"},
		{"an image that was not known then", of("", "2"), of("1", "2"), ""},
	} {
		var have []string
		for _, d := range tc.tested.Drift(tc.deployed) {
			have = append(have, d.String())
		}
		if images := tc.tested.UnknownImages(tc.deployed); len(images) > 0 {
			have = append(have, "not compared: "+strings.Join(images, ", "))
		}
		if have := strings.Join(have, "; "); have != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, have, tc.want)
		}
	}
}

// TestConfigurationDigest holds that a digest depends on what is set and on nothing
// else.
func TestConfigurationDigest(t *testing.T) {
	a := replays.Configuration{"node a cpus": "1", "node b cpus": "2"}
	b := replays.Configuration{"node b cpus": "2", "node a cpus": "1"}
	c := replays.Configuration{"node a cpus": "2", "node b cpus": "1"}
	if a.Digest() != b.Digest() || a.Digest() == c.Digest() || !strings.HasPrefix(a.Digest(), "sha256:") {
		t.Errorf("digests %s, %s, %s: want the first two alike", a.Digest(), b.Digest(), c.Digest())
	}
}
