package rebalancer

// What only tests see of the inside of this package.
var After = after
