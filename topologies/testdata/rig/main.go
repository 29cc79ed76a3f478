// Command rig is the small program that the tests of package topologies run
// inside and beside containers: a server to look at from outside, the watchdog,
// and a tool that starts a topology and waits to be killed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"relapse/topologies"
	"relapse/topologies/relay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		os.Exit(7)
	}
}

func run(ctx context.Context, args []string) error {
	switch args[0] {
	case "serve":
		return serve(ctx)
	case "mute":
		fmt.Println("listening to nobody")
		<-ctx.Done()
		return nil
	case "crash":
		fmt.Println("about to crash")
		return fmt.Errorf("crashed as told")
	case "watchdog":
		return topologies.Watchdog(args[1], os.Stdin)
	case "node":
		return topologies.RunNode(args[1])
	case "namespaces":
		return topologies.TryNamespaces()
	case "relay":
		var config relay.Config
		if err := json.Unmarshal([]byte(args[2]), &config); err != nil {
			return err
		}
		return relay.Serve(ctx, config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	case "start":
		return start(ctx, args[1], args[2])
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// held is memory that nothing gives back.
var held []byte

// serve answers questions about the place where it runs.
func serve(ctx context.Context) error {
	http.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(r.FormValue("path"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(content)
	})
	http.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, os.WriteFile(r.FormValue("path"), []byte("x"), 0o600))
	})
	http.HandleFunc("/lookup", func(w http.ResponseWriter, r *http.Request) {
		addresses, err := net.DefaultResolver.LookupHost(r.Context(), r.FormValue("name"))
		fmt.Fprint(w, addresses, err)
	})
	http.HandleFunc("/burn", func(w http.ResponseWriter, r *http.Request) {
		lasts, err := time.ParseDuration(r.FormValue("for"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		rounds := 0
		for until := time.Now().Add(lasts); time.Now().Before(until); rounds++ {
		}
		fmt.Fprint(w, strconv.Itoa(rounds))
	})
	http.HandleFunc("/fill", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("bytes"))
		if err == nil {
			err = os.WriteFile(r.FormValue("path"), make([]byte, n), 0o600)
		}
		fmt.Fprint(w, err)
	})
	http.HandleFunc("/grow", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("bytes"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		held = make([]byte, n)
		for i := 0; i < n; i += os.Getpagesize() {
			held[i] = 1 // the kernel gives a page when it is first written to
		}
		fmt.Fprint(w, len(held))
	})
	http.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil {
			code = 99
		}
		os.Exit(code)
	})
	fmt.Println("serving")
	server := &http.Server{Addr: ":8080"}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// start starts the topology of a JSON file and waits for its own end.
func start(ctx context.Context, id, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var t topologies.Topology
	if err := json.Unmarshal(content, &t); err != nil {
		return err
	}
	fmt.Println("starting")
	driver := topologies.Docker
	if topologies.InNamespaces() {
		driver = topologies.Process
	}
	system, err := topologies.Start(ctx, &t, topologies.Options{Run: id, Driver: driver})
	if err != nil {
		return err
	}
	fmt.Println("started")
	<-ctx.Done()
	return system.Stop(ctx)
}
