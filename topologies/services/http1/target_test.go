package http1_test

import (
	"errors"
	"testing"

	"relapse/topologies/services/http1"
)

func TestLookUp(t *testing.T) {
	for _, tc := range []struct {
		target, address, host string
		foreign, refused      bool
	}{
		{target: "http://127.0.0.1:8080", address: "127.0.0.1:8080", host: "127.0.0.1:8080"},
		{target: "http://127.0.0.1/path", address: "127.0.0.1:80", host: "127.0.0.1"},
		{target: "http://[::ffff:127.0.0.1]:1", address: "127.0.0.1:1", host: "[::ffff:127.0.0.1]:1"},
		{target: "http://203.0.113.1:80", foreign: true}, // set aside for documentation: no interface has it
		{target: "http://[2001:db8::1]:80", foreign: true},
		{target: "http://198.51.100.7", foreign: true},
		{target: "http://[::ffff:203.0.113.1]:80", foreign: true}, // one of the above in other clothes
		{target: "http://127.0.0.1:80 80", refused: true},
		{target: "http://127.0.0.1:99999", refused: true},
		{target: "http://", refused: true},
	} {
		address, host, err := http1.LookUp(t.Context(), tc.target)
		switch {
		case tc.foreign:
			if !errors.Is(err, http1.ErrForeignTarget) {
				t.Errorf("%s: have %v, want ErrForeignTarget", tc.target, err)
			}
		case tc.refused:
			if err == nil || errors.Is(err, http1.ErrForeignTarget) {
				t.Errorf("%s: have %v, want it refused for what it is", tc.target, err)
			}
		case err != nil || address.String() != tc.address || host != tc.host:
			t.Errorf("%s: have %s and %s (%v), want %s and %s", tc.target, address, host, err, tc.address, tc.host)
		}
	}
}
