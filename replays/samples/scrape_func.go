package samples

import "context"

type funcSource struct {
	read  func() (map[string]float64, error)
	pairs []string // labels of all values
}

func (f funcSource) scrape(_ context.Context, to *sink) error {
	values, err := f.read()
	if err != nil {
		return err
	}
	for name, v := range values {
		to.add(v, name, f.pairs...)
	}
	return nil
}

func (funcSource) close() {}
