// Runs many compiled methods until it is ended: Many METHODS
import java.io.InputStream;

public class Many {
    // Its class is loaded once for every twenty methods, each time as a class of its own.
    public static class Part implements Runnable {
        static int total;

        public void run() {
            m0(); m1(); m2(); m3(); m4(); m5(); m6(); m7(); m8(); m9();
            m10(); m11(); m12(); m13(); m14(); m15(); m16(); m17(); m18(); m19();
        }

        static void burn() {
            for (int number = 0; number < 500; number++) total = total * 31 + number;
        }

        static void m0() { burn(); } static void m1() { burn(); } static void m2() { burn(); }
        static void m3() { burn(); } static void m4() { burn(); } static void m5() { burn(); }
        static void m6() { burn(); } static void m7() { burn(); } static void m8() { burn(); }
        static void m9() { burn(); } static void m10() { burn(); } static void m11() { burn(); }
        static void m12() { burn(); } static void m13() { burn(); } static void m14() { burn(); }
        static void m15() { burn(); } static void m16() { burn(); } static void m17() { burn(); }
        static void m18() { burn(); } static void m19() { burn(); }
    }

    static class Loader extends ClassLoader {
        Runnable part(byte[] bytes) throws Exception {
            Class<?> part = defineClass("Many$Part", bytes, 0, bytes.length);
            return (Runnable) part.getDeclaredConstructor().newInstance();
        }
    }

    public static void main(String[] words) throws Exception {
        byte[] bytes;
        try (InputStream file = Many.class.getResourceAsStream("Many$Part.class")) {
            bytes = file.readAllBytes();
        }
        Runnable[] parts = new Runnable[Integer.parseInt(words[0]) / 20];
        for (int index = 0; index < parts.length; index++) {
            parts[index] = new Loader().part(bytes);
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
