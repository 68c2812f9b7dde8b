'use strict';
// Functions with names of all kinds, and chains through whatever calls back. Each loops for itself.
const vm = require('vm');

class Temperature {
  constructor(value) { this.value = value; }
  get celsius() {
    let sum = this.value;
    for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1013;
    return sum;
  }
  set celsius(value) {
    let sum = value;
    for (let i = 0; i < 6000; i++) sum = (sum * 5 + i) % 1019;
    this.value = sum;
  }
  static convert(value) {
    let sum = value;
    for (let i = 0; i < 6000; i++) sum = (sum * 7 + i) % 1021;
    return sum;
  }
  [Symbol.toPrimitive]() {
    let sum = this.value;
    for (let i = 0; i < 6000; i++) sum = (sum * 11 + i) % 1031;
    return sum;
  }
}
class Derived extends Temperature {
  constructor(value) {
    super(value);
    for (let i = 0; i < 6000; i++) this.value = (this.value * 3 + i) % 1033;
  }
}
function accessors() {
  const temperature = new Derived(4);
  temperature.celsius = temperature.celsius + Temperature.convert(5);
  return +temperature;
}

const handler = {
  get(target, key) {
    let sum = key.length;
    for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1039;
    return sum;
  },
  apply(target, self, values) {
    let sum = values[0];
    for (let i = 0; i < 6000; i++) sum = (sum * 5 + i) % 1049;
    return sum;
  },
  construct(target, values) {
    let sum = values[0];
    for (let i = 0; i < 6000; i++) sum = (sum * 7 + i) % 1051;
    return { sum };
  },
};
const proxy = new Proxy(function () {}, handler);
function proxies() {
  return proxy.some + proxy(1) + new proxy(2).sum;
}

function tag(texts, ...values) {
  let sum = texts.length;
  for (let i = 0; i < 6000; i++) sum = (sum * 3 + values[0] + i) % 1061;
  return sum;
}
function templates() {
  return tag`one ${1} two ${2}`;
}

// Functions without a name, and those whose name V8 infers.
const unnamed = [
  function () {
    let sum = 1;
    for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1063;
    return sum;
  },
  () => {
    let sum = 2;
    for (let i = 0; i < 6000; i++) sum = (sum * 5 + i) % 1069;
    return sum;
  },
];
const holder = { inner: {} };
holder.inner.member = function () {
  let sum = 3;
  for (let i = 0; i < 6000; i++) sum = (sum * 7 + i) % 1087;
  return sum;
};
const computed = {
  ['com' + 'puted']() {
    let sum = 4;
    for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1091;
    return sum;
  },
};
module.exports.exported = function () {
  let sum = 5;
  for (let i = 0; i < 6000; i++) sum = (sum * 5 + i) % 1093;
  return sum;
};
function anonymous() {
  return unnamed[0]() + unnamed[1]() + holder.inner.member() + computed.computed() + module.exports.exported();
}

function größe() {
  let sum = 1;
  for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1097;
  return sum;
}
const 函数 = () => {
  let sum = 2;
  for (let i = 0; i < 6000; i++) sum = (sum * 5 + i) % 1103;
  return sum;
};
function 𠮷() {
  let sum = 3;
  for (let i = 0; i < 6000; i++) sum = (sum * 7 + i) % 1109;
  return sum;
}
const long = 'long'.repeat(200);
const longText = `(function ${long}() {
  let sum = 4;
  for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1117;
  return sum;
})`;
const longFunction = new vm.Script(longText, { filename: 'long.js' }).runInThisContext();
function letters() {
  return größe() + 函数() + 𠮷() + longFunction();
}

function replacer(key, value) {
  let sum = key.length;
  for (let i = 0; i < 2000; i++) sum = (sum * 3 + i) % 1123;
  return sum < 0 ? sum : value;
}
const json = {
  toJSON() {
    let sum = 1;
    for (let i = 0; i < 6000; i++) sum = (sum * 5 + i) % 1129;
    return [sum, 1];
  },
};
const iterable = {
  *[Symbol.iterator]() {
    for (let j = 0; j < 2; j++) {
      let sum = j;
      for (let i = 0; i < 4000; i++) sum = (sum * 7 + i) % 1151;
      yield sum;
    }
  },
};
function visit(value) {
  let sum = value;
  for (let i = 0; i < 2000; i++) sum = (sum * 3 + i) % 1153;
  return sum;
}
function reduced(total, value) {
  let sum = value;
  for (let i = 0; i < 2000; i++) sum = (sum * 5 + i) % 1163;
  return total + sum;
}
const map = new Map([[1, 2], [3, 4]]);
function callbacks() {
  let sum = JSON.stringify({ json }, replacer).length;
  for (const value of iterable) sum += value;
  map.forEach(visit);
  sum += Array.from(iterable, visit).length;
  sum += [1, 2, 3].reduce(reduced, 0) + Reflect.apply(reduced, null, [1, 2]);
  return sum + visit.bind(null, 3)();
}

// Contexts with globals of their own, and text that is evaluated.
const text = `(function inContext(back) {
  let sum = 1;
  for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1171;
  return sum + back();
})`;
const contexts = ['first.js', 'second.js'].map((filename) =>
  new vm.Script(text, { filename }).runInContext(vm.createContext({})));
function back() {
  let sum = 2;
  for (let i = 0; i < 4000; i++) sum = (sum * 5 + i) % 1181;
  return sum;
}
const evaluated = eval(`(function evaluated() {
  let sum = 3;
  for (let i = 0; i < 6000; i++) sum = (sum * 7 + i) % 1187;
  return sum;
})
//# sourceURL=evaluated.js`);
function elsewhere() {
  return contexts[0](back) + contexts[1](back) + evaluated();
}

function thrower(depth) {
  if (depth) return thrower(depth - 1);
  let sum = 1;
  for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1193;
  throw sum;
}
function exceptions() {
  try {
    return thrower(3);
  } catch (error) {
    let sum = error;
    for (let i = 0; i < 4000; i++) sum = (sum * 5 + i) % 1201;
    return sum;
  } finally {
    holder.inner.member();
  }
}

function curry(first) {
  return function second(value) {
    return (third) => {
      let sum = first + value + third;
      for (let i = 0; i < 6000; i++) sum = (sum * 7 + i) % 1213;
      return sum;
    };
  };
}
function closures() {
  return curry(1)(2)(3);
}

const waiting = async () => {
  await null;
  let sum = 1;
  for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1217;
  return sum;
};
async function later() {
  const values = await Promise.all([waiting(), waiting()]);
  let sum = values[0];
  for (let i = 0; i < 6000; i++) sum = (sum * 5 + i) % 1223;
  return sum;
}

// Functions with so many locals of closures that their names are in a table, from some number on.
const crowds = [74, 75, 76].map((count) => {
  const locals = Array.from({ length: count }, (_, i) => `local${i}`);
  const crowd = `\n(function with${count}(value) {
    let ${locals.join(' = value, ')} = 1;
    let sum = (() => ${locals.join(' + ')})();
    for (let i = 0; i < 6000; i++) sum = (sum * 3 + i) % 1229;
    return sum;
  })`;
  return new vm.Script(crowd, { filename: 'crowds.js' }).runInThisContext();
});
function crowded() {
  return crowds[0](1) + crowds[1](2) + crowds[2](3);
}

const parts = [accessors, proxies, templates, anonymous, letters, callbacks, elsewhere, exceptions, closures,
  crowded];
async function run(seconds) {
  // Behind it, there is no caller.
  await null;
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    for (const part of parts) part();
    await later();
  }
}
process.once('SIGTERM', () => process.exit());
(async function main() {
  await run(2);
  console.log('ready', Math.ceil(Number(process.hrtime.bigint()) / 1000));
  for (;;) {
    await run(0.1);
    await new Promise(setImmediate);
  }
})();
