import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Reads names of classes and prints which methods their code calls: "class.method:line callee callee", line 0 for the whole method.
 * A callee is a name, or "*" for a call whose target the class file doesn't name. Classes that are in no file are left out.
 */
public class Callees {
    final Object[] constants;
    final int[][] pairs;
    final Map<String, Set<String>> calls = new TreeMap<>();
    final String name;

    Callees(String name, DataInputStream in) throws IOException {
        this.name = name;
        in.readInt();
        in.readInt();
        int count = in.readUnsignedShort();
        constants = new Object[count];
        pairs = new int[count][];
        for (int i = 1; i < count; i++) {
            int tag = in.readUnsignedByte();
            switch (tag) {
                case 1: constants[i] = in.readUTF(); break;
                case 3: case 4: in.readInt(); break;
                case 5: case 6: in.readLong(); i++; break;
                case 7: case 8: case 16: case 19: case 20: pairs[i] = new int[] {in.readUnsignedShort()}; break;
                case 9: case 10: case 11: case 12: case 17: case 18:
                    pairs[i] = new int[] {in.readUnsignedShort(), in.readUnsignedShort()};
                    break;
                case 15: in.readUnsignedByte(); in.readUnsignedShort(); break;
                default: throw new IOException("constant " + tag);
            }
        }
        skip(in, 6);
        skip(in, 2L * in.readUnsignedShort());
        members(in, false);
        members(in, true);
    }

    void members(DataInputStream in, boolean areMethods) throws IOException {
        for (int i = in.readUnsignedShort(); i > 0; i--) {
            in.readUnsignedShort();
            String member = name + "." + constants[in.readUnsignedShort()];
            in.readUnsignedShort();
            for (int j = in.readUnsignedShort(); j > 0; j--) {
                String attribute = (String) constants[in.readUnsignedShort()];
                int length = in.readInt();
                if (areMethods && attribute.equals("Code")) code(member, in);
                else skip(in, length);
            }
        }
    }

    void code(String member, DataInputStream in) throws IOException {
        in.readInt();
        byte[] code = new byte[in.readInt()];
        in.readFully(code);
        skip(in, 8L * in.readUnsignedShort());
        int[] lines = new int[code.length];
        for (int j = in.readUnsignedShort(); j > 0; j--) {
            String attribute = (String) constants[in.readUnsignedShort()];
            int length = in.readInt();
            if (!attribute.equals("LineNumberTable")) {
                skip(in, length);
                continue;
            }
            for (int k = in.readUnsignedShort(); k > 0; k--) lines[in.readUnsignedShort()] = in.readUnsignedShort();
        }
        calls.computeIfAbsent(member + ":0", key -> new TreeSet<>());
        for (int at = 0, line = 0, next; at < code.length; at = next) {
            next = at + length(code, at);
            for (int i = at; i < next; i++) if (lines[i] != 0) line = lines[i];
            int operation = code[at] & 0xff;
            if (operation < 182 || operation > 186) continue;
            String callee = operation == 186 ? "*" : callee(word(code, at + 1, 2));
            calls.get(member + ":0").add(callee);
            calls.computeIfAbsent(member + ":" + line, key -> new TreeSet<>()).add(callee);
        }
    }

    /** The name of a method by its reference; those of handles lead to others. */
    String callee(int reference) {
        String of = (String) constants[pairs[pairs[reference][0]][0]];
        if (of.equals("java/lang/invoke/MethodHandle") || of.equals("java/lang/invoke/VarHandle")) return "*";
        return (String) constants[pairs[pairs[reference][1]][0]];
    }

    static int length(byte[] code, int at) {
        int operation = code[at] & 0xff;
        int aligned = (at & ~3) + 4;
        if (operation == 170) return aligned + 12 + 4 * (word(code, aligned + 8, 4) - word(code, aligned + 4, 4) + 1) - at;
        if (operation == 171) return aligned + 8 + 8 * word(code, aligned + 4, 4) - at;
        if (operation == 196) return (code[at + 1] & 0xff) == 132 ? 6 : 4;
        if (operation < 16 || operation >= 26 && operation < 54) return 1;
        if (operation == 16 || operation == 18 || operation >= 21 && operation <= 25) return 2;
        if (operation == 17 || operation == 19 || operation == 20) return 3;
        if (operation >= 54 && operation <= 58 || operation == 169 || operation == 188) return 2;
        if (operation == 132 || operation >= 153 && operation <= 168) return 3;
        if (operation >= 178 && operation <= 184 || operation == 187 || operation == 189) return 3;
        if (operation == 192 || operation == 193 || operation == 198 || operation == 199) return 3;
        if (operation == 197) return 4;
        if (operation == 185 || operation == 186 || operation == 200 || operation == 201) return 5;
        return 1;
    }

    static void skip(DataInputStream in, long count) throws IOException {
        while (count > 0) count -= in.skipBytes((int) Math.min(count, 1 << 16));
    }

    static int word(byte[] code, int at, int size) {
        int word = 0;
        for (int i = 0; i < size; i++) word = word << 8 | code[at + i] & 0xff;
        return word;
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader names = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String name; (name = names.readLine()) != null;) {
            try (InputStream in = ClassLoader.getSystemResourceAsStream(name.replace('.', '/') + ".class")) {
                if (in == null) continue;
                Callees callees = new Callees(name, new DataInputStream(new BufferedInputStream(in)));
                callees.calls.forEach((method, called) -> out.append(method).append(' ').append(String.join(" ", called)).append('\n'));
            }
        }
        System.out.print(out);
    }
}
