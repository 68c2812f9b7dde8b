// Runs many compiled methods until it is ended: Many METHODS, at most 200,000
import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.io.InputStream;

public class Many {
    // Loaded once for every twenty methods, each time with another number in its name.
    public static class Part0000 implements Runnable {
        static int total;

        public void run() {
            m0(); m1(); m2(); m3(); m4(); m5(); m6(); m7(); m8(); m9();
            m10(); m11(); m12(); m13(); m14(); m15(); m16(); m17(); m18(); m19();
        }

        // Inlined into each of its callers.
        static void step() {
            total++;
            burn();
        }

        static void burn() {
            for (int number = 0; number < 500; number++) total = total * 31 + number;
        }

        static void m0() { step(); } static void m1() { step(); } static void m2() { step(); }
        static void m3() { step(); } static void m4() { step(); } static void m5() { step(); }
        static void m6() { step(); } static void m7() { step(); } static void m8() { step(); }
        static void m9() { step(); } static void m10() { step(); } static void m11() { step(); }
        static void m12() { step(); } static void m13() { step(); } static void m14() { step(); }
        static void m15() { step(); } static void m16() { step(); } static void m17() { step(); }
        static void m18() { step(); } static void m19() { step(); }
    }

    static class Loader extends ClassLoader {
        Runnable part(byte[] bytes, int number) throws Exception {
            // One byte a character.
            String renamed = new String(bytes, ISO_8859_1).replace("Part0000", String.format("Part%04d", number));
            Class<?> part = defineClass(null, renamed.getBytes(ISO_8859_1), 0, bytes.length);
            return (Runnable) part.getDeclaredConstructor().newInstance();
        }
    }

    public static void main(String[] words) throws Exception {
        byte[] bytes;
        try (InputStream file = Many.class.getResourceAsStream("Many$Part0000.class")) {
            bytes = file.readAllBytes();
        }
        Loader loader = new Loader();
        Runnable[] parts = new Runnable[Integer.parseInt(words[0]) / 20];
        for (int index = 0; index < parts.length; index++) {
            parts[index] = loader.part(bytes, index);
            parts[index].run();
        }
        System.out.println("ready");
        for (;;) {
            for (Runnable part : parts) {
                part.run();
            }
        }
    }
}
