# Runs until it is ended, ten calls deep.
proc leaf {seed} {
    for {set round 0} {$round < 20000} {incr round} {
        set seed [expr {$seed * 31 % 1000003}]
    }
    return $seed
}

proc descend {depth seed} {
    while {$depth == 0} {
        set seed [leaf $seed]
    }
    return [expr {[descend [expr {$depth - 1}] [expr {$seed + 1}]] + 1}]
}

descend 10 1
