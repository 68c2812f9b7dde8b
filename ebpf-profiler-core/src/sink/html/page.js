// The page: handles input and shows the status.
class Page {
  constructor(data) {
    this.data = data;
    this.models = [];
    const names = data.kinds.map(({ kind }) => element("option", kind));
    find("kind").replaceChildren(...names);
    find("kind").hidden = names.length < 2;
    this.show(0);
    this.listen();
    this.readAddress();
  }

  // Shows a kind of samples, all of it.
  show(kind) {
    const data = { ...this.data, ...this.data.kinds[kind] };
    this.kind = find("kind").selectedIndex = kind;
    this.model = this.models[kind] ??= new Model(data);
    this.view = new View(this.model);
    this.words = new Words(this.model, this.view);
    this.painter = new Painter(find("canvas"), this.model);
    this.describe(data);
    this.fitWindow();
  }

  // Shows another kind; the search and the direction stay.
  choose(kind) {
    const { icicle } = this.view;
    this.show(kind);
    this.view.icicle = icicle;
    this.search(find("search").value);
    this.reset();
  }

  describe(data) {
    const when = new Date(data.start);
    const notes = data.start > 0 ? [...data.notes, when.toLocaleString()] : data.notes;
    find("notes").textContent = notes.join("  ·  ");
    find("graph").setAttribute("aria-label", `${data.title}: ${data.notes.join(", ")}`);
    find("graph").dataset.frames = this.model.count;
    find("nothing").hidden = this.model.all > 0;
    find("canvas").hidden = this.model.all === 0;
    this.drawLegend();
  }

  drawLegend() {
    const { model, painter } = this;
    const occurs = (kind) => model.kinds.some((other, label) => other === kind && label > 0);
    const entries = model.data.looks
      .map(([name], kind) => ({ name, kind, fill: painter.fills[kind][0] }))
      .filter(({ kind }) => occurs(kind))
      .map(({ name, fill }) => legendEntry(name, [fill]));
    const kind = model.kinds[model.inlined.indexOf(true)];
    if (kind !== undefined) entries.push(legendEntry("paler: inlined", [painter.fills[kind][4]]));
    if (model.guessed.includes(1)) entries.push(legendEntry("hatched: guessed", [painter.fills[4][0], painter.hatching]));
    find("legend").replaceChildren(...entries);
  }

  listen() {
    const graph = find("graph");
    graph.addEventListener("mousemove", (event) => this.hover(event));
    graph.addEventListener("mouseleave", () => this.hover(null));
    graph.addEventListener("click", (event) => this.click(event));
    graph.addEventListener("scroll", () => this.scroll());
    graph.addEventListener("keydown", (event) => this.keyOnGraph(event));
    graph.addEventListener("focus", () => this.enter());
    graph.addEventListener("blur", () => this.focus(-1));
    find("search").addEventListener("input", (event) => this.search(event.target.value));
    find("tools").addEventListener("submit", (event) => this.submit(event));
    find("kind").addEventListener("change", () => this.choose(find("kind").selectedIndex));
    find("turn").addEventListener("click", () => this.turn(!this.view.icicle));
    find("reset").addEventListener("click", () => this.reset());
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.readAddress());
    new ResizeObserver(() => this.fitWindow()).observe(graph);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.dress());
  }

  dress() {
    this.painter.dress();
    this.drawLegend();
    this.draw();
  }

  // Draws at most once per animation frame.
  draw() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.painter.draw(this.view);
    });
  }

  fitWindow() {
    const { view } = this;
    const graph = find("graph");
    const bottom = view.depth - view.height - view.scrolled;
    view.width = graph.clientWidth;
    view.height = graph.clientHeight;
    this.painter.resize(view.width, view.height);
    find("height").style.height = `${view.depth - view.height}px`;
    // A flame graph has its root at the bottom.
    graph.scrollTop = view.icicle ? view.scrolled : view.depth - view.height - bottom;
    this.scroll();
    this.painter.draw(view);
  }

  scroll() {
    this.view.scrolled = find("graph").scrollTop;
    this.draw();
  }

  settle() {
    const graph = find("graph");
    graph.scrollTop = this.view.icicle ? 0 : this.view.depth;
    this.scroll();
    if (this.view.zoomed > 0) this.reveal(this.view.zoomed);
  }

  // Zooms, in 0.2 s unless the reader prefers reduced motion.
  zoom(frame) {
    const { view, model } = this;
    view.zoomed = frame;
    find("graph").dataset.zoomed = model.count > 0 ? model.name(frame) : "";
    this.writeAddress();
    this.reveal(frame);
    const goal = { from: model.start[frame] ?? 0, to: model.count > 0 ? model.end(frame) : 0 };
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.glide({ from: view.from, to: view.to }, goal, performance.now(), still ? 0 : 200);
    this.tell(view.focused >= 0 ? view.focused : frame);
  }

  glide(origin, goal, began, duration) {
    cancelAnimationFrame(this.gliding);
    const step = (now) => {
      const time = duration > 0 ? Math.min(Math.max((now - began) / duration, 0), 1) : 1;
      const eased = 1 - (1 - time) ** 3;
      this.view.from = time < 1 ? origin.from + (goal.from - origin.from) * eased : goal.from;
      this.view.to = time < 1 ? origin.to + (goal.to - origin.to) * eased : goal.to;
      this.draw();
      if (time < 1) this.gliding = requestAnimationFrame(step);
    };
    step(began);
  }

  // Scrolls until a frame is visible.
  reveal(frame) {
    const graph = find("graph");
    const y = this.view.top(this.model.level[frame] ?? 0);
    if (y < 0) graph.scrollTop += y - 2 * ROW;
    else if (y + ROW > this.view.height) graph.scrollTop += y + 3 * ROW - this.view.height;
    this.scroll();
  }

  reset() {
    this.zoom(0);
    this.settle();
  }

  turn(icicle) {
    this.view.icicle = icicle;
    find("turn").setAttribute("aria-pressed", icicle);
    this.writeAddress();
    this.settle();
  }

  search(pattern) {
    const found = pattern === "" ? null : this.model.search(pattern);
    this.view.found = found;
    find("search").setAttribute("aria-invalid", pattern !== "" && !found);
    find("matched").textContent = pattern === "" ? "" : this.matched(found);
    this.writeAddress();
    this.draw();
  }

  matched(found) {
    if (!found) return "not a regular expression";
    const frames = plural(found.frames.length, "frame");
    return `${percent(this.model.share(found.count))} matched: ${amount(this.model.data, found.count)} in ${frames}`;
  }

  // Enter in the search field selects the first match.
  submit(event) {
    event.preventDefault();
    find("graph").focus();
    this.nextMatch(1);
  }

  // Selects the next match, and the first one after the last.
  nextMatch(step) {
    const frames = this.view.found?.frames ?? [];
    if (frames.length === 0) return;
    const behind = frames.findIndex((frame) => frame > this.view.focused);
    const here = frames.indexOf(this.view.focused);
    const next = step > 0 ? behind : (here < 0 ? 0 : here) - 1;
    this.focus(frames.at(next < frames.length ? next : 0));
  }

  hover(event) {
    const { view } = this;
    const frame = event ? this.under(event) : -1;
    find("canvas").classList.toggle("hit", frame >= 0);
    this.showTip(frame, event?.clientX, event?.clientY);
    if (frame === view.hovered) return;
    view.hovered = frame;
    find("status").textContent = frame >= 0 ? this.words.of(frame) : "";
    this.draw();
  }

  under(event) {
    const edge = find("graph").getBoundingClientRect();
    return this.view.at(event.clientX - edge.left, event.clientY - edge.top - find("graph").clientTop);
  }

  click(event) {
    const frame = this.under(event);
    if (frame < 0) return;
    this.view.focused = -1;
    this.zoom(frame);
  }

  enter() {
    if (this.view.focused < 0 && find("graph").matches(":focus-visible")) this.focus(this.view.zoomed);
  }

  // Moves the keyboard's selection.
  focus(frame) {
    const { view, model } = this;
    view.focused = model.count > 0 ? frame : -1;
    if (view.focused < 0) {
      this.showTip(-1);
      return this.draw();
    }
    const outside = model.start[frame] >= view.to || model.end(frame) <= view.from;
    if (outside) this.zoom(0);
    this.reveal(frame);
    this.tell(frame);
    const { x, width } = view.place(frame);
    const edge = find("graph").getBoundingClientRect();
    this.showTip(frame, edge.left + x + Math.min(width, 40), edge.top + view.top(model.level[frame]) + ROW);
    this.draw();
  }

  // Describes a frame in the status line and to screen readers.
  tell(frame) {
    if (this.model.all === 0) return;
    find("status").textContent = find("spoken").textContent = this.words.of(frame);
  }

  showTip(frame, x = 0, y = 0) {
    const tip = find("tip");
    tip.hidden = frame < 0;
    if (frame < 0) return;
    const lines = [
      element("b", this.model.name(frame)),
      element("i", this.words.traits(frame).join(", ")),
      element("span", this.words.counts(frame)),
    ];
    tip.replaceChildren(...lines);
    const { width, height } = tip.getBoundingClientRect();
    const below = y + 18 + height < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(x + 12, innerWidth - width - 8))}px`;
    tip.style.top = `${Math.max(8, below ? y + 18 : y - height - 24)}px`;
  }

  key(event) {
    const inField = event.target === find("search");
    if ((event.key === "f" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !inField)) {
      event.preventDefault();
      find("search").focus();
      find("search").select();
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.escape(inField);
    } else if (event.key === "i" && !event.target.matches?.("input, select") && !event.ctrlKey && !event.metaKey) {
      this.turn(!this.view.icicle);
    }
  }

  // First what was searched, if that is where one is; then where one is.
  escape(inField) {
    if (inField || this.view.zoomed === 0) {
      find("search").value = "";
      this.search("");
    }
    if (inField) find("graph").focus();
    else this.reset();
  }

  keyOnGraph(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.model.count === 0) return;
    const { model, view } = this;
    const here = view.focused >= 0 ? view.focused : view.zoomed;
    const [toLeaf, toRoot] = view.icicle ? ["ArrowDown", "ArrowUp"] : ["ArrowUp", "ArrowDown"];
    const moves = {
      [toLeaf]: () => this.focus(model.child(here)),
      [toRoot]: () => this.focus(Math.max(model.parent[here], 0)),
      ArrowLeft: () => this.focus(model.beside(here, -1)),
      ArrowRight: () => this.focus(model.beside(here, 1)),
      Home: () => this.focus(0),
      Enter: () => this.zoom(here),
      " ": () => this.zoom(here),
      n: () => this.nextMatch(1),
      N: () => this.nextMatch(-1),
    };
    if (!Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    moves[event.key]();
  }

  // The address stores the state of the view, so that it can be shared.
  writeAddress() {
    const parts = new URLSearchParams();
    if (this.kind > 0) parts.set("kind", this.model.data.kind);
    if (this.view.zoomed > 0) parts.set("zoom", this.view.zoomed);
    if (find("search").value !== "") parts.set("search", find("search").value);
    if (this.view.icicle) parts.set("icicle", "1");
    const hash = `#${parts}`;
    if (hash === (location.hash || "#")) return;
    try {
      history.replaceState(null, "", hash === "#" ? location.pathname + location.search : hash);
    } catch {
      // Embedded in another page it may have no address.
    }
  }

  readAddress() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const zoomed = Number(parts.get("zoom") ?? 0);
    const kind = Math.max(this.data.kinds.findIndex((data) => data.kind === parts.get("kind")), 0);
    if (kind !== this.kind) this.show(kind);
    const { view, model } = this;
    view.icicle = parts.get("icicle") === "1";
    find("turn").setAttribute("aria-pressed", view.icicle);
    find("search").value = parts.get("search") ?? "";
    // Both write the address; what they write must be complete.
    view.zoomed = Number.isInteger(zoomed) && zoomed > 0 && zoomed < model.count ? zoomed : 0;
    this.search(find("search").value);
    this.zoom(view.zoomed);
    this.settle();
  }

  // Returns the position of the first frame with a name, for scripts.
  place(name) {
    const { model, view } = this;
    for (let frame = 0; frame < model.count; frame += 1) {
      if (model.name(frame) !== name) continue;
      const { x, width } = view.place(frame);
      const edge = find("graph").getBoundingClientRect();
      return { x: edge.left + x, y: edge.top + 1 + view.top(model.level[frame]), width, height: ROW };
    }
    return null;
  }
}

function find(id) {
  return document.getElementById(id);
}

// Names are inserted into the page as text only.
function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function legendEntry(name, fills) {
  const swatch = document.createElement("canvas");
  swatch.width = swatch.height = 13;
  const context = swatch.getContext("2d");
  for (const fill of fills) {
    context.fillStyle = fill;
    context.fillRect(0, 0, 13, 13);
  }
  const entry = element("li", "");
  entry.append(swatch, name);
  return entry;
}

window.flamegraph = new Page(JSON.parse(find("data").textContent));
