// The visible part of the frames, and their positions.
class View {
  constructor(model) {
    this.model = model;
    this.zoomed = 0;
    this.hovered = -1;
    this.focused = -1;
    this.found = null;
    this.icicle = false;
    this.from = 0;
    this.to = model.all;
    this.width = 0;
    this.height = 0;
    this.scrolled = 0;
  }

  // Height of all rows; at least that of the window.
  get depth() {
    return Math.max(this.model.rows.length * ROW + 2 * EDGE, this.height);
  }

  // Returns the vertical position of a level.
  top(level) {
    const y = this.icicle ? EDGE + level * ROW : this.depth - EDGE - (level + 1) * ROW;
    return y - this.scrolled;
  }

  levelAt(y) {
    const down = y + this.scrolled - EDGE;
    return Math.floor((this.icicle ? down : this.depth - 2 * EDGE - down) / ROW);
  }

  place(frame) {
    const scale = this.width / (this.to - this.from);
    const x = Math.max((this.model.start[frame] - this.from) * scale, 0);
    return { x, width: Math.min((this.model.end(frame) - this.from) * scale, this.width) - x };
  }

  // Returns the frame drawn at `x`.
  position(x) {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  at(x, y) {
    return this.model.at(this.levelAt(y), this.position(x));
  }

  // Returns true for frames between the root and the zoomed frame.
  isStem(frame) {
    return frame !== this.zoomed && this.model.contains(frame, this.zoomed);
  }
}

const EDGE = 6;
