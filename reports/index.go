package reports

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"relapse/replays"
)

//go:embed index.tmpl
var indexTemplate string

// ErrNoRuns says that a folder holds no verdict of an incident, so that its
// index tells nothing.
var ErrNoRuns = errors.New("no verdict of an incident was found")

// runTime is how a run's folder begins with when it was started.
const runTime = "2006-01-02T15-04-05"

// indexRun is one run of an incident.
type indexRun struct {
	Folder  string // relative to the index
	Report  string // what to open: the report, else the verdict
	At      time.Time
	Verdict replays.Verdict
}

func (r indexRun) Headline() string { return headline(r.Verdict, verdictFixes(r.Verdict)) }

// indexIncident is the history of one incident, the newest run first.
type indexIncident struct {
	Name, Title string
	Runs        []indexRun
}

func (i indexIncident) Last() indexRun { return i.Runs[0] }

// History is what the page shows as marks: the newest runs, oldest first.
func (i indexIncident) History() []indexRun {
	recent := slices.Clone(i.Runs[:min(len(i.Runs), 30)])
	slices.Reverse(recent)
	return recent
}

func (i indexIncident) Passed() string {
	var t tally
	for _, r := range i.Runs {
		t.add(r.Verdict.Outcome)
	}
	return rate(t)
}

// Reproduced counts the runs in which the incident happened again. Runs that
// could not tell are not counted as either.
func (i indexIncident) Reproduced() string {
	var t tally
	for _, r := range i.Runs {
		switch {
		case r.Verdict.Reproduced:
			t.pass++
		case replays.Worst(r.Verdict.Outcome) == replays.Unknown:
			t.unknown++
		default:
			t.fail++
		}
	}
	return rate(t)
}

func rate(t tally) string {
	text := fmt.Sprintf("%d of %d", t.pass, t.pass+t.fail)
	if t.unknown > 0 {
		text += fmt.Sprintf(", %d unknown", t.unknown)
	}
	return text
}

// indexPage is what the template shows.
type indexPage struct {
	Incidents  []indexIncident
	Unreadable []string
	Total      int
}

// WriteIndex reads the verdict of every run in a folder of runs and writes
// index.html there: each incident's history, newest run first. A verdict that
// cannot be read is listed, not left out. It gives the page's path, and
// ErrNoRuns (wrapped) beside it if there was no run to tell of.
func WriteIndex(dir string) (string, error) {
	page, err := readRuns(dir)
	if err != nil {
		return "", err
	}
	t, err := template.New("index").Funcs(htmlFuncs).Parse(indexTemplate)
	if err != nil {
		return "", fmt.Errorf("parse the index's template: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, page); err != nil {
		return "", fmt.Errorf("fill the index's template: %w", err)
	}
	if err := writeFile(dir, File{"index.html", b.Bytes()}); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "index.html")
	if page.Total == 0 {
		return path, fmt.Errorf("%w in %s", ErrNoRuns, dir)
	}
	return path, nil
}

func readRuns(dir string) (indexPage, error) {
	var page indexPage
	entries, err := os.ReadDir(dir)
	if err != nil {
		return page, fmt.Errorf("read the folder of runs: %w", err)
	}
	byName := map[string][]indexRun{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		run, err := readRun(dir, e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// A folder without a verdict: a run that still goes on, or something else.
		case err != nil:
			page.Unreadable = append(page.Unreadable, err.Error())
		case run.Verdict.Incident != "": // else it is the record of a single play
			byName[run.Verdict.Incident] = append(byName[run.Verdict.Incident], run)
			page.Total++
		}
	}
	for name, runs := range byName {
		slices.SortFunc(runs, func(a, b indexRun) int {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Folder, a.Folder))
		})
		page.Incidents = append(page.Incidents, indexIncident{name, runs[0].Verdict.Title, runs})
	}
	slices.SortFunc(page.Incidents, func(a, b indexIncident) int { return cmp.Compare(a.Name, b.Name) })
	return page, nil
}

func readRun(dir, folder string) (indexRun, error) {
	path := filepath.Join(dir, folder, replays.VerdictFile)
	f, err := replays.OpenRegular(path)
	if err != nil {
		return indexRun{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return indexRun{}, err
	}
	run := indexRun{Folder: folder, Report: folder + "/" + replays.VerdictFile}
	if err := json.Unmarshal(b, &run.Verdict); err != nil {
		return run, fmt.Errorf("%s: %w", filepath.Join(folder, replays.VerdictFile), err)
	}
	if _, err := os.Stat(filepath.Join(dir, folder, htmlFile)); err == nil {
		run.Report = folder + "/" + htmlFile
	}
	if len(folder) >= len(runTime) {
		if at, err := time.ParseInLocation(runTime, folder[:len(runTime)], time.Local); err == nil {
			run.At = at
			return run, nil
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return run, err
	}
	run.At = info.ModTime()
	return run, nil
}
