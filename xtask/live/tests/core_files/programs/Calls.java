import java.util.concurrent.locks.LockSupport;

/** Threads that count in compiled code, that wait in the virtual machine, and that wait for a lock. */
public class Calls {
    static final Object LOCK = new Object();
    static volatile long sink;

    static long count(int depth) {
        if (depth > 0) return count(depth - 1) + 1;
        long sum = 0;
        for (long n = 0; n < 1L << 22; n++) sum += n ^ sum >>> 3;
        sink = sum;
        return sum;
    }

    static void counts() {
        while (true) count(12);
    }

    static void waits() {
        synchronized (LOCK) {
            sink++;
        }
    }

    public static void main(String[] arguments) throws Exception {
        synchronized (LOCK) {
            new Thread(Calls::counts, "counts").start();
            new Thread(Calls::waits, "waits").start();
            new Thread(LockSupport::park, "parks").start();
            Thread.sleep(2000);
            System.out.println("ready");
            counts();
        }
    }
}
