%% Chains of calls, each in a process of its own: prints what the virtual machine says of each, and spins at their ends.
-module(chains).
-behaviour(gen_server).
-compile([export_all, nowarn_export_all]).

main() ->
    erlang:system_flag(backtrace_depth, 2000),
    Cases = [recursion, deep, closures, map, foldl, comprehension, 'try', after_raise, 'catch', rescue, apply, server,
             binary, md5, collect, message, many_variables, maps, sort, float, strings],
    Pids = [print(Case) || Case <- Cases],
    [Pid ! {go, never} || Pid <- Pids],
    io:format("ready~n"),
    receive stop -> ok end.

print(Case) ->
    Parent = self(),
    Pid = start(Case, Parent),
    Stack = receive {stack, It} -> It end,
    io:format("case\t~s~n", [Case]),
    [io:format("frame\t~s\t~s\t~b~n", [name(M, F, A), proplists:get_value(file, Place, ""), proplists:get_value(line, Place, 0)])
     || {M, F, A, Place} <- Stack],
    Pid.

name(M, F, A) -> io_lib:format("~s:~s/~b", [M, F, A]).

start(server, Parent) ->
    {ok, Pid} = gen_server:start(?MODULE, [], []),
    gen_server:cast(Pid, {run, Parent}),
    Pid;
start(Case, Parent) ->
    spawn(?MODULE, run, [Case, Parent]).

init([]) -> {ok, none}.
handle_call(_, _, State) -> {reply, ok, State}.
handle_cast({run, Parent}, State) ->
    leaf(Parent),
    {noreply, State}.

run(recursion, P) -> recursion(20, P), ok;
run(deep, P) -> recursion(300, P), ok;
run(closures, P) ->
    Outer = fun(F) -> [F(1)] end,
    Outer(fun(X) -> leaf(P), X end),
    ok;
run(map, P) -> lists:map(fun(3) -> leaf(P), 3; (X) -> X end, [1, 2, 3, 4]), ok;
run(foldl, P) -> lists:foldl(fun(3, S) -> leaf(P), S; (X, S) -> X + S end, 0, [1, 2, 3]), ok;
run(comprehension, P) -> [begin leaf(P), X end || X <- [1, 2, 3]], ok;
run('try', P) ->
    try leaf(P), ok
    catch error:_ -> failed
    end,
    ok;
run(after_raise, P) ->
    try raise(5)
    after leaf(P)
    end,
    ok;
run('catch', P) -> X = (catch leaf(P)), X;
run(rescue, P) ->
    try raise(7)
    catch error:too_deep -> leaf(P), ok
    end,
    ok;
run(apply, P) -> X = apply(?MODULE, list_to_existing_atom("run"), ['try', P]), {X};
run(binary, P) -> << <<(begin leaf(P), X end)>> || <<X>> <= <<1, 2, 3>> >>, ok;
run(md5, P) -> X = spin_md5(binary:copy(<<1>>, 2000), report(P)), {X};
run(collect, P) -> X = spin_collect([], report(P)), {X};
run(message, P) -> X = spin_message(spawn_link(fun echo/0), report(P)), {X};
run(many_variables, P) -> many(1, 2, 3, 4, 5, 6, 7, 8, P), ok;
run(maps, P) -> maps:fold(fun(_, V, S) -> leaf(P), V + S end, 0, #{a => 1, b => 2}), ok;
run(sort, P) -> lists:sort(fun(A, B) -> leaf(P), A =< B end, [3, 1, 2]), ok;
run(float, P) -> X = spin_float(1.5, report(P)), {X};
run(strings, P) -> X = spin_strings(0, report(P)), {X}.

recursion(0, P) -> leaf(P), 0;
recursion(N, P) -> 1 + recursion(N - 1, P).

raise(0) -> error(too_deep);
raise(N) -> 1 + raise(N - 1).

many(A, B, C, D, E, F, G, H, P) ->
    X = leaf(P),
    {A, B, C, D, E, F, G, H, X}.

leaf(P) -> X = spin(0, report(P)), {X}.

%% Sends the stack of its caller, and waits for all others. Returns the number that ends the loops, of which the compiler knows
%% nothing: it removes the callers of functions that never return.
report(P) ->
    {current_stacktrace, [_ | Stack]} = process_info(self(), current_stacktrace),
    P ! {stack, Stack},
    receive {go, End} -> End end.

spin(End, End) -> End;
spin(N, End) -> spin((N * 3 + 1) band 16#ffff, End).

spin_md5(End, End) -> End;
spin_md5(Binary, End) ->
    Digest = erlang:md5(Binary),
    16 = byte_size(Digest),
    spin_md5(Binary, End).

spin_collect(End, End) -> End;
spin_collect(List, End) when length(List) > 500 -> spin_collect([], End);
spin_collect(List, End) -> spin_collect([make_list(40, []) | List], End).

make_list(0, List) -> List;
make_list(N, List) -> make_list(N - 1, [{N, N} | List]).

spin_message(End, End) -> End;
spin_message(Pid, End) ->
    Pid ! {self(), ping},
    receive pong -> ok end,
    spin_message(work(3000, Pid), End).

work(0, X) -> X;
work(N, X) -> work(N - 1, X).

echo() ->
    receive {Pid, ping} -> Pid ! pong end,
    echo().

spin_float(End, End) -> End;
spin_float(X, End) when X > 1000 -> spin_float(1.5, End);
spin_float(X, End) -> spin_float(math:sqrt(X * X + 1.0) + 0.5, End).

spin_strings(End, End) -> End;
spin_strings(N, End) ->
    S = integer_to_list(N),
    spin_strings((list_to_integer(S) + 1) band 16#ffff, End).
