# As chains.erl, in Elixir.

defprotocol Area do
  def of(shape, parent)
end

defmodule Square do
  defstruct [:side]
end

defimpl Area, for: Square do
  def of(square, parent) do
    {Chains.leaf(parent), square.side}
  end
end

defmodule Server do
  use GenServer

  def init(parent), do: {:ok, parent}

  def handle_cast(:run, parent) do
    x = Chains.leaf(parent)
    {:noreply, {x, parent}}
  end
end

defmodule Chains do
  import Bitwise

  def main do
    :erlang.system_flag(:backtrace_depth, 2000)

    cases = [:map, :reduce, :stream, :comprehension, :protocol, :server, :rescue, :closure, :quoted, :operator, :capture]
    pids = Enum.map(cases, &print/1)
    Enum.each(pids, &send(&1, {:go, :never}))
    IO.puts("ready")
    Process.sleep(:infinity)
  end

  def print(name) do
    pid = start(name, self())
    stack = receive do: ({:stack, it} -> it)
    IO.puts("case\t#{name}")

    for {m, f, a, place} <- stack do
      IO.puts("frame\t#{name(m, f, a)}\t#{place[:file]}\t#{place[:line] || 0}")
    end

    pid
  end

  def name(m, f, a) do
    if String.starts_with?(Atom.to_string(m), "Elixir.") do
      Exception.format_mfa(m, f, a)
    else
      "#{m}:#{f}/#{a}"
    end
  end

  def start(:server, parent) do
    {:ok, pid} = GenServer.start(Server, parent)
    GenServer.cast(pid, :run)
    pid
  end

  def start(name, parent), do: spawn(__MODULE__, :run, [name, parent])

  def run(:map, p), do: Enum.map(1..3, fn x -> {leaf(p), x} end)
  def run(:reduce, p), do: Enum.reduce([1, 2], 0, fn x, s -> {leaf(p), x, s} end)

  def run(:stream, p) do
    Stream.map(1..3, fn x -> {leaf(p), x} end) |> Stream.filter(fn x -> x end) |> Enum.to_list()
  end

  def run(:comprehension, p), do: for(x <- [1, 2], do: {leaf(p), x})
  def run(:protocol, p), do: {Area.of(%Square{side: 1}, p)}

  def run(:rescue, p) do
    try do
      raise "wanted"
    rescue
      e -> {leaf(p), e}
    end
  end

  def run(:closure, p) do
    f = fn g -> {g.(1)} end
    f.(fn x -> {leaf(p), x} end)
  end

  def run(:quoted, p), do: {unquote(:"a name")(p)}
  def run(:operator, p), do: {p <~> 1}
  def run(:capture, p), do: Enum.map([p], &leaf/1) |> Enum.count()

  def unquote(:"a name")(p), do: {leaf(p)}
  def p <~> x, do: {leaf(p), x}

  def leaf(p), do: {spin(0, report(p))}

  def report(p) do
    {:current_stacktrace, [_ | stack]} = Process.info(self(), :current_stacktrace)
    send(p, {:stack, Enum.drop(stack, 1)})
    receive do: ({:go, last} -> last)
  end

  def spin(last, last), do: last
  def spin(n, last), do: spin(n * 3 + 1 &&& 0xFFFF, last)
end

Chains.main()
