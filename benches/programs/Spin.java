// Burns a CPU at a given depth of calls until it is ended: Spin DEPTH
class Spin {
    static int burn() {
        int total = 0;
        for (int number = 0; number < 20000; number++) {
            total = (total + number * number) % 1021;
        }
        return total;
    }

    static int descend(int depth, long rounds) {
        if (depth > 1) {
            return descend(depth - 1, rounds) + 1;
        }
        int total = 0;
        while (rounds-- > 0) {
            total += burn();
        }
        return total;
    }

    public static void main(String[] words) throws Exception {
        // Calls until the compilers are done.
        for (int round = 0; round < 20000; round++) {
            descend(10, round % 100 == 0 ? 1 : 0);
        }
        Thread.sleep(500);
        System.out.println("ready");
        // This method and the innermost one are frames too.
        descend(Integer.parseInt(words[0]) - 2, Long.MAX_VALUE);
    }
}
