package reports_test

// hostile is a line that would run, were it not shown as text.
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) ${7*7} {{.}} | & ]]>`
