import java.util.stream.IntStream;

/** Methods that call themselves below a stream's lambda, then one that spins; compiled code where `warm` is given. */
public class Calls {
    static int rounds;
    static long count;

    int area(int n) {
        return n > 0 ? area(n - 1) : leaf();
    }

    static long step(long n) {
        return n + 1;
    }

    static int leaf() {
        if (rounds > 0) {
            rounds--;
            count = step(count);
            return 1;
        }
        System.out.println("ready");
        System.out.flush();
        for (;;) {
            count = step(count);
        }
    }

    static int each(int n) {
        return new Calls().area(n);
    }

    public static void main(String[] arguments) {
        rounds = arguments.length > 0 ? 200000 : 0;
        while (rounds > 0) {
            IntStream.of(2).map(n -> each(n)).sum();
        }
        IntStream.of(2).map(n -> each(n)).sum();
    }
}
