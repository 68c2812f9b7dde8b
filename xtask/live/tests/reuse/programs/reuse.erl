%% Loads a module with a function, runs it for 60 ms of CPU time and purges it, again and again: reuse.erl VARIANT SECONDS.
%% Prints for each function: name, file, first line and CPU time in milliseconds.
-module(reuse).
-export([main/2]).

main(Variant, Seconds) -> run(Variant, 1, now_ms() + Seconds * 1000).

%% User CPU time of the process, in milliseconds. It stands still for up to 20 ms when the kernel corrects its estimate of the
%% system's part, so a function runs for longer than in other languages.
now_ms() -> element(1, erlang:statistics(runtime)).

run(Variant, Index, Deadline) ->
    {Module, Function, Lines} = make(Variant, Index),
    Code = compile(Module, text(Module, Function, Lines)),
    {module, Module} = code:load_binary(Module, "reload", Code),
    Start = now_ms(),
    Module:Function(Start + 60, 0),
    Used = now_ms() - Start,
    Line = case Variant of lines -> integer_to_list(Lines + 3); _ -> "*" end,
    io:format("~s:~s/2\t*\t~s\t~b~n", [Module, Function, Line, Used]),
    true = code:delete(Module),
    code:purge(Module),
    case now_ms() < Deadline of
        true -> run(Variant, Index + 1, Deadline);
        false -> ok
    end.

%% Names have the same length.
make(functions, Index) -> {reload, name("f_", Index), 0};
make(modules, Index) -> {name("reload_", Index), run, 0};
make(lines, Index) -> {reload, run, Index}.

name(Before, Index) -> list_to_atom(lists:flatten(io_lib:format("~s~4..0b", [Before, Index]))).

text(Module, Function, Lines) ->
    Head = io_lib:format("-module(~s).~n-export([~s/2]).~n", [Module, Function]),
    Body = io_lib:format("~s(Limit, X) ->~n  Y = work(2000, X),~n"
                         "  case element(1, erlang:statistics(runtime)) < Limit of~n"
                         "    true -> ~s(Limit, Y);~n    false -> Y~n  end.~n", [Function, Function]),
    lists:flatten([Head, lists:duplicate(Lines, $\n), Body,
                   "work(0, X) -> X;\nwork(N, X) -> work(N - 1, (X * 3 + N) band 1023).\n"]).

compile(Module, Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    Forms = [begin {ok, Form} = erl_parse:parse_form(Part), Form end || Part <- split(Tokens, [])],
    {ok, Module, Code} = compile:forms(Forms, []),
    Code.

split([], []) -> [];
split([{dot, _} = Dot | Rest], Part) -> [lists:reverse([Dot | Part]) | split(Rest, [])];
split([Token | Rest], Part) -> split(Rest, [Token | Part]).
