package services

import (
	"runtime"
	"sync"
)

// SpareThreads has the process make so many threads at once, which then wait for
// work until it ends. Where its host has no memory left the kernel refuses a new
// thread, and the Go runtime, which makes one whenever all others are held up,
// ends the process for that: a program that has threads to spare stands still
// with its host instead.
func SpareThreads(n int) {
	var made sync.WaitGroup
	release := make(chan struct{})
	made.Add(n)
	for range n {
		go func() {
			// A goroutine that is bound to its thread keeps it while it waits, so
			// that the next one needs another; the runtime keeps threads for good.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made.Done()
			<-release
		}()
	}
	made.Wait()
	close(release)
}
