<?php
// Calls the chain named by the first argument and spins at its end, after having printed PHP's own backtrace:
//
//     chain
//     pid<TAB>number of the process
//     frame<TAB>function<TAB>file<TAB>line         leaf first; line 0: an internal function
//     ready
//
// Lines with the comment "spin" are those on which the innermost function may be. A request to a server has the arguments
// "chain" and "number", and "output", the file to print to.

namespace Chains;

const ENDS_AFTER = 120;

$ends = \microtime(true) + ENDS_AFTER;
$output = $_GET['output'] ?? 'php://stdout';

/** Prints the chain that leads here. */
function announce(): void
{
    $calls = \debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS);
    $text = "chain\npid\t" . \getmypid() . "\n";
    // An entry has a function, and the place that called it.
    for ($index = 0; $index < \count($calls); $index++) {
        $caller = $calls[$index + 1] ?? null;
        $file = $calls[$index]['file'] ?? '';
        $line = $calls[$index]['line'] ?? 0;
        $function = $caller['function'] ?? '{main}';
        if (\in_array($function, ['include', 'include_once', 'require', 'require_once'], true)) {
            $function = '{main}';
        } elseif ($function === 'eval') {
            $function = '{eval}';
        } elseif (isset($caller['class']) && \strncmp($function, '{closure:', 9) !== 0) {
            $function = \explode("\0", $caller['class'])[0] . '::' . $function;
        }
        $text .= "frame\t$function\t$file\t$line\n";
    }
    \file_put_contents($GLOBALS['output'], $text . "ready\n", \FILE_APPEND);
}

/** The end of every chain. */
function leaf(): int
{
    announce();
    $sum = 0;
    while (\microtime(true) < $GLOBALS['ends']) {                       // spin
        for ($i = 0; $i < 20000; $i++) {                                // spin
            $sum = ($sum * 31 + $i) % 65521;                            // spin
            $sum ^= $i;                                                 // spin
        }
    }
    return $sum;
}

function recursion(int $depth): int
{
    if ($depth > 0) {
        return 1 + recursion($depth - 1);
    }
    return leaf();
}

function compare($left, $right): int
{
    leaf();
    return $left <=> $right;
}

trait Doubled
{
    public function doubled(): int
    {
        return 2 * $this->plain(3);
    }
}

abstract class Base
{
    public function __construct(int $depth = 0)
    {
        if ($depth > 0) {
            new static($depth - 1);
        } elseif ($depth < 0) {
            leaf();
        }
    }

    protected function plain(int $depth): int
    {
        return $depth > 0 ? $this->plain($depth - 1) : static::fixed();
    }

    abstract public static function fixed(): int;
}

final class Derived extends Base implements \ArrayAccess, \IteratorAggregate, \Countable
{
    use Doubled;

    public static function fixed(): int
    {
        return \count(new self());
    }

    public static function ofClass(int $depth): int
    {
        $bound = \Closure::bind(function () use ($depth) {
            return recursion($depth);
        }, null, self::class);
        return $bound();
    }

    public function count(): int
    {
        return $this->missing(4);
    }

    public function __call($name, $arguments)
    {
        // In a method with an object, the call of a missing static method would be one of an instance.
        $static = static function () use ($name) {
            return self::alsoMissing($name);
        };
        return $static();
    }

    public static function __callStatic($name, $arguments)
    {
        return (new self())->property;
    }

    public function __get($name)
    {
        return (new self())['key'];
    }

    #[\ReturnTypeWillChange]
    public function offsetGet($key)
    {
        return \strlen((string) new self());
    }

    public function __toString(): string
    {
        foreach (new self() as $value) {
            return (string) $value;
        }
        return '';
    }

    public function getIterator(): \Traversable
    {
        return (new self())(1);
    }

    public function __invoke($value)
    {
        $anonymous = new class () {
            public function run(): int
            {
                return leaf();
            }
        };
        return new \ArrayIterator([$anonymous->run()]);
    }

    public function offsetExists($key): bool
    {
        return true;
    }

    public function offsetSet($key, $value): void
    {
    }

    public function offsetUnset($key): void
    {
    }
}

final class Invoked
{
    public function __invoke(int $depth): int
    {
        return \call_user_func('Chains\recursion', $depth);
    }
}

final class Dying
{
    public function __destruct()
    {
        leaf();
    }
}

function closures(): int
{
    $inner = function (int $depth) use (&$inner) {
        return $depth > 0 ? $inner($depth - 1) : leaf();
    };
    $arrow = fn (int $depth) => $inner($depth) + 1;
    $static = static function () use ($arrow) {
        return \call_user_func_array($arrow, [3]);
    };
    return $static();
}

function counted(int $depth)
{
    yield 1;
    if ($depth > 0) {
        foreach (counted($depth - 1) as $value) {
            yield $value;
        }
    } else {
        yield leaf();
    }
}

function delegating(int $depth)
{
    if ($depth > 0) {
        yield from delegating($depth - 1);
    } else {
        yield leaf();
    }
}

function fails(int $depth): int
{
    try {
        if ($depth === 0) {
            throw new \RuntimeException('expected');
        }
        return fails($depth - 1);
    } catch (\RuntimeException $error) {
        if ($depth === 3) {
            return leaf();
        }
        throw $error;
    } finally {
        $depth = -1;
    }
}

function finishes(): int
{
    try {
        throw new \RuntimeException('expected');
    } catch (\LogicException $error) {
        return 0;
    } finally {
        return leaf();
    }
}

function prüfe_größe(): int
{
    return leaf();
}

/** Evaluates closures at other lines, whose memory is that of the former ones. */
function reuses(): int
{
    for ($number = 1; $number < 300; $number++) {
        $closure = eval(\str_repeat("\n", $number) . "return function () { return $number; };");
        $closure();
    }
    $closure = eval("\n\nreturn function () {\n    return \\Chains\\leaf();\n};\n");
    return $closure();
}

/** Calls internal functions that call internal functions. */
function internals(): int
{
    $words = \array_fill(0, 500, 'abcdefghij');
    $sum = 0;
    announce();
    while (\microtime(true) < $GLOBALS['ends']) {                       // spin
        $sum += \count(\array_map('strrev', $words));                   // spin
        \usort($words, 'strcmp');                                       // spin
        $sum += \count(\array_filter($words, 'is_string'));             // spin
    }
    return $sum;
}

/** Expressions that PCRE compiles. */
function patterns(): int
{
    $text = \str_repeat('abcdefghij klmnop ', 200) . 'é';
    $sum = 0;
    announce();
    while (\microtime(true) < $GLOBALS['ends']) {                       // spin
        $sum += \preg_match('/(\w)(\w*)\s(\w+)\s\1\3/', $text);         // spin
        $sum += \preg_match('/(\w+)\s(?i:KLM)(?:(?1)|(\w)+)É$/iu', $text); // spin
    }
    return $sum;
}

function two_lines(): int
{
    $sum = 0;
    announce();
    while (true) {
        for ($i = 0; $i < 100000; $i++) { $sum = ($sum * 31 + $i) % 65521; }     // spin
        for ($i = 0; $i < 100000; $i++) { $sum = ($sum * 31 + $i) % 65521; }     // spin
    }
    return $sum;
}

function run(string $chain, int $number)
{
    switch ($chain) {
        case 'recursion':
            return recursion($number);
        case 'methods':
            return (new Derived())->doubled();
        case 'constructor':
            return new class (-1) extends Base {
                public static function fixed(): int
                {
                    return 0;
                }
            };
        case 'destructor':
            $dying = new Dying();
            $dying = null;
            return 0;
        case 'closures':
            return closures();
        case 'usort':
            $values = [3, 1, 2];
            return \usort($values, 'Chains\compare');
        case 'array_map':
            return \array_map(function ($value) {
                return leaf();
            }, [1]);
        case 'array_reduce':
            return \array_reduce([1], fn ($all, $value) => leaf(), 0);
        case 'array_walk':
            $values = [1];
            return \array_walk($values, [new Derived(), 'count']);
        case 'regex':
            return \preg_replace_callback('/b/', function ($found) {
                return (string) leaf();
            }, 'abc');
        case 'autoload':
            \spl_autoload_register(function ($class) {
                leaf();
            });
            // By a variable: from 8.4 on a direct call has no frame.
            $exists = 'class_exists';
            return $exists('Chains\NoSuchClass');
        case 'error_handler':
            \set_error_handler(function ($number, $message) {
                return leaf() > 0;
            });
            return $undefined;
        case 'output':
            \ob_start(function ($text) {
                leaf();
                return '';
            });
            echo 'text';
            return \ob_end_flush();
        case 'generators':
            foreach (counted(5) as $value) {
                $last = $value;
            }
            return $last;
        case 'next':
            $generator = counted(0);
            $generator->current();
            return $generator->next();
        case 'delegates':
            foreach (delegating(3) as $value) {
                $last = $value;
            }
            return $last;
        case 'exceptions':
            return fails(5);
        case 'finally':
            return finishes();
        case 'include':
            return include __DIR__ . '/included.php';
        case 'eval':
            return eval("\n\nfunction evaluated() {\n    return \\Chains\\leaf();\n}\nreturn evaluated();\n");
        case 'reused':
            return reuses();
        case 'invoked':
            return \array_sum(\array_map(new Invoked(), [3]));
        case 'static_closure':
            return \array_sum(\array_map([Derived::class, 'ofClass'], [2]));
        case 'names':
            eval('namespace Chains; function ' . \str_repeat('long', 250) . '() { return prüfe_größe(); }');
            return ('Chains\\' . \str_repeat('long', 250))();
        case 'fiber':
            $fiber = new \Fiber(function (int $depth) {
                return recursion($depth);
            });
            return $fiber->start(5);
        case 'internals':
            return internals();
        case 'patterns':
            return patterns();
        case 'two_lines':
            return two_lines();
    }
    exit("no chain $chain\n");
}

run($_GET['chain'] ?? $argv[1], (int) ($_GET['number'] ?? $argv[2] ?? 0));
