import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.function.LongConsumer;

/**
 * Loads a class, runs its method for 25 ms of CPU time and unloads it, again and again: Reuse VARIANT SECONDS.
 * Prints for each method: name, file, first line and CPU time in milliseconds.
 */
public class Reuse {
    public static long now() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    /** A loader of one class. */
    static class Loader extends ClassLoader {
        Class<?> define(String name, byte[] code) {
            return defineClass(name, code, 0, code.length);
        }
    }

    /** Returns the class with another name of the same length. */
    static byte[] renamed(byte[] code, String from, String to) {
        String text = new String(code, StandardCharsets.ISO_8859_1).replace(from, to);
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    static void step(byte[] template, int index) throws Exception {
        String name = String.format("F_%03d", index);
        Class<?> type = new Loader().define(name, renamed(template, "F_000", name));
        Constructor<?> constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        LongConsumer code = (LongConsumer) constructor.newInstance();
        long start = now();
        code.accept(start + 25_000_000);
        System.out.println(name + ".accept\t*\t*\t" + (now() - start) / 1e6);
    }

    public static void main(String[] arguments) throws Exception {
        byte[] template;
        try (InputStream input = Reuse.class.getResourceAsStream("/F_000.class")) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            for (int part = input.read(); part >= 0; part = input.read()) bytes.write(part);
            template = bytes.toByteArray();
        }
        long end = now() + (long) (Double.parseDouble(arguments[1]) * 1e9);
        for (int index = 1; now() < end; index++) {
            step(template, index);
            System.gc();
        }
    }
}

/** The class that is renamed. */
class F_000 implements LongConsumer {
    F_000() {}

    @Override
    public void accept(long limit) {
        long total = 0;
        while (Reuse.now() < limit) {
            for (int number = 0; number < 500; number++) total = (total + number * number) % 1021;
        }
        if (total == -1) System.out.println(total);
    }
}
