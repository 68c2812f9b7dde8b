import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/** The stack of the caller's caller, root first, hidden frames included. For virtual machines that have {@code StackWalker}. */
public class Walker implements Supplier<List<String>> {
    static final StackWalker WALKER = StackWalker.getInstance(StackWalker.Option.SHOW_HIDDEN_FRAMES);

    public List<String> get() {
        // This method, the one that calls it by the interface's type, and Chains.collect.
        List<String> frames = WALKER.walk(all -> all.skip(3).map(Walker::text).collect(Collectors.toList()));
        Collections.reverse(frames);
        return frames;
    }

    static String text(StackWalker.StackFrame frame) {
        return Chains.text(frame.getClassName(), frame.getMethodName(), frame.getLineNumber());
    }
}
