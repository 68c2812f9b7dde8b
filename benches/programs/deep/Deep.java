// Runs until it is ended, ten calls deep.
class Deep {
    static int leaf(int seed) {
        for (int round = 0; round < 20000; round++) {
            seed = seed * 31 % 1000003;
        }
        return seed;
    }

    static int descend(int depth, int seed) {
        while (depth == 0) {
            seed = leaf(seed);
        }
        return descend(depth - 1, seed + 1) + 1;
    }

    public static void main(String[] words) {
        descend(10, 1);
    }
}
