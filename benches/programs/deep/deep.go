// Runs until it is ended, ten calls deep.
package main

func leaf(seed int) int {
	for round := 0; round < 20000; round++ {
		seed = seed * 31 % 1000003
	}
	return seed
}

func descend(depth, seed int) int {
	for depth == 0 {
		seed = leaf(seed)
	}
	return descend(depth-1, seed+1) + 1
}

func main() {
	descend(10, 1)
}
