package front

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseRoute reads a route as a flag has it, such as
// playground=mms-1:8080,mms-2:8080.
func ParseRoute(s string) (mode string, nodes []string, err error) {
	mode, list, ok := strings.Cut(s, "=")
	if !ok || mode == "" || list == "" {
		return "", nil, fmt.Errorf("route %q: want MODE=HOST:PORT,HOST:PORT", s)
	}
	for node := range strings.SplitSeq(list, ",") {
		nodes = append(nodes, strings.TrimSpace(node))
	}
	return mode, nodes, nil
}

// ParseWhere reads a mode, or one region of it: playground, or playground/eu.
func ParseWhere(s string) (Where, error) {
	mode, region, cut := strings.Cut(s, "/")
	if mode == "" || cut && region == "" {
		return Where{}, fmt.Errorf("%q: want MODE or MODE/REGION", s)
	}
	return Where{mode, region}, nil
}

// ParseLimit reads how many requests a second are admitted for a region of a
// mode, such as playground/eu=100.
func ParseLimit(s string) (Where, int, error) {
	place, number, ok := strings.Cut(s, "=")
	if !ok {
		return Where{}, 0, fmt.Errorf("limit %q: want MODE/REGION=N", s)
	}
	where, err := ParseWhere(place)
	if err != nil {
		return Where{}, 0, fmt.Errorf("limit %w", err)
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return Where{}, 0, fmt.Errorf("limit %q: %w", s, err)
	}
	return where, n, nil
}

// ParseMisroute reads which mode's requests carry which other mode's flag, and what
// percentage of them, all if it is left out: playground=default:10.
func ParseMisroute(s string) (mode string, m Misroute, err error) {
	mode, rest, ok := strings.Cut(s, "=")
	to, percent, some := strings.Cut(rest, ":")
	if !ok || mode == "" || to == "" {
		return "", Misroute{}, fmt.Errorf("misroute %q: want MODE=MODE or MODE=MODE:PERCENT", s)
	}
	m = Misroute{To: to, Percent: 100}
	if some {
		if m.Percent, err = strconv.ParseFloat(percent, 64); err != nil {
			return "", Misroute{}, fmt.Errorf("misroute %q: %w", s, err)
		}
	}
	return mode, m, nil
}
