"use strict";

// The frames of a profile: one array per property, each frame directly before its callees.
class Model {
  constructor(data) {
    this.data = data;
    this.modules = data.modules;
    this.names = data.names;
    const labels = numbers(data.labels);
    this.kinds = this.names.map((_, label) => labels[2 * label] >> 1);
    this.inlined = this.names.map((_, label) => (labels[2 * label] & 1) === 1);
    this.moduleOf = this.names.map((_, label) => labels[2 * label + 1]);
    this.readFrames(numbers(data.frames));
    this.addUp();
    this.putInRows();
  }

  readFrames(triples) {
    const count = triples.length / 3;
    this.count = count;
    this.level = new Int32Array(count);
    this.label = new Int32Array(count);
    this.parent = new Int32Array(count);
    this.guessed = new Uint8Array(count);
    this.own = new Float64Array(count);
    const stem = [];
    for (let frame = 0; frame < count; frame += 1) {
      const up = triples[3 * frame];
      stem.length -= Math.floor(up / 2);
      this.guessed[frame] = up % 2;
      this.label[frame] = triples[3 * frame + 1];
      this.own[frame] = triples[3 * frame + 2];
      this.level[frame] = stem.length;
      this.parent[frame] = stem.length > 0 ? stem[stem.length - 1] : -1;
      stem.push(frame);
    }
  }

  // Counts of whole subtrees, where they begin, and the number of the frame that follows them.
  addUp() {
    this.total = Float64Array.from(this.own);
    this.after = new Int32Array(this.count);
    for (let frame = this.count - 1; frame >= 0; frame -= 1) {
      this.after[frame] = Math.max(this.after[frame], frame + 1);
      const parent = this.parent[frame];
      if (parent >= 0) {
        this.total[parent] += this.total[frame];
        this.after[parent] = Math.max(this.after[parent], this.after[frame]);
      }
    }
    this.start = new Float64Array(this.count);
    const next = new Float64Array(this.count);
    for (let frame = 1; frame < this.count; frame += 1) {
      const parent = this.parent[frame];
      this.start[frame] = next[frame] = next[parent];
      next[parent] += this.total[frame];
    }
    this.all = this.count > 0 ? this.total[0] : 0;
  }

  // The frames of each level, from left to right.
  putInRows() {
    this.rows = [];
    for (let frame = 0; frame < this.count; frame += 1) {
      const level = this.level[frame];
      (this.rows[level] ??= []).push(frame);
    }
  }

  name(frame) {
    return this.names[this.label[frame]];
  }

  end(frame) {
    return this.start[frame] + this.total[frame];
  }

  contains(outer, inner) {
    return outer <= inner && inner < this.after[outer];
  }

  // Returns the index in its row, from `low` on, of the first frame that ends behind `position`.
  firstBehind(row, position, low = 0) {
    let high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end(row[middle]) > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // Returns the frame of a level that covers `position`, or -1.
  at(level, position) {
    const row = this.rows[level] ?? [];
    const frame = row[this.firstBehind(row, position)] ?? -1;
    return frame >= 0 && this.start[frame] <= position ? frame : -1;
  }

  // Returns the frame `step` positions along its row.
  beside(frame, step) {
    const row = this.rows[this.level[frame]];
    return row[this.firstBehind(row, this.start[frame]) + step] ?? frame;
  }

  // Returns the widest callee.
  child(frame) {
    return frame + 1 < this.after[frame] ? frame + 1 : frame;
  }

  share(count) {
    return this.all > 0 ? count / this.all : 0;
  }

  // Searches for a regular expression; null if it is invalid.
  search(pattern) {
    const expression = compile(pattern);
    if (!expression) return null;
    const hits = this.names.map((name) => expression.test(name));
    const found = { labels: hits, frames: [], count: 0 };
    let covered = 0;
    for (let frame = 0; frame < this.count; frame += 1) {
      if (!hits[this.label[frame]]) continue;
      found.frames.push(frame);
      // Callees of a match are already included in it.
      if (frame >= covered) {
        found.count += this.total[frame];
        covered = this.after[frame];
      }
    }
    return found;
  }
}

function numbers(text) {
  return text === "" ? [] : text.split(",").map((digits) => (digits === "" ? 0 : parseInt(digits, 36)));
}

function compile(pattern) {
  try {
    return new RegExp(pattern, /\p{Lu}/u.test(pattern) ? "" : "i");
  } catch {
    return null;
  }
}

// The name with less and less of it, what tells least left out first: the folders of a package of Go; or arguments
// and parameters of types, then the path.
function shorter(name) {
  const folders = /^[^([<: ]*\//.exec(name);
  if (folders) return [name.slice(folders[0].length)];
  const plain = withoutBrackets(name);
  if (plain === null) return [];
  const parts = plain.split("::");
  return parts.map((_, index) => parts.slice(index).join("::"));
}

function withoutBrackets(name) {
  let depth = 0;
  let plain = "";
  for (const character of name) {
    if (character === "<" || character === "(") depth += 1;
    else if (character === ">" || character === ")") depth -= 1;
    else if (depth === 0) plain += character;
    if (depth < 0) return null;
  }
  // The removal of types between two paths leaves both separators.
  plain = plain.trim().replaceAll("::::", "::").replace(/^(::)+|(::)+$/g, "");
  return depth === 0 && plain !== "" ? plain : null;
}
