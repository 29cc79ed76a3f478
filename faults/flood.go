package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"relapse/topologies"
)

// question is what a flood repeats, by protocol. One at a time would wait for
// each answer; sent ahead of the answers, as all of these protocols allow, they
// fill any link.
func question(ask topologies.Probe) (string, bool) {
	switch ask.Protocol {
	case "memcached":
		return "version\r\n", true
	case "redis":
		return "PING\r\n", true
	case "http":
		return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: relapse\r\nUser-Agent: relapse-probe\r\n\r\n", ask.Path), true
	}
	return "", false
}

// flood asks as fast as answers are taken until that many bytes of answers came
// back or the time is over, and gives the bytes. It goes on with a new
// connection when the server ends one, as some do after so many requests.
func flood(ctx context.Context, dial dialer, ask topologies.Probe, bytes int, lasts time.Duration) (int, error) {
	within, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	got := 0
	for got < bytes && within.Err() == nil {
		conn, err := dial(within)
		if err == nil {
			var n int
			n, err = floodConnection(within, conn, ask, bytes-got)
			got += n
			if n == 0 && err == nil {
				err = io.ErrUnexpectedEOF
			}
		}
		if err != nil && !unanswered(err) {
			return got, outer(ctx, err)
		}
	}
	if ctx.Err() != nil {
		return got, outer(ctx, ctx.Err())
	}
	return got, nil
}

func floodConnection(ctx context.Context, conn net.Conn, ask topologies.Probe, bytes int) (int, error) {
	one, ok := question(ask)
	if !ok {
		return 0, fmt.Errorf("protocol %q has no question that can be asked ahead", ask.Protocol)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		ahead := strings.Repeat(one, max(1, 4096/len(one)))
		for {
			if _, err := io.WriteString(conn, ahead); err != nil {
				return // the reader meets the same end and tells of it
			}
		}
	}()
	got := 0
	var err error
	buffer := make([]byte, 64<<10)
	for got < bytes && err == nil {
		var n int
		n, err = conn.Read(buffer)
		got += n
	}
	_ = conn.Close() // ends the writer
	<-written
	if errors.Is(err, io.EOF) || reset(err) && got > 0 {
		err = nil
	}
	return got, err
}
