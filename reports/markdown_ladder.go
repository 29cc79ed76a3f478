package reports

func (d *doc) ladders(p page) {
	if len(p.Ladders) == 0 {
		return
	}
	d.line("## How far the load went\n")
	if l := p.Incident.Ladder; l != nil && l.Says != "" {
		d.line("%s\n", text(l.Says))
	}
	for _, t := range p.Ladders {
		outcome := "nothing stated"
		if t.Stated != "" {
			outcome = badge(t.Outcome) + " stated: " + text(t.Stated)
		}
		d.line("%s %s: %s\n", code(t.Arm), outcome, text(t.Result))
		if t.Stated == "" {
			d.line("<details><summary>Step by step</summary>\n")
		}
		d.head("Step", "Players", "Load", "State", "Nearest metric", "Got", "Room")
		for _, r := range t.Rows {
			d.row(code(r.Step), r.Players, r.Load, text(r.State), text(r.Metric), text(r.Got), text(r.Room))
		}
		d.line("")
		if t.Stated == "" {
			d.line("</details>\n")
		}
		if t.Ignored != "" {
			d.line("Not looked at: %s.\n", text(t.Ignored))
		}
		if t.Drift != nil {
			d.drift(*t.Drift)
		}
	}
}

// drift shows what an arm sets otherwise than the tested configuration.
func (d *doc) drift(t driftTable) {
	d.line("%s Its configuration, stated: %s\n", badge(t.Outcome), t.Stated)
	if len(t.Rows) == 0 {
		d.none("No setting differs.")
		return
	}
	d.head("Setting", "Tested", "Here")
	for _, r := range t.Rows {
		d.row(code(r.Setting), code(r.Tested), code(r.Deployed))
	}
	d.line("")
}
