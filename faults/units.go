package faults

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/goccy/go-yaml/ast"
)

// Rate is an amount of data per second, in bytes. Incident files write it in
// bits or bytes with a decimal prefix: "2.5Mbit" is 312500 bytes a second,
// "300kB" is 300000.
type Rate float64

// Percent is a share in percent: "2%" is 2.
type Percent float64

// Size is an amount of memory in bytes. Incident files write it as compose files
// do: "64m" is 64 MiB.
type Size int64

// UnitError is a value that cannot be read in its unit.
type UnitError struct {
	Text    string // what was written
	Problem string // "is not a rate"
	Hint    string // what would be right
}

func (e *UnitError) Error() string {
	return fmt.Sprintf("%q %s: %s", e.Text, e.Problem, e.Hint)
}

// rateUnits are in bytes per second; longer names come before their endings.
var rateUnits = []struct {
	name  string
	bytes float64
}{
	{"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}, {"kbit", 1e3 / 8}, {"bit", 1.0 / 8},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

const (
	rateHint     = "write a number and bit, kbit, Mbit, Gbit, B, kB, MB or GB (per second): 2.5Mbit, 300kB"
	sizeHint     = "write a number and k, m or g, as in a compose file: 64m, 1g"
	percentHint  = "write a number and %: 2%, 0.5%"
	durationHint = "write a number and ms, s, m or h: 100ms, 1.5s"
)

// ParseRate reads a rate. The prefixes are decimal and the case matters, since
// Mb and MB have been confused often enough; "/s" at the end is allowed.
func ParseRate(text string) (Rate, error) {
	trimmed := strings.TrimSuffix(strings.TrimSpace(text), "/s")
	for _, u := range rateUnits {
		number, ok := strings.CutSuffix(trimmed, u.name)
		if !ok {
			continue
		}
		value, ok := parseNumber(number)
		bytes := value * u.bytes
		if !ok || math.IsInf(bytes, 0) {
			break
		}
		return Rate(bytes), nil
	}
	return 0, &UnitError{text, "is not a rate", rateHint}
}

// ParseSize reads a size as Compose does, in powers of 1024. A number without a
// unit is refused: it would be bytes, which hardly anybody means.
func ParseSize(text string) (Size, error) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || strings.ContainsAny(trimmed[len(trimmed)-1:], "0123456789.") {
		return 0, &UnitError{text, "is not a size", sizeHint}
	}
	bytes, err := units.RAMInBytes(trimmed)
	// What no number of bytes can hold comes out as one of them, which depends on
	// the machine.
	if err != nil || bytes < 0 || bytes == math.MaxInt64 {
		return 0, &UnitError{text, "is not a size", sizeHint}
	}
	return Size(bytes), nil
}

// ParsePercent reads a percentage.
func ParsePercent(text string) (Percent, error) {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	if ok {
		if value, ok := parseNumber(number); ok {
			return Percent(value), nil
		}
	}
	return 0, &UnitError{text, "is not a percentage", percentHint}
}

// parseNumber takes finite numbers only.
func parseNumber(text string) (float64, bool) {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return value, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return 0, &UnitError{text, "is not a duration", durationHint}
	}
	return d, nil
}

// String writes the rate in the largest unit of bits that keeps it above one.
func (r Rate) String() string {
	bits := float64(r) * 8
	for _, u := range []struct {
		name string
		bits float64
	}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}} {
		if math.Abs(bits) >= u.bits {
			return strconv.FormatFloat(bits/u.bits, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(bits, 'g', 4, 64) + "bit"
}

// String writes the size in the largest unit that keeps it above one.
func (s Size) String() string {
	return units.CustomSize("%.4g%s", float64(s), 1024, []string{"B", "k", "m", "g", "t"})
}

func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'g', 4, 64) + "%" }

// UnmarshalYAML reads the rate.
func (r *Rate) UnmarshalYAML(node ast.Node) (err error) {
	*r, err = ParseRate(node.GetToken().Value)
	return err
}

// UnmarshalYAML reads the size.
func (s *Size) UnmarshalYAML(node ast.Node) (err error) {
	*s, err = ParseSize(node.GetToken().Value)
	return err
}

// UnmarshalYAML reads the percentage.
func (p *Percent) UnmarshalYAML(node ast.Node) (err error) {
	*p, err = ParsePercent(node.GetToken().Value)
	return err
}
