// Goroutines in C, and in Go again behind it: together with goroutines.go.
package main

/*
extern void calledBack(void);

static volatile int in_c;

__attribute__((noinline)) static void spin_in_c(void) {
    for (;;) in_c++;
}

__attribute__((noinline)) static void through_c(void) {
    calledBack();
    in_c++;
}
*/
import "C"

//go:noinline
func calling() {
	say()
	C.spin_in_c()
	sum++
}

func inC() {
	calling()
}

//go:noinline
func callbackLeaf() {
	say()
	for {
		sum += 8
	}
}

//export calledBack
func calledBack() {
	deeper(100)
	callbackLeaf()
	sum++
}

// Has the stack moved to where there is more room, while C keeps addresses of where it was.
//
//go:noinline
func deeper(depth int) int {
	var room [64]int
	room[depth%64] = depth
	if depth == 0 {
		return sum
	}
	return deeper(depth-1) + room[(depth+1)%64]
}

//go:noinline
func there() {
	C.through_c()
	sum++
}

func andBack() {
	there()
}

func init() {
	others = []func(){inC, andBack}
}
