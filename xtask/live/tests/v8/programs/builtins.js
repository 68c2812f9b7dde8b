'use strict';
// Functions that use builtins of one kind each, in loops: main, call, the function, and those that it calls.
const N = 20000;

class Point {
  constructor(x, y) { this.x = x; this.y = y; }
  sum() { return this.x + this.y; }
  get size() { return this.x * this.y; }
  set size(value) { this.x = value; }
  static of(x) { return new Point(x, 1); }
}
class Point3 extends Point {
  constructor(x, y, z) { super(x, y); this.z = z; }
  sum() { return super.sum() + this.z; }
}
class Fields { a = 1; b = 'b'; #hidden = 3; hidden() { return this.#hidden; } }

function imul() { let sum = 1; for (let i = 0; i < N; i++) sum = Math.imul(sum, i | 1); return sum; }
function maths() { let sum = 0; for (let i = 0; i < N; i++) sum += Math.max(Math.sqrt(i), Math.floor(i / 3), Math.abs(-i)); return sum; }
function doubles() { let sum = 0.5; for (let i = 0; i < N; i++) sum = sum * 1.0000001 + i / 3 - (i % 7) ** 2; return sum; }
function compares() { let count = 0; const texts = ['a', 'b', 'ab', 'ba']; for (let i = 0; i < N; i++) { if (texts[i & 3] < texts[i >> 1 & 3]) count++; if (texts[i & 3] === 'ab') count++; if (i == '7') count++; } return count; }
function bigints() { let sum = 1n; for (let i = 0; i < N / 4; i++) sum = (sum * 31n + BigInt(i)) % 1000000007n; return sum; }
function loads() { const point = new Point(1, 2); let sum = 0; for (let i = 0; i < N; i++) sum += point.x + point.y; return sum; }
function polymorphic() { const all = [new Point(1, 2), new Point3(1, 2, 3), { x: 1 }, { y: 2, x: 4 }]; let sum = 0; for (let i = 0; i < N; i++) sum += all[i & 3].x; return sum; }
function megamorphic() { const all = []; for (let i = 0; i < 16; i++) all.push({ ['k' + i]: i, x: i }); let sum = 0; for (let i = 0; i < N; i++) sum += all[i & 15].x; return sum; }
function missing() { const all = [{}, [], 'text', new Point(1, 2)]; let sum = 0; for (let i = 0; i < N; i++) if (all[i & 3].nothing === undefined) sum++; return sum; }
function keyed() { const object = { a: 1, b: 2, c: 3 }; const keys = ['a', 'b', 'c']; let sum = 0; for (let i = 0; i < N; i++) sum += object[keys[i % 3]]; return sum; }
function stores() { const point = new Point(1, 2); for (let i = 0; i < N; i++) { point.x = i; point.y = point.x; } return point.y; }
function elements() { const array = [1, 2, 3, 4]; for (let i = 0; i < N; i++) array[i & 3] = array[i + 1 & 3] + 1; return array[0]; }
function holes() { const array = []; array[100] = 1; let count = 0; for (let i = 0; i < N; i++) if (array[i % 101] !== undefined) count++; return count; }
function typed() { const array = new Float64Array(64); const bytes = new Uint8Array(64); for (let i = 0; i < N; i++) { array[i & 63] += i; bytes[i & 63] = i; } return array[1] + bytes[2]; }
function dictionaries() { const object = {}; for (let i = 0; i < 64; i++) object['p' + i] = i; for (let i = 0; i < 32; i++) delete object['p' + i]; let sum = 0; for (let i = 0; i < N; i++) sum += object['p' + (32 + (i & 31))]; return sum; }
function globals() { let sum = 0; for (let i = 0; i < N; i++) sum += Number.MAX_SAFE_INTEGER > i ? 1 : 0; return sum + (globalThis.nothing === undefined ? 1 : 0); }
function accessors() { const point = new Point(3, 4); let sum = 0; for (let i = 0; i < N; i++) { point.size = i & 7; sum += point.size; } return sum; }
function proxies() { const proxy = new Proxy({ a: 1 }, { get: trap }); let sum = 0; for (let i = 0; i < N / 4; i++) sum += proxy.a; return sum; }
function trap(target, key) { return target[key]; }
function has() { const object = { a: 1 }; let count = 0; for (let i = 0; i < N; i++) { if ('a' in object) count++; if (object.hasOwnProperty('b')) count++; if (object instanceof Point) count++; if (typeof object === 'object') count++; } return count; }
function strings() { let text = ''; for (let i = 0; i < N; i++) { text += 'x'; if (text.length > 100) text = text.slice(50); } return text; }
function characters() { const text = 'the quick brown fox'; let sum = 0; for (let i = 0; i < N; i++) sum += text.charCodeAt(i % 19) + text.indexOf('fox') + (text[i % 19] === 'q' ? 1 : 0); return sum; }
function templates() { let length = 0; for (let i = 0; i < N / 2; i++) length += `${i}:${length & 7}`.length; return length; }
function splits() { let count = 0; for (let i = 0; i < N / 20; i++) count += 'a,b,c,d,e'.split(',').join('-').toUpperCase().length; return count; }
function numbers() { let sum = 0; for (let i = 0; i < N / 4; i++) sum += parseInt('12', 10) + Number('7') + String(i).length + (i).toString(16).length; return sum; }
function direct() { let sum = 0; for (let i = 0; i < N; i++) sum += callee(i, 1); return sum; }
function callee(a, b) { return a + b; }
function few() { let sum = 0; for (let i = 0; i < N; i++) sum += optional(i) === undefined ? 1 : 0; return sum; }
function optional(a, b, c) { return c; }
function many() { let sum = 0; for (let i = 0; i < N; i++) sum += callee(i, 1, 2, 3, 4); return sum; }
function defaults() { let sum = 0; for (let i = 0; i < N; i++) sum += defaulted(i); return sum; }
function defaulted(a, b = 2, { c, d } = { c: 1, d: 2 }) { return a + b + c + d; }
function applied() { let sum = 0; for (let i = 0; i < N / 2; i++) sum += callee.call(null, i, 1) + callee.apply(null, [i, 2]) + Reflect.apply(callee, null, [i, 3]); return sum; }
function bound() { const f = callee.bind(null, 3); let sum = 0; for (let i = 0; i < N; i++) sum += f(i); return sum; }
function methods() { const all = [new Point(1, 2), new Point3(1, 2, 3)]; let sum = 0; for (let i = 0; i < N; i++) sum += all[i & 1].sum(); return sum; }
function spread() { const args = [1, 2]; let sum = 0; for (let i = 0; i < N / 2; i++) sum += callee(...args) + [...args, i].length; return sum; }
function rest() { let sum = 0; for (let i = 0; i < N / 2; i++) sum += collected(i, 1, 2); return sum; }
function collected(first, ...others) { return others.length + arguments.length; }
function constructors() { let sum = 0; for (let i = 0; i < N / 2; i++) sum += new Point(i, 1).x + new Point3(1, 2, i).z + Point.of(i).y; return sum; }
function fields() { let sum = 0; for (let i = 0; i < N / 4; i++) sum += new Fields().hidden(); return sum; }
function literals() { let sum = 0; for (let i = 0; i < N / 2; i++) { const object = { a: i, b: [1, 2, i], c: { d: 4 } }; sum += object.b.length + object.c.d; } return sum; }
function closures() { let sum = 0; for (let i = 0; i < N / 2; i++) { const f = () => i + sum; sum = f() & 7; } return sum; }
function contexts() { const all = []; for (let i = 0; i < 8; i++) all.push(() => i); let sum = 0; for (let i = 0; i < N; i++) sum += all[i & 7](); return sum; }
function iterations() { const array = [1, 2, 3, 4, 5, 6, 7, 8]; let sum = 0; for (let i = 0; i < N / 10; i++) for (const value of array) sum += value; return sum; }
function maps() { const map = new Map(); const set = new Set(); let sum = 0; for (let i = 0; i < N / 2; i++) { map.set(i & 63, i); sum += map.get(i & 31) || 0; set.add(i & 15); if (set.has(i & 31)) sum++; } return sum; }
function entries() { const map = new Map([[1, 2], [3, 4], [5, 6]]); let sum = 0; for (let i = 0; i < N / 20; i++) { for (const [key, value] of map) sum += key + value; map.forEach((value) => { sum += value; }); } return sum; }
function keys() { const object = { a: 1, b: 2, c: 3 }; let sum = 0; for (let i = 0; i < N / 20; i++) { for (const key in object) sum += object[key]; sum += Object.keys(object).length + Object.entries(object).length; } return sum; }
function destructuring() { let sum = 0; for (let i = 0; i < N / 4; i++) { const [a, b] = [i, 2]; const { x, ...others } = { x: a, y: b, z: 3 }; sum += x + others.y; } return sum; }
function generators() { let sum = 0; for (let i = 0; i < N / 200; i++) for (const value of generate(50)) sum += value; return sum; }
function* generate(n) { for (let i = 0; i < n; i++) yield i; }
function delegating() { let sum = 0; for (let i = 0; i < N / 200; i++) for (const value of delegate(50)) sum += value; return sum; }
function* delegate(n) { yield* generate(n); }
function callbacks() { const array = [1, 2, 3, 4, 5, 6, 7, 8]; let sum = 0; for (let i = 0; i < N / 40; i++) { sum += array.map(mapped).filter(mapped).reduce(callee, 0); array.forEach(mapped); if (array.some((it) => it > 8)) sum++; } return sum; }
function mapped(value) { return value & 3; }
function arrays() { let sum = 0; for (let i = 0; i < N / 8; i++) { const array = [3, 1, 2]; array.push(i, 4); sum += array.pop() + array.indexOf(2) + array.slice(1).concat(array).length + (array.includes(9) ? 1 : 0); array.shift(); array.unshift(1); array.reverse(); } return sum; }
function sorting() { let sum = 0; for (let i = 0; i < N / 200; i++) sum += [5, 3, 9, 1, 7, 2, 8].sort((a, b) => a - b)[0]; return sum; }
function regexps() { let count = 0; for (let i = 0; i < N / 20; i++) { if (/(\d+)-(\d+)/.test('12-34')) count++; count += 'a1b2'.replace(/\d/g, 'x').length + 'one two'.match(/\w+/g).length; } return count; }
function exceptions() { let count = 0; for (let i = 0; i < N / 40; i++) { try { thrower(i); } catch (error) { count++; } finally { count++; } } return count; }
function thrower(i) { throw new Point(i, 1); }
function switches() { let sum = 0; const names = ['a', 'b', 'c', 'd']; for (let i = 0; i < N; i++) { switch (names[i & 3]) { case 'a': sum += 1; break; case 'b': sum += 2; break; case 'c': sum += 3; break; default: sum += 4; } switch (i & 7) { case 0: sum++; break; case 1: sum += 2; break; case 2: sum += 3; break; case 3: sum += 4; break; case 4: sum += 5; break; default: sum--; } } return sum; }
function json() { let length = 0; for (let i = 0; i < N / 100; i++) length += JSON.stringify(JSON.parse('{"a":[1,2,{"b":"c"}]}')).length; return length; }
function symbols() { let count = 0; for (let i = 0; i < N / 4; i++) { const iterator = [1, 2][Symbol.iterator](); while (!iterator.next().done) count++; } return count; }
function promises() { let count = 0; for (let i = 0; i < N / 1000; i++) { Promise.resolve(i).then(mapped); waiting(i); count++; } return count; }
async function waiting(i) { return i; }
function weak() { const map = new WeakMap(); const key = {}; let sum = 0; for (let i = 0; i < N / 2; i++) { map.set(key, i); sum += map.get(key) + (map.has({}) ? 1 : 0); } return sum; }
function dates() { let sum = 0; for (let i = 0; i < N / 20; i++) sum += new Date(i * 1e6).getTime() & 1; return sum; }
function recursion() { let sum = 0; for (let i = 0; i < 20; i++) sum += fibonacci(12); return sum; }
function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

const kinds = [
  imul, maths, doubles, compares, bigints, loads, polymorphic, megamorphic, missing, keyed, stores, elements, holes, typed,
  dictionaries, globals, accessors, proxies, has, strings, characters, templates, splits, numbers, direct, few, many, defaults,
  applied, bound, methods, spread, rest, constructors, fields, literals, closures, contexts, iterations, maps, entries, keys,
  destructuring, generators, delegating, callbacks, arrays, sorting, regexps, exceptions, switches, json, symbols, promises,
  weak, dates, recursion,
];

// Time in it is what is left of the calls.
function call(kind, end) {
  do for (let i = 0; i < 8; i++) kind(); while (Date.now() < end);
}
// The microtasks that are queued run at the end of each round.
function main() {
  const end = Date.now() + Number(process.argv[2] || 10) * 1000;
  const only = process.argv[3];
  const chosen = only ? kinds.filter((kind) => only.split(',').includes(kind.name)) : kinds;
  const round = () => {
    for (let i = 0; i < chosen.length; i++) call(chosen[i], Date.now() + 12);
    if (Date.now() < end) setImmediate(round);
  };
  round();
}
main();
