// Goroutines that count, wait in a system call, and wait for each other.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"
)

var sink uint64

func count(depth int) uint64 {
	if depth > 0 {
		return count(depth-1) + 1
	}
	var sum uint64
	for n := uint64(0); n < 1<<40; n++ {
		sum += n ^ sum>>3
	}
	return sum
}

func sorts() {
	sort.Slice([]int{3, 1, 2}, func(a, b int) bool { sink += count(5); return a < b })
}

func main() {
	read, _, _ := os.Pipe()
	go sorts()
	go func() { read.Read(make([]byte, 1)) }()
	go func() { select {} }()
	time.Sleep(300 * time.Millisecond)
	fmt.Println("ready")
	sink += count(20)
}
