// Makes a method, runs it for 25 ms of CPU time and drops it, again and again: VARIANT SECONDS.
// Prints for each method: name, file, first line and CPU time in milliseconds.
using System;
using System.IO;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Loader;
using System.Text;

/// Called before the main function of any program, by DOTNET_STARTUP_HOOKS.
internal class StartupHook
{
    public static void Initialize()
    {
        var arguments = Environment.GetCommandLineArgs();
        Reuse.Run(arguments[arguments.Length - 2], int.Parse(arguments[arguments.Length - 1]));
        Environment.Exit(0);
    }
}

public static class Reuse
{
    struct Time { public long seconds, nanoseconds; }

    [DllImport("libc.so.6")]
    static extern int clock_gettime(int clock, out Time time);

    /// CPU time of the thread, in milliseconds.
    static double Now()
    {
        clock_gettime(3, out var time);
        return time.seconds * 1e3 + time.nanoseconds / 1e6;
    }

    static double limit;
    static int sum;

    /// Works for a while; returns false at the end of the method's time.
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static bool Goes()
    {
        for (int i = 0; i < 20000; i++)
            sum = sum * 31 + i;
        return Now() < limit;
    }

    public static void Run(string variant, int seconds)
    {
        var end = Now() + seconds * 1000;
        for (int index = 1; Now() < end; index++)
        {
            Once(variant, index);
            GC.Collect();
            GC.WaitForPendingFinalizers();
            GC.Collect();
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Once(string variant, int index)
    {
        // Names have the same length.
        var name = "f_" + index.ToString("D4");
        var run = variant == "assemblies" ? Loaded(name) : Dynamic(name);
        var start = Now();
        limit = start + 25;
        run();
        var shown = variant == "assemblies" ? name + ".Run" : name;
        Console.Out.Write(shown + "\t*\t*\t" + (Now() - start).ToString("F3") + "\n");
    }

    static Action Dynamic(string name)
    {
        var method = new DynamicMethod(name, typeof(void), new Type[0], typeof(Reuse).Module, true);
        Emit(method.GetILGenerator());
        return (Action)method.CreateDelegate(typeof(Action));
    }

    /// Loads this assembly once more, with another name of the same length for the class at the end.
    static Action Loaded(string name)
    {
        var bytes = File.ReadAllBytes(typeof(Reuse).Assembly.Location);
        var (from, to) = (Encoding.UTF8.GetBytes(nameof(f_0000)), Encoding.UTF8.GetBytes(name));
        for (int at = 0; at + from.Length <= bytes.Length; at++)
            if (bytes.AsSpan(at, from.Length).SequenceEqual(from))
                to.CopyTo(bytes, at);
        var assembly = new AssemblyLoadContext(null, true).LoadFromStream(new MemoryStream(bytes));
        var run = (Action<Func<bool>>)assembly.GetType(name).GetMethod("Run").CreateDelegate(typeof(Action<Func<bool>>));
        return () => run(Goes);
    }

    static void Emit(ILGenerator code)
    {
        var again = code.DefineLabel();
        code.MarkLabel(again);
        code.Emit(OpCodes.Call, typeof(Reuse).GetMethod("Goes"));
        code.Emit(OpCodes.Brtrue, again);
        code.Emit(OpCodes.Ret);
    }
}

public static class f_0000
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Run(Func<bool> goes)
    {
        while (goes())
            ;
    }
}
