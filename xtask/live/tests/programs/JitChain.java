/** Runs a known chain of methods for as many seconds as the first argument says: outer, 20 times middle, spin. */
public class JitChain {
    static int spin() {
        int sum = 0;
        for (int i = 0; i < 2_000; i++) sum = sum * 31 + i;
        return sum;
    }

    static int middle(int depth) {
        return depth == 1 ? spin() + 1 : middle(depth - 1) + 1;
    }

    static int outer() {
        return middle(20) + 1;
    }

    public static void main(String[] arguments) {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        int sum = 0;
        while (System.nanoTime() < end) sum += outer();
        System.out.println(sum);
    }
}
