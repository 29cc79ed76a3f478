package samples_test

import (
	"bytes"
	"testing"

	"relapse/replays/samples"
)

// FuzzRead holds that any bytes give samples or an error, and that the samples of
// what is read have names, and times that go forwards.
func FuzzRead(f *testing.F) {
	var written bytes.Buffer
	if err := filled().WriteOpenMetrics(&written); err != nil {
		f.Fatal(err)
	}
	f.Add(written.Bytes())
	for _, text := range []string{
		"", "# EOF", "# EOF\n", "\n# EOF\n", "a 1 1\n# EOF\n", "a 1 1\r\n# EOF\n", "{} 1 1\n# EOF\n", "{\"a\"} 1 1\n# EOF\n", "{a=\"b\"} 1 1\n# EOF\n",
		"a{\"b\"=\"c\"} 1 1\n# EOF\n", "a{b=\"1\",b=\"2\"} 1 1\n# EOF\n", "a 1 1e300\n# EOF\n", "a 1 NaN\n# EOF\n", "a NaN 1\n# EOF\n",
		"# TYPE a counter\na_total 1 1 # {b=\"c\"} 1 1\n# EOF\n", "# HELP a \\n\n# UNIT a_seconds seconds\n# EOF\n", "a 1 1\n# EOF\n# EOF\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := samples.Read(bytes.NewReader(text))
		if err != nil {
			_ = err.Error()
			return
		}
		for _, x := range s.Series() {
			if x.Name == "" || x.Samples == 0 || x.Last.Before(x.First) {
				t.Errorf("accepted: %+v", x)
			}
		}
	})
}
