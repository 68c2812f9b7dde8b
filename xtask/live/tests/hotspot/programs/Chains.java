import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntUnaryOperator;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Runs a chain of methods that ends in {@code spin}: "Chains CHAIN WARM-UP SECONDS [start]".
 *
 * After the first seconds it prints the stacks of the leaf as the virtual machine itself reports them, then "ready". With "start" it
 * collects them from the first call on.
 */
public class Chains {
    static volatile int sink;

    /** Set while the stacks of the leaf are collected. */
    static volatile boolean isCollecting;

    static final Set<String> TRUTHS = ConcurrentHashMap.newKeySet();

    static final Supplier<List<String>> STACKS = stacks();

    @SuppressWarnings("unchecked")
    static Supplier<List<String>> stacks() {
        try {
            return (Supplier<List<String>>) Class.forName("Walker").getConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError error) {
            // Java 8.
            return Chains::traced;
        }
    }

    /** Records the stack of the caller as the virtual machine reports it, root first. */
    static void collect() {
        TRUTHS.add(String.join(" ", STACKS.get()));
    }

    /** The stack of the caller's caller, root first, up to the interface's method. */
    static List<String> traced() {
        List<String> frames = new ArrayList<>();
        boolean isInside = false;
        for (StackTraceElement frame : new Throwable().getStackTrace()) {
            // A hidden frame without lines has the bytecode index, plus this.
            int line = frame.getLineNumber() < 1_000_000 ? frame.getLineNumber() : -1;
            if (isInside) frames.add(text(frame.getClassName(), frame.getMethodName(), line));
            isInside |= frame.getMethodName().equals("collect");
        }
        Collections.reverse(frames);
        return frames;
    }

    /** Class, method, and line; -2 for a native method. */
    static String text(String className, String method, int line) {
        return className + "." + method + ":" + line;
    }

    /** The leaf of all chains. */
    public static int spin(int seed) {
        if (isCollecting) collect();
        int sum = seed;
        for (int i = 0; i < 20_000; i++) sum = sum * 31 + (sum >>> 7 ^ i); // spin
        return sum;
    }

    // Recursion.

    static int recurse(int depth) {
        if (depth == 0) return spin(depth) + 1;
        return recurse(depth - 1) + 1;
    }

    // Small methods, which are inlined.

    static int small(int seed) {
        return smaller(seed) + 1;
    }

    static int smaller(int seed) {
        return smallest(seed) + 1;
    }

    static int smallest(int seed) {
        return spin(seed) + 1;
    }

    // Interfaces.

    interface Shape {
        int area(int seed);
    }

    static class Square implements Shape {
        public int area(int seed) {
            return spin(seed) + 1;
        }
    }

    static class Circle implements Shape {
        public int area(int seed) {
            return spin(seed) + 2;
        }
    }

    static class Triangle implements Shape {
        public int area(int seed) {
            return spin(seed) + 3;
        }
    }

    static final Shape[] SHAPES = {new Square(), new Circle(), new Triangle()};

    static int shapes(int seed) {
        int sum = 0;
        for (Shape shape : SHAPES) sum += shape.area(seed);
        return sum;
    }

    // Calls that search a table of the class, in a stub that has no frame: of a compiled method that an interpreted one calls.

    interface Figure {
        int edges(int seed);
    }

    static final Figure[] FIGURES = {
        seed -> seed + 1, seed -> seed + 2, seed -> seed + 3, seed -> seed + 4, seed -> seed == 4 ? spin(seed) : seed
    };

    /** Never compiled. */
    static int tables(int seed) {
        int sum = seed;
        for (int i = 0; i < 1_000; i++) sum += figure(i);
        return sum;
    }

    static int figure(int seed) {
        return FIGURES[seed % FIGURES.length].edges(seed) + 1;
    }

    // Lambdas.

    static int lambdas(int seed) {
        IntUnaryOperator inner = value -> spin(value) + 1;
        IntUnaryOperator outer = value -> inner.applyAsInt(value) + 1;
        return outer.applyAsInt(seed) + 1;
    }

    // Streams.

    static final List<Integer> NUMBERS = IntStream.range(0, 8).boxed().collect(Collectors.toList());

    static int streams(int seed) {
        return NUMBERS.stream().filter(number -> number % 2 == 0).mapToInt(Chains::streamed).sum();
    }

    static int streamed(int number) {
        return spin(number) + 1;
    }

    // Exceptions.

    static int exceptions(int seed) {
        try {
            return thrower(seed);
        } catch (IllegalStateException exception) {
            return handler(seed);
        }
    }

    static int thrower(int seed) {
        if (seed >= 0) throw new IllegalStateException("expected");
        return seed;
    }

    static int handler(int seed) {
        return spin(seed) + 1;
    }

    // Reflection.

    static Method reflected;

    static int reflection(int seed) throws Exception {
        return (Integer) reflected.invoke(null, seed) + 1;
    }

    public static int target(int seed) {
        return spin(seed) + 1;
    }

    // Method handles.

    static MethodHandle handle;

    static int handles(int seed) throws Throwable {
        return (int) handle.invokeExact(seed) + 1;
    }

    // Synchronized methods and blocks.

    static synchronized int locked(int seed) {
        synchronized (SHAPES) {
            return spin(seed) + 1;
        }
    }

    // Blocking, so that a virtual thread leaves its carrier and comes back. Its callers return to the carrier one by one.

    static int yielding(int depth) throws InterruptedException {
        if (depth == 0) {
            Thread.sleep(1);
            return spins(depth) + 1;
        }
        int sum = yielding(depth - 1) + 1;
        return spins(sum) + 1;
    }

    /** Calls the leaf often enough that most samples are in it. */
    static int spins(int seed) {
        int sum = seed;
        for (int i = 0; i < 10; i++) sum += spin(i);
        return sum;
    }

    // Into native code and back.

    static int natives(int seed) {
        return AccessController.doPrivileged((PrivilegedAction<Integer>) () -> spin(seed) + 1);
    }

    static native int callBack(int seed);

    /** Called by {@code callBack}. */
    static int calledBack(int seed) {
        return spin(seed) + 1;
    }

    // Classes of which each loader has its own, and that are unloaded with it.

    public static class Guest implements IntUnaryOperator {
        public int applyAsInt(int seed) {
            return spin(seed) + 1;
        }
    }

    public static class Visitor implements IntUnaryOperator {
        public int applyAsInt(int seed) {
            return spin(visit(seed)) + 1;
        }

        static int visit(int seed) {
            return spin(seed) + 2;
        }
    }

    static class Loader extends ClassLoader {
        IntUnaryOperator instance(Class<?> of) throws Exception {
            byte[] code = code(of);
            return (IntUnaryOperator) defineClass(of.getName(), code, 0, code.length).getConstructor().newInstance();
        }
    }

    static byte[] code(Class<?> of) throws IOException {
        try (InputStream in = Chains.class.getResourceAsStream("/" + of.getName() + ".class")) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            for (int part = in.read(); part >= 0; part = in.read()) out.write(part);
            return out.toByteArray();
        }
    }

    static int rounds;

    static int unloading(int seed) throws Exception {
        int sum = 0;
        for (Class<?> of : new Class<?>[] {Guest.class, Visitor.class}) {
            IntUnaryOperator guest = new Loader().instance(of);
            for (int i = 0; i < 100; i++) sum += guest.applyAsInt(i);
        }
        if (++rounds % 64 == 0) System.gc();
        return sum;
    }

    // A class that is redefined while it runs.

    static Instrumentation instrumentation;

    public static void premain(String arguments, Instrumentation instrumentation) {
        Chains.instrumentation = instrumentation;
    }

    public static class Redefined {
        static int version(int seed) {
            return calls(seed) + VERSION;
        }

        static int calls(int seed) {
            int sum = VERSION;
            for (int i = 0; i < 100; i++) sum += spin(seed);
            return sum;
        }
    }

    static final int VERSION = 12345;

    static int redefinition(int seed) throws Exception {
        if (++rounds % 16 == 0) {
            byte[] code = code(Redefined.class);
            // sipush 12345, so that the methods differ.
            for (int at = 0; at + 2 < code.length; at++) {
                if (code[at] == 0x11 && code[at + 1] == 0x30 && code[at + 2] == 0x39) code[at + 2] = (byte) (rounds / 16);
            }
            instrumentation.redefineClasses(new ClassDefinition(Redefined.class, code));
        }
        return Redefined.version(seed);
    }

    // Sorting with a comparator.

    static int sorting(int seed) {
        Integer[] array = {3, 1, 2};
        Arrays.sort(array, (a, b) -> spin(a) < 0 ? Integer.compare(a, b) : Integer.compare(a, b));
        return array[0];
    }

    // On-stack replacement: one call that never ends.

    static int loop(long end) {
        int sum = 0;
        while (System.nanoTime() < end) {
            for (int i = 0; i < 20_000; i++) sum = sum * 31 + (sum >>> 7 ^ i); // loop
        }
        return sum;
    }

    static Callable<Integer> chain(String name, long end) throws Exception {
        switch (name) {
            case "recursion": return () -> recurse(20);
            case "inlined": return () -> small(1);
            case "interfaces": return () -> shapes(1);
            case "tables": return () -> tables(1);
            case "lambdas": return () -> lambdas(1);
            case "streams": return () -> streams(1);
            case "exceptions": return () -> exceptions(1);
            case "reflection":
                reflected = Chains.class.getMethod("target", int.class);
                return () -> reflection(1);
            case "handles":
                MethodType type = MethodType.methodType(int.class, int.class);
                handle = MethodHandles.lookup().findStatic(Chains.class, "target", type);
                return () -> {
                    try {
                        return handles(1);
                    } catch (Throwable error) {
                        throw new AssertionError(error);
                    }
                };
            case "synchronized": return () -> locked(1);
            case "yielding": return () -> yielding(8);
            case "native": return () -> natives(1);
            case "callback":
                System.load(System.getProperty("library"));
                return () -> callBack(1) + 1;
            case "unloading": return () -> unloading(1);
            case "redefinition": return () -> redefinition(1);
            case "sorting": return () -> sorting(1);
            case "loop": return () -> loop(end);
            // A class of another language.
            default: return (Callable<Integer>) Class.forName(name).getDeclaredConstructor().newInstance();
        }
    }

    /** Calls a chain as often as the time allows. */
    static void run(Callable<Integer> chain, double seconds) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() < end) sink += chain.call();
    }

    /** Lets the code be compiled, prints the stacks of the leaf, and runs on. */
    static void work(String name, double warmUp, double seconds, boolean fromStart) {
        try {
            Callable<Integer> chain = chain(name, System.nanoTime() + (long) (seconds * 1e9));
            // One call for all phases, so that all stacks have its line.
            double[] phases = {warmUp, 0.2, warmUp, seconds};
            for (int phase = name.equals("loop") ? 3 : 0; phase < phases.length; phase++) {
                isCollecting = phase == 1 || fromStart && phase == 0;
                if (phase == 3) {
                    for (String truth : TRUTHS) System.out.println("truth " + truth);
                    System.out.println("ready");
                }
                run(chain, phases[phase]);
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        double warmUp = Double.parseDouble(arguments[1]);
        double seconds = Double.parseDouble(arguments[2]);
        boolean fromStart = arguments.length > 3;
        if (!arguments[0].startsWith("virtual-")) {
            work(arguments[0], warmUp, seconds, fromStart);
            return;
        }
        // Not in the classes that this file is compiled against.
        Runnable task = () -> work(arguments[0].substring("virtual-".length()), warmUp, seconds, fromStart);
        Thread thread = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
        thread.join();
    }
}
