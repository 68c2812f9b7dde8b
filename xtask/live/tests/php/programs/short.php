<?php namespace NAMESPACE;

/** Lines of this file are in short.rs. */
final class Page
{
    public static function render(float $until): string
    {
        return body($until);
    }
}

function body(float $until): string
{
    $call = function (string $text) use ($until): string {
        return work($until) . $text;
    };
    return \implode(\array_map($call, ['done']));
}

function work(float $until): string
{
    $sum = 0;
    while (\microtime(true) < $until) {
        for ($i = 0; $i < 200; $i++) {
            $sum = ($sum * 31 + $i) % 65521;
        }
    }
    return $sum < 0 ? 'never ' : __NAMESPACE__ . ' ';
}

echo Page::render(\microtime(true) + 0.004);
