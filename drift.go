package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"relapse/replays"
	"relapse/topologies"
)

func init() { commands = append(commands, driftCommand) }

func driftCommand() *cobra.Command {
	var arm string
	var asJSON bool
	c := &cobra.Command{
		Use:   "drift DIR|FILE INCIDENT [--arm ARM]",
		Short: "Say what would be deployed otherwise than it was tested",
		Long: `Drift holds the configuration of one arm of an incident, as its files have it now,
against one that a ladder was climbed with, clean to its top: nodes and their
limits, commands, settings and files, links and hosts. Images are compared by
reference, and by digest where this machine has them; the build of this tool is
that of the services that run in it.
DIR is the folder of a play or of a run whose plays tested one configuration, FILE
a tested.json. Exit code 0: nothing differs, 1: it does.`,
		Example: "  relapse drift runs/2026-11-30T02-17-00-valorant-launch valorant-launch\n  relapse drift tested.json ./my-incident --arm fix-more-tables",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			tested, err := replays.ReadTested(args[0])
			if errors.Is(err, replays.ErrNotTested) {
				return &exitError{exitBadInput, err}
			}
			if err != nil {
				return rig(err)
			}
			inc, err := findIncident(c.Context(), args[1])
			if err != nil {
				return err
			}
			if inc.Name != tested.Incident {
				return &exitError{exitBadInput, fmt.Errorf("%s was tested for incident %s: it says nothing of %s", args[0], tested.Incident, inc.Name)}
			}
			if arm == "" {
				arm = tested.Arm
			}
			plan, err := inc.Plan(arm, 1)
			if err != nil {
				return rig(err)
			}
			binary, err := os.Executable()
			if err != nil {
				return rig(fmt.Errorf("find the tool's own binary, which runs inside the containers too: %w", err))
			}
			images, err := plan.Present(c.Context(), binary)
			if err != nil && !errors.Is(err, topologies.ErrNoEngine) {
				return rig(err)
			}
			d := newDrift(tested, arm, plan.Configuration(images))
			if err := d.write(c, asJSON); err != nil {
				return err
			}
			if len(d.Differences) > 0 {
				return &exitError{exitNot, nil}
			}
			return nil
		},
	}
	c.Flags().StringVar(&arm, "arm", "", "arm that would be deployed (default: the one that was tested)")
	c.Flags().BoolVar(&asJSON, "json", false, "print what differs to stdout as JSON")
	return c
}

// drift is what differs between a tested and a deployed configuration.
type drift struct {
	Incident string    `json:"incident"`
	Tested   driftSide `json:"tested"`
	Deployed driftSide `json:"deployed"`
	At       time.Time `json:"tested_at"`
	Top      string    `json:"top"` // the highest step of the ladder
	// Differences are by setting; none where nothing differs.
	Differences []replays.Difference `json:"differences"`
	// NotCompared are images of which this machine does not know what they would be.
	NotCompared []string `json:"not_compared"`
}

type driftSide struct {
	Arm    string `json:"arm"`
	Digest string `json:"digest"`
}

func newDrift(tested replays.Tested, arm string, deployed replays.Configuration) drift {
	return drift{
		Incident: tested.Incident, At: tested.At, Top: tested.Top,
		Tested: driftSide{tested.Arm, tested.Digest}, Deployed: driftSide{arm, deployed.Digest()},
		Differences: tested.Configuration.Drift(deployed), NotCompared: tested.Configuration.UnknownImages(deployed),
	}
}

func (d drift) write(c *cobra.Command, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(c.OutOrStdout())
		e.SetEscapeHTML(false)
		return e.Encode(d)
	}
	p := &printer{w: c.OutOrStdout()}
	p.line("tested    %s, arm %s, clean up to %s on %s  %s", d.Incident, d.Tested.Arm, d.Top, d.At.UTC().Format("2006-01-02 15:04"), d.Tested.Digest)
	p.line("deployed  arm %s  %s", d.Deployed.Arm, d.Deployed.Digest)
	if len(d.NotCompared) > 0 {
		p.line("not compared, since this machine has none of them or no engine: %s", strings.Join(d.NotCompared, ", "))
	}
	switch n := len(d.Differences); n {
	case 0:
		p.line("nothing differs")
	case 1:
		p.line("one setting differs")
	default:
		p.line("%d settings differ", n)
	}
	for _, difference := range d.Differences {
		p.line("  %s", difference)
	}
	return p.err
}
