package faults

// TakesNothing is what a memory limit asks of the bounds that there are, in bytes.
func TakesNothing(limit int64, by map[string]int64) (lowest string, nothing bool) {
	var all []bound
	for name, bytes := range by {
		all = append(all, bound{name, bytes})
	}
	l, nothing := takesNothing(limit, all)
	return l.by, nothing
}
