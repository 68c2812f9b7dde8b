/** Runs four functions in turn, for one to four times as many rounds as the first: "Shares SECONDS". */
public class Shares {
    static volatile int sink;

    static int first(int seed, int rounds) {
        int sum = seed;
        for (int i = 0; i < rounds; i++) sum = sum * 31 + (sum >>> 7 ^ i);
        return sum;
    }

    static int second(int seed, int rounds) {
        int sum = seed;
        for (int i = 0; i < rounds; i++) sum = sum * 37 + (sum >>> 5 ^ i);
        return sum;
    }

    static int third(int seed, int rounds) {
        int sum = seed;
        for (int i = 0; i < rounds; i++) sum = sum * 41 + (sum >>> 6 ^ i);
        return sum;
    }

    static int fourth(int seed, int rounds) {
        int sum = seed;
        for (int i = 0; i < rounds; i++) sum = sum * 43 + (sum >>> 8 ^ i);
        return sum;
    }

    static int round(int seed) {
        int rounds = 200_000;
        int sum = first(seed, rounds);
        sum += second(sum, 2 * rounds);
        sum += third(sum, 3 * rounds);
        return sum + fourth(sum, 4 * rounds);
    }

    public static void main(String[] arguments) {
        long start = System.nanoTime();
        long end = start + (long) (Double.parseDouble(arguments[0]) * 1e9);
        boolean isReady = false;
        while (System.nanoTime() < end) {
            sink += round(sink);
            if (!isReady && System.nanoTime() - start > 3_000_000_000L) {
                isReady = true;
                System.out.println("ready");
            }
        }
    }
}
