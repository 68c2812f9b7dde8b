'use strict';
// Chains of known functions: each takes its time in a leaf of its own.
function spinRecursion(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum = (sum + i * 7) % 1013;
  return sum;
}
function recurse(depth, n) {
  if (depth === 0) return spinRecursion(n);
  return recurse(depth - 1, n) + 1;
}
function recursion() {
  return recurse(8, 200000);
}

// They alternate, so a frame that is missing or twice in the stack shows.
function even(n) {
  return n < 2 ? n : odd(n - 1) + odd(n - 2);
}
function odd(n) {
  return n < 2 ? n : even(n - 1) + even(n - 2);
}
function calls() {
  return even(24);
}

class Shape {
  constructor(size) { this.size = size; }
  area() { return this.scaled(3); }
  scaled(factor) {
    let sum = 0;
    for (let i = 0; i < 100000; i++) sum = (sum + this.size * factor + i) % 997;
    return sum;
  }
  get weight() { return this.scaled(5); }
}
class Square extends Shape {
  area() { return super.area() + 1; }
}
function classes() {
  return new Square(4).area() + new Square(5).weight;
}

function comparison(a, b) {
  let sum = 0;
  for (let i = 0; i < 300; i++) sum = (sum + i) % 7;
  return a - b + sum - sum;
}
function sorting() {
  const values = [];
  for (let i = 0; i < 300; i++) values.push((i * 7919) % 1009);
  return values.sort(comparison)[0];
}

function mapped(value) {
  let sum = value;
  for (let i = 0; i < 3000; i++) sum = (sum * 3 + i) % 1013;
  return sum;
}
function mapping() {
  return [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(mapped).length;
}

function revive(key, value) {
  let sum = 0;
  for (let i = 0; i < 3000; i++) sum = (sum + i) % 11;
  return sum === -1 ? key : value;
}
function json() {
  return JSON.parse('{"a":[1,2,3,4],"b":{"c":5}}', revive);
}

function replacement(match) {
  let sum = 0;
  for (let i = 0; i < 3000; i++) sum = (sum + i) % 11;
  return match + sum;
}
function regexp() {
  return 'one two three four five six'.replace(/[a-z]+/g, replacement).length;
}

function* generate(n) {
  for (let i = 0; i < n; i++) {
    let sum = 0;
    for (let j = 0; j < 20000; j++) sum = (sum + j) % 13;
    yield sum;
  }
}
function generators() {
  let sum = 0;
  for (const value of generate(8)) sum += value;
  return sum;
}

function throwing(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum = (sum + i) % 17;
  throw new Error(String(sum));
}
function exceptions() {
  try {
    throwing(150000);
  } catch (error) {
    return error.message;
  }
}

function closures() {
  const step = 3;
  const inner = function () {
    let sum = 0;
    for (let i = 0; i < 150000; i++) sum = (sum + step + i) % 19;
    return sum;
  };
  const arrow = () => inner() + 1;
  return arrow();
}

async function awaited() {
  await null;
  let sum = 0;
  for (let i = 0; i < 150000; i++) sum = (sum + i) % 23;
  return sum;
}
async function asynchronous() {
  return (await awaited()) + 1;
}

const parts = [recursion, calls, classes, sorting, mapping, json, regexp, generators, exceptions, closures];
async function main() {
  const end = Date.now() + Number(process.argv[2] || 10) * 1000;
  while (Date.now() < end) {
    for (const part of parts) part();
    await asynchronous();
  }
}
main();
