package platform

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/limits"
	"relapse/topologies/services/platform/api"
)

// defaultPort is where a peer is asked whose address is not given, at the node of its
// name.
const defaultPort = "8080"

func init() {
	services.Register("platform", "the services between players, game servers and the store: one role or all of them", run)
}

// options are what the flags say, before addresses are looked up.
type options struct {
	listen, metricsAt string
	roles, limit      string
	peers             map[string]string // host:port
	config            Config
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.listen, err)
	}
	defer listener.Close()
	if o.config.Peers, err = o.lookUp(listener.Addr()); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	p, err := New(o.config, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.ServeListener(ctx, listener, p.Handler()) })
	group.Go(func() error { return services.Serve(ctx, o.metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return p.Run(ctx) })
	return group.Wait()
}

func parse(args []string) (*options, error) {
	o := &options{peers: map[string]string{}, config: Config{
		Costs: map[string]time.Duration{Origin: DefaultOriginTakes},
		Log:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}}
	flags := flag.NewFlagSet("platform", flag.ContinueOnError)
	o.flags(flags)
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.roles == "all" {
		o.config.Roles = Roles()
	} else {
		for name := range strings.SplitSeq(o.roles, ",") {
			o.config.Roles = append(o.config.Roles, strings.TrimSpace(name))
		}
	}
	var err error
	if o.config.Limits, err = limits.Parse(o.limit, o.config.Roles); err != nil {
		return nil, fmt.Errorf("--limit: %w", err)
	}
	return o, nil
}

// lookUp finds whom the roles ask: at the address that is given, in this process, or
// at the node that has their name.
func (o *options) lookUp(own net.Addr) (map[string]*api.Client, error) {
	found := map[string]*api.Client{}
	for _, name := range Peers(o.config.Roles) {
		address, given := o.peers[name]
		switch {
		case given:
		case slices.Contains(o.config.Roles, name):
			address = loopback(own)
		default:
			address = net.JoinHostPort(name, defaultPort)
		}
		client, err := api.NewClient(address, "relapse-platform")
		if err != nil {
			return nil, fmt.Errorf("--peer %s=%s: %w", name, address, err)
		}
		found[name] = client
	}
	return found, nil
}

// loopback is where a process reaches itself.
func loopback(own net.Addr) string {
	at, tcp := own.(*net.TCPAddr)
	if !tcp || !at.IP.IsUnspecified() {
		return own.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
}

// pair reads NAME=VALUE.
func pair(s string) (name, value string, err error) {
	name, value, found := strings.Cut(s, "=")
	if !found || name == "" || value == "" {
		return "", "", fmt.Errorf("%q: want NAME=VALUE", s)
	}
	return name, value, nil
}
