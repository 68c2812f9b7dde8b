'use strict';
// Functions of known work, in calls that are short beside the time between samples, and in a random order: no period of samples is in
// step with them.
let sink = 0;

function looping() {
  let sum = 0;
  for (let i = 0; i < 900; i++) sum = (sum + i * 7) % 1013;
  sink += sum;
}

// Most of its time is in the loop: --cpu-prof skips samples in prologues and epilogues.
function recursing(n) {
  let sum = n;
  for (let i = 0; i < 60; i++) sum = (sum * 3 + i) % 1031;
  return n < 2 ? sum : recursing(n - 1) + recursing(n - 2);
}

function comparing(a, b) {
  let sum = 0;
  for (let i = 0; i < 24; i++) sum = (sum + i * a) % 7;
  return a - b + sum - sum;
}
const values = Array.from({ length: 5 }, (_, i) => (i * 7919) % 1009);
const scratch = values.slice();
function sorting() {
  for (let i = 0; i < values.length; i++) scratch[i] = values[i];
  scratch.sort(comparing);
}

class Account {
  constructor() { this.total = 0; }
  get balance() {
    let sum = this.total;
    for (let i = 0; i < 250; i++) sum = (sum * 3 + i) % 1019;
    return sum;
  }
  set balance(value) {
    let sum = value;
    for (let i = 0; i < 350; i++) sum = (sum * 5 + i) % 1021;
    this.total = sum;
  }
}
const account = new Account();
function accessing() {
  account.balance = account.balance + 1;
}

function dispatching() {
  let sum = 0;
  for (let i = 0; i < 600; i++) {
    switch (i & 3) {
      case 0: sum += i; break;
      case 1: sum ^= i; break;
      case 2: sum = (sum << 1) | 1; break;
      default: sum = sum % 1009;
    }
  }
  sink += sum;
}

let state = 1;
function random() {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return state >>> 3;
}

const parts = [looping, () => recursing(4), sorting, accessing, dispatching];
function round() {
  for (let i = 0; i < parts.length; i++) parts[random() % parts.length]();
}

function work(seconds) {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) for (let i = 0; i < 200; i++) round();
}

work(2);
console.log('ready', Math.ceil(Number(process.hrtime.bigint()) / 1000));
process.once('SIGTERM', () => process.exit());
(function go() {
  work(0.05);
  setImmediate(go);
})();
