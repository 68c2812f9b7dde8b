// Goroutines that change their labels 10,000 times a second: each set belongs to a function, which is the truth.
//
//	labels                    works until it is killed
//	"profile PATH SECONDS"    on the standard input: writes a profile of Go's own, then "done"
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// spin takes some microseconds, partly in the vDSO, which runs on the thread's own stack.
func spin(microseconds int) uint64 {
	sum := uint64(0)
	for end := time.Now().Add(time.Duration(microseconds) * time.Microsecond); time.Now().Before(end); {
		for i := uint64(0); i < 500; i++ {
			sum += i * i
		}
	}
	return sum
}

//go:noinline
func work0(keep *uint64) { *keep += spin(50) }

//go:noinline
func work1(keep *uint64) { *keep += spin(100) }

//go:noinline
func work2(keep *uint64) { *keep += spin(150) }

//go:noinline
func work3(keep *uint64) { *keep += spin(200) }

//go:noinline
func inherited(keep *uint64) { *keep += spin(100) }

//go:noinline
func unlabelled(keep *uint64) { *keep += spin(100) }

//go:noinline
func many(keep *uint64) { *keep += spin(100) }

var works = []func(*uint64){work0, work1, work2, work3}

// change calls the functions by turns, each with the labels work, nested with that of its request. Their texts are new each time, so
// that the collector frees the memory of many.
func change(first int) {
	keep := uint64(0)
	for n := first; ; n++ {
		name := fmt.Sprintf("work%d", n%len(works))
		pprof.Do(context.Background(), pprof.Labels("work", name), func(ctx context.Context) {
			request := strings.Join([]string{name, strconv.Itoa(n % 32)}, "/")
			pprof.Do(ctx, pprof.Labels("request", request, "empty", ""), func(ctx context.Context) {
				works[n%len(works)](&keep)
			})
		})
		if n%16 == 0 {
			unlabelled(&keep)
		}
		if n%64 == 0 {
			pprof.Do(context.Background(), pprof.Labels("parent", name), func(ctx context.Context) {
				done := make(chan bool)
				go func() {
					kept := uint64(0)
					inherited(&kept)
					done <- true
				}()
				<-done
			})
		}
	}
}

// manyLabels has as many labels as its arguments by turns.
func manyLabels(counts ...int) {
	keep := uint64(0)
	for n := 0; ; n++ {
		var pairs []string
		for i := counts[n%len(counts)] - 1; i >= 0; i-- {
			pairs = append(pairs, fmt.Sprintf("key%02d", i), fmt.Sprintf("value%d", i))
		}
		pprof.Do(context.Background(), pprof.Labels(pairs...), func(context.Context) { many(&keep) })
	}
}

func main() {
	go change(0)
	go change(2)
	go manyLabels(1, 8, 9, 13)
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var path string
		var seconds float64
		fmt.Sscanf(lines.Text(), "profile %s %f", &path, &seconds)
		file, _ := os.Create(path)
		pprof.StartCPUProfile(file)
		time.Sleep(time.Duration(seconds * 1e9))
		pprof.StopCPUProfile()
		file.Close()
		fmt.Println("done")
	}
}
