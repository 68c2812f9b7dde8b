// A thread for each chain. It prints what the runtime says of its stack, and spins at its end.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

/// Called before the main function of any program, by DOTNET_STARTUP_HOOKS.
internal class StartupHook
{
    public static void Initialize() => Truth.Chains.Main();
}

namespace Truth
{
    internal static class Spin
    {
        static volatile int sink;
        static volatile object kept;
        static readonly Dictionary<string, int> words = new Dictionary<string, int> { ["first"] = 1, ["second"] = 2 };

        /// Spins in turn in each of these ways.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Forever()
        {
            while (true)
            {
                Loop(20000);
                Calls(20000);
                Allocates(2000);
                Library(500);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Loop(int times)
        {
            int sum = 0;
            for (int i = 0; i < times; i++)
                sum = sum * 31 + i;
            sink = sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Calls(int times)
        {
            int sum = 0;
            for (int i = 0; i < times; i++)
                sum += Wraps(i) + Saves(i, sum);
            sink = sum;
        }

        // Optimized code has no frame pointer, a call, and room for nothing else.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Wraps(int x) => Leaf(x) + 1;

        // It saves registers.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Saves(int x, int y) => Leaf(x) + x * y;

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Leaf(int x)
        {
            return x * x * 7 / (x | 1) % 13;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Allocates(int times)
        {
            for (int i = 0; i < times; i++)
                kept = new Node { next = kept, number = i % 100 == 0 ? null : "some" };
            kept = null;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Library(int times)
        {
            for (int i = 0; i < times; i++)
                sink += words["second"] + i.ToString().GetHashCode();
        }

        sealed class Node
        {
            public object next;
            public string number;
        }
    }

    internal interface IShape
    {
        int Area(int x);
    }

    internal sealed class Square : IShape
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public int Area(int x) { Chains.Leaf(); return x; }
    }

    internal sealed class Circle : IShape
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public int Area(int x) { Chains.Leaf(); return x + 1; }
    }

    internal class Box<T>
    {
        readonly T value;

        public Box(T value) => this.value = value;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public string Show<U>(U other) { Chains.Leaf(); return value + " " + other; }

        internal class Inner
        {
            [MethodImpl(MethodImplOptions.NoInlining)]
            public static void Run(T value) { Chains.Leaf(); Console.Write(value); }
        }
    }

    internal struct Item : IComparable<Item>
    {
        public int number;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public int CompareTo(Item other)
        {
            Chains.Leaf();
            return number - other.number;
        }
    }

    internal static class Chains
    {
        static readonly object printing = new object();
        static int left;

        public static void Main()
        {
            var cases = new (string, Action)[]
            {
                ("recursion", () => Recursion(20)),
                ("deep", () => Recursion(300)),
                ("tail", () => Even(30)),
                ("lambda", Lambda),
                ("closure", () => Closure(3)),
                ("local", Local),
                ("linq", Linq),
                ("generic", () => new Box<string>("a").Show("b")),
                ("generic-value", () => new Box<int>(1).Show(2L)),
                ("nested", () => Box<string>.Inner.Run("x")),
                ("interface", () => Area(new Square())),
                ("interface-other", () => Area(new Circle())),
                ("sort", Sort),
                ("iterator", () => { foreach (int x in Numbers(1)) Console.Write(x); }),
                ("async", () => PayAsync(1).Wait()),
                ("async-resumed", () => ResumedAsync().Wait()),
                ("catch", Catch),
                ("finally", Finally),
                ("reflection", Reflect),
                ("constructor", () => Console.Write(new Constructed())),
                ("static-constructor", () => Console.Write(Initialized.value)),
                ("dynamic", Dynamic),
                ("native", Native),
                ("optimized", () => Optimized(10)),
                ("large-frame", () => LargeFrame(1)),
                ("parallel", () => Parallel.For(0, 1, i => Leaf())),
            };
            left = cases.Length;
            foreach (var (name, action) in cases)
            {
                var thread = new Thread(() => { current = flowing.Value = name; action(); }, 16 << 20);
                thread.IsBackground = true;
                thread.Start();
            }
            Thread.Sleep(Timeout.Infinite);
        }

        [ThreadStatic] static string current;
        static readonly AsyncLocal<string> flowing = new AsyncLocal<string>();

        /// Prints the stack, and spins.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Leaf()
        {
            var name = current ?? flowing.Value;
            lock (printing)
            {
                Console.Out.Write("case\t" + name + "\n");
                foreach (var frame in new StackTrace(false).GetFrames())
                    Console.Out.Write("frame\t" + Name(frame.GetMethod()) + "\t\t0\n");
                if (--left == 0)
                    Console.Out.Write("ready\n");
                Console.Out.Flush();
            }
            Spin.Forever();
        }

        /// Returns the name of a method as the profiler writes it.
        static string Name(MethodBase method)
        {
            var type = method.DeclaringType;
            if (type == null)
                return method.Name;
            if (type.IsGenericType)
                type = type.GetGenericTypeDefinition();
            var name = type.FullName.Replace('+', '.') + "." + method.Name;
            name = Regex.Replace(name, @"\.<([^.]+)>d(__\d+)?(`\d+)?\.MoveNext$", ".$1");
            name = Regex.Replace(name, @"^(.+?)(\.<>c(__DisplayClass[\d_]+)?(`\d+)?)?\.<(\w+)>b__([\d_]+)$", "lambda $6 in $1.$5");
            return Regex.Replace(name, @"^(.+?)(\.<>c(__DisplayClass[\d_]+)?(`\d+)?)?\.<(\w+)>g__(\w+)\|[\d_]+$", "$6 in $1.$5");
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Recursion(int depth)
        {
            if (depth == 0)
            {
                Leaf();
                return 0;
            }
            return Recursion(depth - 1) + 1;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Even(int x) => x == 0 ? Zero() : Odd(x - 1) + 1;

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Odd(int x) => Even(x - 1) - 1;

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Zero() { Leaf(); return 0; }

        static void Lambda()
        {
            Func<int, int> inner = x => { Leaf(); return x; };
            Func<Func<int, int>, int> outer = f => f(1) + 1;
            Console.Write(outer(inner));
        }

        static void Closure(int x)
        {
            Action action = () => { Leaf(); Console.Write(x); };
            action();
        }

        static void Local()
        {
            int Round(int x) { Leaf(); return x; }
            Console.Write(Round(1));
        }

        static void Linq()
        {
            var sum = Enumerable.Range(1, 3).Where(x => x > 0).Select(x => { Leaf(); return x; }).OrderBy(x => -x).ToList();
            Console.Write(sum.Count);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Area(IShape shape) => shape.Area(1) + 1;

        static void Sort()
        {
            var items = new[] { new Item { number = 2 }, new Item { number = 1 }, new Item { number = 3 } };
            Array.Sort(items);
        }

        static IEnumerable<int> Numbers(int x)
        {
            Leaf();
            yield return x;
        }

        static async Task<int> PayAsync(int x)
        {
            Leaf();
            await Task.Yield();
            return x;
        }

        static async Task ResumedAsync()
        {
            await Task.Yield();
            current = null;
            await CalledAsync();
        }

        static async Task CalledAsync()
        {
            await Task.Yield();
            Leaf();
        }

        static void Catch()
        {
            try
            {
                Throw(3);
            }
            catch (InvalidOperationException error)
            {
                Leaf();
                Console.Write(error);
            }
        }

        static void Finally()
        {
            try
            {
                Console.Write("");
            }
            finally
            {
                Leaf();
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Throw(int depth)
        {
            if (depth == 0)
                throw new InvalidOperationException("thrown");
            Throw(depth - 1);
            Console.Write("");
        }

        static void Reflect() =>
            typeof(Chains).GetMethod("Reflected", BindingFlags.NonPublic | BindingFlags.Static).Invoke(null, null);

        static void Reflected() { Leaf(); Console.Write(""); }

        sealed class Constructed
        {
            [MethodImpl(MethodImplOptions.NoInlining)]
            public Constructed() { Leaf(); Console.Write(""); }
        }

        static class Initialized
        {
            public static readonly int value = Compute();

            static int Compute() { Leaf(); return 1; }
        }

        static void Dynamic()
        {
            var method = new DynamicMethod("Generated", typeof(void), new Type[0], typeof(Chains).Module, true);
            var code = method.GetILGenerator();
            code.Emit(OpCodes.Call, typeof(Chains).GetMethod("Leaf"));
            code.Emit(OpCodes.Nop);
            code.Emit(OpCodes.Ret);
            ((Action)method.CreateDelegate(typeof(Action)))();
        }

        delegate int Compare(IntPtr a, IntPtr b);

        [DllImport("libc.so.6")]
        static extern void qsort(int[] array, IntPtr count, IntPtr size, Compare compare);

        static void Native()
        {
            qsort(new[] { 2, 1 }, (IntPtr)2, (IntPtr)4, Compared);
            Console.Write("");
        }

        static int Compared(IntPtr a, IntPtr b) { Leaf(); return 1; }

        [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
        static int Optimized(int depth)
        {
            if (depth > 0)
                return Other(depth - 1) + depth;
            Leaf();
            return 1;
        }

        // No frame pointer.
        [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
        static int Other(int depth) => Optimized(depth) + 1;

        [MethodImpl(MethodImplOptions.NoInlining)]
        static unsafe int LargeFrame(int x)
        {
            byte* bytes = stackalloc byte[20000];
            bytes[x] = 1;
            Leaf();
            return bytes[x];
        }
    }
}
