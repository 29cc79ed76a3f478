package relay

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// tableName is the one table that the relay keeps in its network namespace.
const tableName = "relapse"

// rules are the packet filter's rules of all links. They live in the kernel:
// nothing of them is remembered here, so what State says is what is.
//
//	input   packets of clients:     ip daddr LINK tcp dport PORT
//	output  packets to the clients: ip saddr LINK tcp sport PORT
type rules struct {
	mu     sync.Mutex
	table  *nftables.Table
	input  *nftables.Chain
	output *nftables.Chain
}

func newRules(table string) *rules {
	t := &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}
	accept := nftables.ChainPolicyAccept
	chain := func(name string, hook *nftables.ChainHook) *nftables.Chain {
		return &nftables.Chain{
			Name: name, Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: hook, Priority: nftables.ChainPriorityFilter, Policy: &accept,
		}
	}
	return &rules{
		table:  t,
		input:  chain("input", nftables.ChainHookInput),
		output: chain("output", nftables.ChainHookOutput),
	}
}

// do runs one batch, which the kernel takes as a whole or not at all.
func (r *rules) do(fill func(*nftables.Conn) error) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	if err := fill(conn); err != nil {
		return err
	}
	return conn.Flush()
}

// create makes the table anew: what a relay before this one left is gone.
func (r *rules) create() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.do(func(c *nftables.Conn) error {
		c.AddTable(r.table) // so that deleting it cannot fail
		c.DelTable(r.table)
		c.AddTable(r.table)
		c.AddChain(r.input)
		c.AddChain(r.output)
		return nil
	})
}

// remove takes the table away, with all rules.
func (r *rules) remove() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.do(func(c *nftables.Conn) error { c.DelTable(r.table); return nil })
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return err
}

// add puts rules in force, in place of those of the same names if there are any.
func (r *rules) add(l Link, all ...Rule) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var old []*nftables.Rule
	for _, rule := range all {
		found, err := r.find(l.Name, rule.Name)
		if err != nil {
			return err
		}
		old = append(old, found...)
	}
	return r.do(func(c *nftables.Conn) error {
		for _, o := range old {
			if err := c.DelRule(o); err != nil {
				return err
			}
		}
		for _, rule := range all {
			comment, err := comment(l.Name, rule)
			if err != nil {
				return err
			}
			c.AddRule(&nftables.Rule{Table: r.table, Chain: r.input, Exprs: inward(l.Listen, rule), UserData: comment})
			if exprs := outward(l.Listen, rule); exprs != nil {
				c.AddRule(&nftables.Rule{Table: r.table, Chain: r.output, Exprs: exprs, UserData: comment})
			}
		}
		return nil
	})
}

// removeRule is idempotent.
func (r *rules) removeRule(link, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, err := r.find(link, name)
	if err != nil || len(old) == 0 {
		return err
	}
	return r.do(func(c *nftables.Conn) error {
		for _, o := range old {
			if err := c.DelRule(o); err != nil {
				return err
			}
		}
		return nil
	})
}

// find gives the rules of a link with a name; any name if that is empty.
func (r *rules) find(link, name string) ([]*nftables.Rule, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	var out []*nftables.Rule
	for _, chain := range []*nftables.Chain{r.input, r.output} {
		all, err := conn.GetRules(r.table, chain)
		if err != nil {
			return nil, fmt.Errorf("reading the rules of chain %s: %w", chain.Name, err)
		}
		for _, rule := range all {
			_, ruleName, ruleLink, ok := parseComment(rule.UserData)
			if ok && ruleLink == link && (name == "" || ruleName == name) {
				rule.Chain = chain
				rule.Table = r.table
				out = append(out, rule)
			}
		}
	}
	return out, nil
}

// read gives the rules of a link as the kernel holds them.
func (r *rules) read(link string) ([]RuleState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, err := r.find(link, "")
	if err != nil {
		return nil, err
	}
	var out []RuleState
	at := map[string]int{}
	for _, rule := range found {
		action, name, _, _ := parseComment(rule.UserData)
		i, seen := at[name]
		if !seen {
			i = len(out)
			at[name] = i
			out = append(out, RuleState{Rule: Rule{Name: name, Action: action}})
		}
		s := &out[i]
		for j, e := range rule.Exprs {
			switch e := e.(type) {
			case *expr.Counter:
				s.Packets += e.Packets
				s.Bytes += e.Bytes
			case *expr.Limit:
				s.Limit = int(e.Rate)
			case *expr.Numgen:
				if j+1 < len(rule.Exprs) {
					if cmp, ok := rule.Exprs[j+1].(*expr.Cmp); ok && len(cmp.Data) == 4 {
						s.Percent = float64(binaryutil.BigEndian.Uint32(cmp.Data)) / lossSteps * 100
					}
				}
			}
		}
	}
	return out, nil
}

// comment names a rule in the kernel: "action name @ link", which the tool nft
// shows.
func comment(link string, rule Rule) ([]byte, error) {
	text := fmt.Sprintf("%s %s @ %s\x00", rule.Action, rule.Name, link)
	const most = 253 // of the kernel's 256, less the type and length of the entry
	if len(text) > most {
		return nil, fmt.Errorf("rule %s: its name and the link's are %d bytes too long together", rule.Name, len(text)-most)
	}
	return userdata.Append(nil, userdata.TypeComment, []byte(text)), nil
}

func parseComment(data []byte) (action Action, name, link string, ok bool) {
	text := string(bytes.TrimRight(userdata.Get(data, userdata.TypeComment), "\x00"))
	head, link, ok := strings.Cut(text, " @ ")
	if !ok {
		return "", "", "", false
	}
	a, name, ok := strings.Cut(head, " ")
	return Action(a), name, link, ok
}

// lossSteps is the modulus of the draw: a step is 0.01 %.
const lossSteps = 10000

const (
	reg0 = unix.NFT_REG32_00

	// markFull is the mark of a link's listening socket while the link has as
	// many connections as its cap allows.
	markFull = 0x66756c6c

	ipProtocol = 9
	ipSource   = 12
	ipTarget   = 16
	tcpSource  = 0
	tcpTarget  = 2
	tcpFlags   = 13
	flagSYN    = 0x02
	flagRST    = 0x04
	flagACK    = 0x10
)

func load(base expr.PayloadBase, offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: reg0, Base: base, Offset: offset, Len: length}
}

func compare(op expr.CmpOp, data ...byte) expr.Any {
	return &expr.Cmp{Op: op, Register: reg0, Data: data}
}

func matchEnd(addr netip.AddrPort, ipOffset, portOffset uint32) []expr.Any {
	ip := addr.Addr().As4()
	return []expr.Any{
		load(expr.PayloadBaseNetworkHeader, ipProtocol, 1), compare(expr.CmpOpEq, unix.IPPROTO_TCP),
		load(expr.PayloadBaseNetworkHeader, ipOffset, 4), compare(expr.CmpOpEq, ip[:]...),
		load(expr.PayloadBaseTransportHeader, portOffset, 2),
		compare(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(addr.Port())...),
	}
}

// requests matches connection requests: SYN without ACK. It needs no connection
// tracking, which takes up an open connection that it has not seen before as a
// new one.
func requests() []expr.Any {
	return []expr.Any{
		load(expr.PayloadBaseTransportHeader, tcpFlags, 1),
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 1,
			Mask: []byte{flagSYN | flagACK | flagRST}, Xor: []byte{0}},
		compare(expr.CmpOpEq, flagSYN),
	}
}

func draw(percent float64) []expr.Any {
	below := binaryutil.BigEndian.PutUint32(uint32(math.Round(percent / 100 * lossSteps)))
	return []expr.Any{
		&expr.Numgen{Register: reg0, Modulus: lossSteps, Type: unix.NFT_NG_RANDOM},
		// The draw is in the host's order and comparisons go by bytes.
		&expr.Byteorder{SourceRegister: reg0, DestRegister: reg0, Op: expr.ByteorderHton, Len: 4, Size: 4},
		compare(expr.CmpOpLt, below...),
	}
}

func counter() expr.Any { return &expr.Counter{} }

func refuse() expr.Any { return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST} }

// inward is a rule on packets of clients.
//
// A cap is decided by the relay, which knows its connections, and refused by the
// kernel, which alone can refuse: the rule looks at the mark of the listening
// socket. The kernel's own count ("ct count") was found to leave out connections
// that it was tracking before the rule came.
func inward(listen netip.AddrPort, rule Rule) []expr.Any {
	out := matchEnd(listen, ipTarget, tcpTarget)
	switch rule.Action {
	case Drop:
		return append(out, counter(), &expr.Verdict{Kind: expr.VerdictDrop})
	case Refuse:
		return append(append(out, requests()...), counter(), refuse())
	case Reset:
		return append(out, counter(), refuse())
	case Loss:
		return append(append(out, draw(rule.Percent)...), counter(), &expr.Verdict{Kind: expr.VerdictDrop})
	case Cap:
		out = append(append(out, requests()...),
			&expr.Socket{Key: expr.SocketKeyMark, Register: reg0},
			compare(expr.CmpOpEq, binaryutil.NativeEndian.PutUint32(markFull)...))
		return append(out, counter(), refuse())
	case Rate:
		out = append(append(out, requests()...),
			&expr.Limit{Type: expr.LimitTypePkts, Rate: uint64(rule.Limit), Unit: expr.LimitTimeSecond, Over: true, Burst: 1})
		return append(out, counter(), &expr.Verdict{Kind: expr.VerdictDrop})
	}
	return nil
}

// outward is a rule on packets to clients, nil if the action needs none.
//
// A packet that is dropped on its way out fails the sender's call into the
// network layer, and the sender's TCP knows at once: it does not take the
// packet as sent, so no retransmission, no back-off and no smaller window
// follow. A packet on a wire is lost without a word. So what is to be lost gets
// IP version 0, and the receiver's kernel discards it.
func outward(listen netip.AddrPort, rule Rule) []expr.Any {
	out := matchEnd(listen, ipSource, tcpSource)
	switch rule.Action {
	case Drop:
	case Loss:
		out = append(out, draw(rule.Percent)...)
	default:
		return nil
	}
	return append(out, counter(),
		&expr.Immediate{Register: reg0, Data: []byte{0x05}}, // version 0, header of 5 words
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: reg0,
			Base: expr.PayloadBaseNetworkHeader, Offset: 0, Len: 1},
	)
}

// probe finds out what this kernel offers, by loading one rule of each action
// into a table of its own. No packet meets them: they match an address of the
// range for documentation.
func probe() Capabilities {
	missing := map[Action]string{}
	scratch := newRules(tableName + "-probe")
	defer scratch.remove()
	if err := scratch.create(); err != nil {
		for _, a := range Actions {
			missing[a] = reason(err)
		}
		return Capabilities{Missing: missing}
	}
	nowhere := Link{Name: "probe", Listen: netip.MustParseAddrPort("192.0.2.1:9")}
	var all []Rule
	for _, a := range Actions {
		all = append(all, Rule{Name: string(a), Action: a, Percent: 1, Limit: 1})
	}
	// Each batch costs some milliseconds, so one by one only to tell which.
	if err := scratch.add(nowhere, all...); err == nil {
		return Capabilities{}
	}
	for _, rule := range all {
		if err := scratch.add(nowhere, rule); err != nil {
			missing[rule.Action] = reason(err)
		}
	}
	return Capabilities{Missing: missing}
}

// CheckKernel says what this machine's kernel would let a relay do, by asking it as a
// relay does, in a network namespace that is there for that long. It needs root: the
// error wraps [fs.ErrPermission] without.
func CheckKernel() (Capabilities, error) {
	var found Capabilities
	done := make(chan error)
	go func() {
		// Never unlocked: the thread, which is in the namespace, ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("make a network namespace: %w", err)
			return
		}
		found = probe()
		done <- nil
	}()
	err := <-done
	return found, err
}

func reason(err error) string {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Sprintf("the relay lacks the capability NET_ADMIN in its network namespace (%v)", err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Sprintf("the kernel was built without that part of nftables (%v)", err)
	default:
		return err.Error()
	}
}
