package reports_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"relapse/reports"
)

var shots = flag.String("screenshots", "", "keep the browser test's screenshots in this folder")

// browser starts Chromium, or ends the test: where CI promises one, by failing.
func browser(t *testing.T, listen func(ev any)) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI=true promises a browser: %v; install Debian's chromium", err)
		}
		t.Skipf("no browser: %v; install Debian's chromium", err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.Flag("hide-scrollbars", false))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // chromium's sandbox refuses to start as root
	}
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithListener(listen))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return ctx
}

// complaints collects what a page must not do: ask for anything but itself, or
// make the console complain.
type complaints struct {
	sync.Mutex
	page  string
	lines []string
}

// reset gives what was collected and begins anew for a page.
func (c *complaints) reset(page string) []string {
	c.Lock()
	defer c.Unlock()
	lines := c.lines
	c.page, c.lines = page, nil
	return lines
}

func (c *complaints) listen(ev any) {
	c.Lock()
	defer c.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		if u := ev.Request.URL; u != c.page && u != "about:blank" && !strings.HasPrefix(u, "data:") {
			c.lines = append(c.lines, "request of "+u)
		}
	case *runtime.EventConsoleAPICalled:
		c.lines = append(c.lines, fmt.Sprintf("console.%s", ev.Type))
	case *runtime.EventExceptionThrown:
		c.lines = append(c.lines, "exception: "+ev.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		c.lines = append(c.lines, fmt.Sprintf("%s %s: %s", ev.Entry.Source, ev.Entry.Level, ev.Entry.Text))
	}
}

func TestPagesInABrowser(t *testing.T) {
	dir := *shots
	if dir == "" {
		dir = t.TempDir()
	}
	r := sample()
	r.Logs[0].Lines = append(r.Logs[0].Lines, hostile)
	pages := map[string]string{}
	for name, r := range map[string]reports.Report{"sample": r, "poisoned": poisoned(sample()), "together": together(), "poisoned-together": poisoned(together()), "unknown": reportsByName()["unknown"], "empty": {}} {
		paths, err := reports.Write(filepath.Join(dir, name), r, "html")
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = paths[0]
	}
	index, err := reports.WriteIndex(runsFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	pages["index"] = index

	seen := &complaints{}
	ctx := browser(t, seen.listen)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		path, err := filepath.Abs(pages[name])
		if err != nil {
			t.Fatal(err)
		}
		page := (&url.URL{Scheme: "file", Path: path}).String()
		seen.reset(page)
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{320, 400, 800, 1400} {
				if scheme == "dark" && *shots == "" && width != 800 {
					continue // colour does not change a layout
				}
				t.Run(fmt.Sprintf("%s-%s-%d", name, scheme, width), func(t *testing.T) {
					look(t, ctx, page, scheme, width, filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)))
				})
			}
		}
		t.Run(name, func(t *testing.T) {
			for what, script := range faults {
				n, err := chromedp.Run(ctx, chromedp.Evaluate[int](script))
				if err != nil {
					t.Fatalf("count %s: %v", what, err)
				}
				if n != 0 {
					t.Errorf("%d %s", n, what)
				}
			}
			if name == "sample" {
				text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.getElementById("evidence").innerText`))
				if err != nil || !strings.Contains(text, hostile) {
					t.Errorf("the hostile log line is not shown as text (%v) in:\n%s", err, text)
				}
			}
			for _, line := range seen.reset("") {
				t.Error(line)
			}
		})
	}
}

// look opens a page, sees whether it scrolls sideways, and takes its picture.
func look(t *testing.T, ctx context.Context, page, scheme string, width int64, picture string) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), media(scheme), chromedp.Navigate(page)); err != nil {
		t.Fatalf("open %s: %v", page, err)
	}
	over, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
	if err != nil {
		t.Fatal(err)
	}
	if over > 0 {
		culprits, err := chromedp.Run(ctx, chromedp.Evaluate[string](widest))
		t.Errorf("the page scrolls sideways by %d px: %s %v", over, culprits, err)
	}
	if *shots == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(picture, png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// faults counts what no page may have.
var faults = map[string]string{
	"elements that scripts or logs brought in": `document.querySelectorAll("script, iframe, object, embed, img, link:not([rel=icon])").length`,
	"attributes that run scripts":              `[...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on"))).length`,
	"links that run scripts":                   `[...document.querySelectorAll("a")].filter(a => !["http:", "https:", "file:"].includes(a.protocol)).length`,
	"charts without a name":                    `[...document.querySelectorAll("svg[role=img]")].filter(s => !s.getAttribute("aria-label") && !(s.getAttribute("aria-labelledby") ?? "").split(" ").every(id => document.getElementById(id)?.textContent)).length`,
	"IDs used twice":                           `[...document.querySelectorAll("[id]")].length - new Set([...document.querySelectorAll("[id]")].map(e => e.id)).size`,
	"tables without a caption":                 `document.querySelectorAll("table:not(:has(> caption))").length`,
	"column heads without a scope":             `document.querySelectorAll("th:not([scope])").length`,
	"links to nowhere":                         `[...document.querySelectorAll("a[href^='#']")].filter(a => !document.getElementById(decodeURIComponent(a.hash.slice(1)))).length`,
	"headings that skip a level":               `[...document.querySelectorAll("h1, h2, h3, h4")].map(h => +h.tagName[1]).filter((l, i, all) => i && l > all[i - 1] + 1).length`,
	"texts too faint to read":                  faint,
}

// media emulates a colour scheme.
func media(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	})
}

// widest names what sticks out at the right.
const widest = `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".scroll, pre, svg"))
	.slice(0, 5).map(e => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40)).join("; ")`

// faint counts texts whose contrast with what lies behind them is below the
// 4.5 : 1 of WCAG 2.2, criterion 1.4.3.
const faint = `(() => {
	const rgb = s => s.match(/[\d.]+/g).map(Number);
	const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
	return [...document.querySelectorAll("body *")].filter(e => {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest("defs, title, desc")) return false;
		const style = getComputedStyle(e), paint = e.closest("svg") ? style.fill : style.color;
		const a = lum(rgb(paint).slice(0, 3)), b = lum(behind(e));
		return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5;
	}).length;
})()`
