# Runs until it is ended, ten calls deep.
leaf() {
    for ((round = 0; round < 20000; round++)); do
        seed=$((seed * 31 % 1000003))
    done
}

descend() {
    while (($1 == 0)); do
        leaf
    done
    descend $(($1 - 1))
    seed=$((seed + 1))
}

seed=1
descend 10
