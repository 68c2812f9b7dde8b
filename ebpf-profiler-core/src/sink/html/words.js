// Describes frames in words, for tooltips, the status line and screen readers.
class Words {
  constructor(model, view) {
    this.model = model;
    this.view = view;
  }

  of(frame) {
    const { model } = this;
    return [model.name(frame), ...this.traits(frame), this.counts(frame)].join(", ");
  }

  traits(frame) {
    const { model } = this;
    const label = model.label[frame];
    const traits = [model.modules[model.moduleOf[label]], this.kind(frame)];
    if (model.inlined[label]) traits.push("inlined");
    if (model.guessed[frame]) traits.push("guessed through its frame pointer");
    return traits.filter((trait) => trait !== "");
  }

  kind(frame) {
    const { model } = this;
    const kind = model.kinds[model.label[frame]];
    if (kind > 0) return model.data.looks[kind][0];
    return ["everything", "process", "thread"][model.level[frame]];
  }

  counts(frame) {
    const { model, view } = this;
    const total = model.total[frame];
    const parts = [`${amount(model.data, total)}, ${percent(model.share(total))}`];
    if (view.zoomed > 0 && model.contains(view.zoomed, frame)) {
      parts.push(`${percent(total / model.total[view.zoomed])} of this view`);
    }
    if (model.data.period > 0) parts.push(`${seconds(total * model.data.period)} of CPU time`);
    if (model.own[frame] > 0) parts.push(`itself ${percent(model.share(model.own[frame]))}`);
    return parts.join(", ");
  }
}

// A value with its unit, as `SampleKind::format` of the profile.
function amount(data, value) {
  if (data.unit === "nanoseconds") return scaled(value, 1000, ["ns", "µs", "ms", "s"]);
  if (data.unit === "bytes") return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  return data.kind === "cpu" ? plural(value, "sample") : value.toLocaleString("en-US");
}

function scaled(value, step, units) {
  let unit = 0;
  for (; value >= step && unit + 1 < units.length; unit++) value /= step;
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${Number(value.toFixed(digits))} ${units[unit]}`;
}

function plural(count, noun) {
  return `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
}

// Never rounds up to 100 %, which would mean all.
function percent(share) {
  const tenths = Math.round(share * 1000);
  return `${((share < 1 ? Math.min(tenths, 999) : tenths) / 10).toFixed(1)} %`;
}

function seconds(time) {
  return time < 1 ? `${Math.round(time * 1000)} ms` : `${time.toFixed(time < 100 ? 1 : 0)} s`;
}
