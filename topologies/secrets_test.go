package topologies_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"relapse/topologies"
)

func TestSecret(t *testing.T) {
	for name, want := range map[string]bool{
		"POSTGRES_PASSWORD": true, "redis_passwd": true, "PASSPHRASE": true, "CLIENT_SECRET": true, "AUTH_TOKEN": true, "token": true,
		"KEY": true, "API_KEY": true, "APIKEY": true, "ssh-key": true, "KEY_ID": true, "KEYS": true, "Credentials": true,
		"POSTGRES_USER": false, "GOMAXPROCS": false, "MONKEY": false, "KEYSPACE": false, "PASS_THROUGH": false, "": false,
	} {
		if have := topologies.Secret(name); have != want {
			t.Errorf("%s: have %t, want %t", name, have, want)
		}
	}
}

func TestSecretsOfATopology(t *testing.T) {
	topology := &topologies.Topology{Nodes: []topologies.Node{
		{Name: "database", Image: "postgres:15", Environment: map[string]string{
			"POSTGRES_PASSWORD": "correct horse", "POSTGRES_DB": "matches-of-today",
			"ADMIN_PASSWORD": "database", // the node's name: told apart from it by nobody
			"OTHER_PASSWORD": "matches",  // a part of what is no secret
			"SHORT_TOKEN":    "12345",    // stands for much else
			"TLS_KEY":        "line-one\nline-two-is-longer\n",
		}},
		{Name: "web", Image: "nginx:1.22.1", Environment: map[string]string{"DATABASE_PASSWORD": "correct horse", "COPY_OF_TOKEN": topologies.Masked}},
	}}
	want := []string{"line-two-is-longer", "correct horse", "line-one"}
	if have := topology.Secrets(); !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

func TestMaskFile(t *testing.T) {
	const head = "services:\n  db:\n    image: postgres:15\n    expose: [5432]\n"
	for _, tc := range []struct {
		name, file string
		have, want string
	}{
		{"no secrets", "compose.yaml", "    environment: {POSTGRES_USER: us}\n", ""},
		{"plain, with what is around it", "compose.yaml",
			"    environment: # how to sign in\n      POSTGRES_PASSWORD: hunter2  # of old\n      POSTGRES_DB: hunter2\n",
			"    environment: # how to sign in\n      POSTGRES_PASSWORD: masked  # of old\n      POSTGRES_DB: hunter2\n"},
		{"in a flow", "compose.yaml", "    environment: {A_TOKEN: abc, B: abc, C_KEY: 12}\n", "    environment: {A_TOKEN: masked, B: abc, C_KEY: masked}\n"},
		{"in double quotes", "compose.yaml", `    environment: {PASSWORD: "a\"b: 'c' #d", B: "a"}` + "\n", `    environment: {PASSWORD: "masked", B: "a"}` + "\n"},
		{"in single quotes", "compose.yaml", "    environment: {PASSWORD: 'it''s \"x\"', B: 'a'}\n", "    environment: {PASSWORD: 'masked', B: 'a'}\n"},
		{"in a list", "compose.yaml", "    environment:\n      - POSTGRES_PASSWORD=a=b\n      - B=a\n      - \"SECRET=c d\"\n", "    environment:\n      - POSTGRES_PASSWORD=masked\n      - B=a\n      - \"SECRET=masked\"\n"},
		{"by an alias", "compose.yaml", "    environment: {PASSWORD: *word}\nx-word: &word never\n", "\x00"}, // an alias before its anchor is no YAML
		{"behind letters that take two bytes", "compose.yaml", "    environment: {WER: \"schön\", PASSWORD: größer, B: größer}\n", "    environment: {WER: \"schön\", PASSWORD: masked, B: größer}\n"},
		{"empty", "compose.yaml", "    environment: {PASSWORD: \"\"}\n", ""},
		{"masked already", "compose.yaml", "    environment: {PASSWORD: \"masked\", A_TOKEN: masked}\n", ""},
		{"an argument, which is no variable", "compose.yaml", "    command: [serve, --token=abc]\n", ""},
		{"in an overlay", "overlays/x.yaml", "    environment: {PASSWORD: a}\n", "    environment: {PASSWORD: masked}\n"},
		{"in another file", "conf/x.yaml", "    environment: {PASSWORD: a}\n", ""},
		{"in a file that only ends so", "conf/compose.yaml", "    environment: {PASSWORD: a}\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := head + tc.want
			switch tc.want {
			case "":
				want = head + tc.have
			case "\x00":
				want = "# This file could not be read, and nothing used it.\n"
			}
			have, err := topologies.MaskFile(tc.file, "mine/"+tc.file, []byte(head+tc.have))
			if err != nil {
				t.Fatal(err)
			}
			if string(have) != want {
				t.Errorf("have\n%s\nwant\n%s", have, want)
			}
			if again, err := topologies.MaskFile(tc.file, "mine/"+tc.file, have); err != nil || string(again) != want {
				t.Errorf("once more it is\n%s, %v", again, err)
			}
		})
	}
}

// TestMaskFileOfAnchors holds that what an alias stands for is masked where it is
// written, and what no service uses too.
func TestMaskFileOfAnchors(t *testing.T) {
	const have = `x-word: &word never
x-unused: {DB_PASSWORD: neither}
x-both: &both {PASSWORD: nor, B: b}
services:
  a: {image: one, environment: {PASSWORD: *word}}
  b: {image: two, environment: {<<: *both, C: *word}}
`
	want := strings.NewReplacer("never", "masked", "neither", "masked", "nor,", "masked,").Replace(have)
	masked, err := topologies.MaskFile("compose.yaml", "compose.yaml", []byte(have))
	if err != nil || string(masked) != want {
		t.Errorf("have\n%s, %v\nwant\n%s", masked, err, want)
	}
}

func TestMaskFileRefuses(t *testing.T) {
	const head = "services:\n  db:\n    image: postgres:15\n    environment:\n"
	for _, tc := range []struct{ name, have string }{
		{"a block of text", "      TLS_KEY: |\n        line one\n        line two\n"},
		{"text over several lines", "      PASSWORD: one\n        two\n"},
		{"quotes over several lines", "      PASSWORD: \"one\n        two\"\n"},
	} {
		masked, err := topologies.MaskFile("compose.yaml", "mine/compose.yaml", []byte(head+tc.have))
		var placed *topologies.FileError
		if !errors.As(err, &placed) || placed.File != "mine/compose.yaml" || placed.Line < 5 || placed.Hint == "" {
			t.Errorf("%s: have\n%s, %v; want that it is refused, with its place and what to do", tc.name, masked, err)
		}
	}
}
