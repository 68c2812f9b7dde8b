// Draws frames on a canvas; touches visible ones only.
class Painter {
  constructor(canvas, model) {
    this.canvas = canvas;
    this.model = model;
    this.context = canvas.getContext("2d", { alpha: false });
    this.shades = model.names.map(shadeOf);
    this.shortened = new Map();
    this.widths = new Map();
    this.dress();
  }

  // Reads the colours of the page, which follow the reader's preference.
  dress() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    this.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.paper = color("--paper");
    this.ink = color("--ink");
    this.quiet = color("--quiet");
    this.ring = color("--ring");
    this.match = this.dark ? "#b52a8f" : "#d63bb0";
    this.fills = this.model.data.looks.map((look) => this.fillsOf(look[this.dark ? 2 : 1]));
    this.faded = this.fills.map((fills) => fills.map((fill) => mix(fill, this.paper, 0.7)));
    this.hatching = this.hatch();
  }

  // Shades of a kind: first those of functions, then those of inlined ones.
  fillsOf(color) {
    return [0, 42].flatMap((pale) => [0, 7, 14, 21].map((shade) => mix(color, this.paper, (pale + shade) / 100)));
  }

  hatch() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const context = tile.getContext("2d");
    context.strokeStyle = this.dark ? "#ffffff52" : "#00000047";
    context.beginPath();
    for (const shift of [-6, 0, 6]) {
      context.moveTo(shift - 1, 7);
      context.lineTo(shift + 7, -1);
    }
    context.stroke();
    return this.context.createPattern(tile, "repeat");
  }

  // Fits the canvas to `width` and `height` pixels of the page.
  resize(width, height) {
    const ratio = devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  draw(view) {
    const { context } = this;
    context.fillStyle = this.paper;
    context.fillRect(0, 0, this.width, this.height);
    context.font = FONT;
    context.textBaseline = "middle";
    for (let level = 0; level < this.model.rows.length; level += 1) {
      const y = view.top(level);
      if (y > -ROW && y < this.height) this.drawRow(view, this.model.rows[level], y);
    }
    this.outline(view, view.hovered, this.quiet, 1);
    this.outline(view, view.focused, this.ring, 2);
  }

  drawRow(view, row, y) {
    const { model } = this;
    let index = model.firstBehind(row, view.from);
    let drawn = 0;
    while (index < row.length && model.start[row[index]] < view.to) {
      const { x, width } = view.place(row[index]);
      if (width < 1) {
        [index, drawn] = this.drawSlivers(view, row, index, Math.max(Math.floor(x), drawn), y);
      } else {
        this.drawFrame(view, row[index], x, y, width);
        [index, drawn] = [index + 1, Math.floor(x + width)];
      }
    }
  }

  // Frames narrower than a pixel: one for each pixel, those of one colour in one go, so that a row costs no more
  // than its pixels however many frames it has. Returns which frame follows, and from which pixel on.
  drawSlivers(view, row, first, left, y) {
    let [index, right, fill] = [first, left, null];
    while (index < row.length && right < this.width) {
      const place = view.place(row[index]);
      const pixel = Math.max(Math.floor(place.x), right);
      if (place.width >= 1 || (pixel > right && index > first)) break;
      const next = this.model.firstBehind(row, view.position(pixel + 1), index + 1);
      const own = this.sliverFill(view, row, index, next);
      if (own !== (fill ?? own)) break;
      [index, right, fill] = [next, pixel + 1, own];
    }
    this.context.fillStyle = fill;
    this.context.fillRect(left, y, right - left, ROW - 1);
    // Frames beyond the right edge are invisible.
    return [Math.max(index, first + 1), right];
  }

  drawFrame(view, frame, x, y, width) {
    const { context } = this;
    // A gap separates neighbours where they are wide enough.
    const inner = width > 3 ? width - 1 : width;
    const isMatch = view.found?.labels[this.model.label[frame]];
    context.globalAlpha = view.isStem(frame) && !isMatch ? 0.65 : 1;
    context.fillStyle = this.fill(view, frame);
    if (inner > 5) {
      context.beginPath();
      context.roundRect(x, y, inner, ROW - 1, 2);
      context.fill();
    } else {
      context.fillRect(x, y, inner, ROW - 1);
    }
    if (this.model.guessed[frame] && inner > 2) {
      context.fillStyle = this.hatching;
      context.fillRect(x, y, inner, ROW - 1);
    }
    if (inner > 22) this.write(view, frame, x + 5, y + ROW / 2, inner - 9);
    context.globalAlpha = 1;
  }

  fill(view, frame) {
    const { model } = this;
    const label = model.label[frame];
    if (view.found?.labels[label]) return this.match;
    const fills = view.found ? this.faded : this.fills;
    return fills[model.kinds[label]][this.shades[label] + (model.inlined[label] ? 4 : 0)];
  }

  // Without shades, which are invisible in one pixel; a match takes precedence among the frames of a pixel.
  sliverFill(view, row, index, next) {
    const { model } = this;
    for (let at = index; view.found && at < next; at += 1) {
      if (view.found.labels[model.label[row[at]]]) return this.match;
    }
    const label = model.label[row[index]];
    const fills = view.found ? this.faded : this.fills;
    return fills[model.kinds[label]][model.inlined[label] ? 5 : 1];
  }

  write(view, frame, x, y, room) {
    const label = this.model.label[frame];
    const text = this.fit(label, room);
    if (text === "") return;
    const isMatch = view.found?.labels[label];
    this.context.fillStyle = isMatch ? "#ffffff" : view.found ? this.quiet : this.ink;
    this.context.fillText(text, x, y + 0.5);
  }

  // Returns as much of a name as fits.
  fit(label, room) {
    const name = this.model.names[label];
    if (this.measure(name) <= room) return name;
    let candidates = this.shortened.get(label);
    if (!candidates) this.shortened.set(label, (candidates = shorter(name)));
    const fitting = candidates.find((text) => this.measure(text) <= room);
    return fitting ?? this.cut(candidates[candidates.length - 1] ?? name, room);
  }

  cut(name, room) {
    let length = Math.floor((name.length * room) / this.measure(name));
    while (length > 1 && this.measure(`${name.slice(0, length)}…`) > room) length -= 1;
    return length > 1 ? `${name.slice(0, length)}…` : "";
  }

  measure(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > 50000) this.widths.clear();
      this.widths.set(text, (width = this.context.measureText(text).width));
    }
    return width;
  }

  outline(view, frame, color, thickness) {
    if (frame < 0) return;
    const { x, width } = view.place(frame);
    if (x + width < 0 || x > this.width) return;
    const left = Math.max(x, 0) - 0.5;
    const right = Math.min(Math.max(x + width, left + 3), this.width);
    this.context.strokeStyle = color;
    this.context.lineWidth = thickness;
    this.context.strokeRect(left, view.top(this.model.level[frame]) - 0.5, right - left, ROW);
  }
}

const ROW = 21;

const FONT = '12px system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

// Equal names have equal shades.
function shadeOf(name) {
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  }
  return (hash >>> 13) % 4;
}

// `share` of the second colour in the first.
function mix(first, second, share) {
  const channel = (at) => {
    const [a, b] = [first, second].map((color) => parseInt(color.slice(at, at + 2), 16));
    return Math.round(a + (b - a) * share).toString(16).padStart(2, "0");
  };
  return `#${channel(1)}${channel(3)}${channel(5)}`;
}
