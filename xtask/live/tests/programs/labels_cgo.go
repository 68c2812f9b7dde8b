package main

/*
#include <stdint.h>

// A function of C that runs as long as it is told.
uint64_t in_c(uint64_t rounds) {
	volatile uint64_t sum = 0;
	for (uint64_t i = 0; i < rounds; i++)
		sum += i;
	return sum;
}
*/
import "C"

import (
	"context"
	"runtime/pprof"
)

//go:noinline
func workInC() { C.in_c(200000) }

func init() {
	go func() {
		for {
			pprof.Do(context.Background(), pprof.Labels("work", "workInC"), func(context.Context) { workInC() })
		}
	}()
}
