// Goroutines at the ends of known chains. Each says once what the runtime knows of its stack, and spins.
//
//	truth runtime.goexit main.plain main.(*shop).middle main.plainLeaf
//	...
//	ready
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

var said sync.WaitGroup

// Prints the stack of whoever calls it, the root first.
//
//go:noinline
func say() {
	pcs := make([]uintptr, 2000)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var names []string
	for {
		frame, more := frames.Next()
		names = append([]string{frame.Function}, names...)
		if !more {
			break
		}
	}
	fmt.Println("truth " + strings.Join(names, " "))
	said.Done()
}

var sum int

//go:noinline
func plainLeaf() {
	say()
	for {
		sum++
	}
}

type shop struct{ shelves [4]int }

//go:noinline
func (s *shop) middle() {
	s.shelves[1]++
	plainLeaf()
	s.shelves[2]++
}

func plain() {
	new(shop).middle()
}

// The compiler inlines it.
func inlinedLeaf(step int) {
	for {
		sum += step
	}
}

//go:noinline
func inlinedCaller(step int) {
	say()
	inlinedLeaf(step)
}

func inlined() {
	inlinedCaller(2)
}

//go:noinline
func closureLeaf() {
	say()
	for {
		sum += 3
	}
}

func closure() {
	call := func(f func()) {
		f()
		sum++
	}
	call(func() {
		closureLeaf()
		sum++
	})
}

//go:noinline
func recursionLeaf() {
	say()
	for {
		sum += 4
	}
}

// The stack has to grow several times on the way down.
//
//go:noinline
func recursion(depth int) int {
	var room [64]int
	room[depth%64] = depth
	if depth == 0 {
		recursionLeaf()
	}
	return recursion(depth-1) + room[(depth+1)%64]
}

func deep() {
	recursion(40)
}

//go:noinline
func deferredLeaf() {
	say()
	for {
		sum += 5
	}
}

//go:noinline
func panicking(why string) {
	defer func() {
		deferredLeaf()
		sum++
	}()
	panic(why)
}

func panicked() {
	panicking("on purpose")
}

//go:noinline
func nilLeaf() {
	say()
	for {
		sum += 6
	}
}

//go:noinline
func faulting(s *shop) int {
	defer func() {
		nilLeaf()
		sum++
	}()
	return s.shelves[3]
}

func faulted() {
	faulting(nil)
}

// Most of the time in system calls.
func writing() {
	file, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	said.Done()
	for {
		file.Write([]byte("x"))
	}
}

type node struct{ left, right *node }

//go:noinline
func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

var kept *node

// Gives the collector something to do.
func allocating() {
	said.Done()
	for {
		kept = tree(14)
	}
}

// Signal handlers run all the time, on top of whatever goroutine they interrupt.
func signalled() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1)
	said.Done()
	for {
		syscall.Kill(os.Getpid(), syscall.SIGUSR1)
		select {
		case <-signals:
		default:
		}
	}
}

//go:noinline
func mainLeaf() {
	say()
	said.Wait()
	fmt.Println("ready")
	for {
		sum += 7
	}
}

func main() {
	goroutines := []func(){plain, inlined, closure, deep, panicked, faulted, writing, allocating, signalled}
	said.Add(len(goroutines) + len(others) + 1)
	for _, goroutine := range goroutines {
		go goroutine()
	}
	for _, goroutine := range others {
		go goroutine()
	}
	mainLeaf()
}

// What another file adds.
var others []func()
