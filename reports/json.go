package reports

import (
	"bytes"
	"encoding/json"
)

func init() {
	Register(Format{
		Name:    "json",
		Summary: "everything the other formats are made from, for programs",
		Render:  renderJSON,
	})
}

// jsonSchema changes whenever a field changes its meaning or goes.
const jsonSchema = "relapse-report/1"

func renderJSON(r Report) ([]File, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	err := enc.Encode(struct {
		Schema   string `json:"schema"`
		Headline string `json:"headline"`
		Report
	}{jsonSchema, present(r).Headline, r})
	if err != nil {
		return nil, err
	}
	return []File{{"report.json", b.Bytes()}}, nil
}
