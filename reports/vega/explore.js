// Charts of the curves behind a figure. A button loads Vega-Lite and curves.js, which has the data and the specification
// (report/documents/curves.py), and puts the controls of the template below the figure's title.
(() => {
  const template = document.getElementById("the-chart"), { paper, scale, scales } = template.dataset;
  const others = scales.split(" ").filter((name) => name && name !== scale);
  const libraries = ["vega", "vega-lite", "vega-embed"].map((name) => `../../vega/${name}.min.js`);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const make = (name, values, ...children) => {
    const element = Object.assign(document.createElement(name), values);
    element.append(...children);
    return element;
  };
  const options = (list) => list.map(([value, text]) => new Option(text, value));
  const stored = (name) => globalThis.fedrepro?.[`${name}/${paper}`];
  const loads = new Map();
  const load = (src) => {
    const start = (onload, failed) => {
      const onerror = () => failed(new Error(`${src} cannot be read.`));
      document.head.append(make("script", { src, onload, onerror, async: false }));
    };
    if (!loads.has(src)) loads.set(src, new Promise(start));
    return loads.get(src);
  };

  // A datum is a curve; `entry` is its name in the legend. On a dark page, dark colours are lighter.
  const shade = (colour) => (dark.matches ? `oklch(from ${colour} max(l, 0.72) c h)` : colour);
  const ours = ({ series }, source, over, suffix = "") =>
    Object.entries(series).flatMap(([name, { colour, epochs, rounds, seeds }]) => {
      const label = name + suffix, round = over === "epochs" ? rounds.map((number) => number * epochs) : rounds;
      const shared = { source, series: name, label, entry: label, colour: shade(colour), round };
      return Object.entries(seeds).map(([seed, value]) => ({ ...shared, seed, value }));
    });
  const theirs = ({ series }, reported, minus) => {
    const first = new Map(Object.entries(series).reverse().map(([name, { paper: key, colour }]) => [key, [name, colour]]));
    if (series[minus]) first.set(series[minus].paper, [minus, series[minus].colour]); // several series may share a curve
    return [...first].filter(([key]) => key).map(([key, [name, colour]]) => {
      const shared = { source: 1, series: name, label: `${reported[key].name}, in the paper`, entry: "in the paper", seed: "" };
      return { ...shared, colour: shade(colour), round: reported[key].rounds, value: reported[key].values };
    });
  };

  // A chart with its controls. `settings` are parameters of the specification; a change of the `live` ones keeps the zoom.
  class Chart {
    constructor(form, charts) {
      Object.assign(this, { form, charts, controls: form.elements, own: stored(scale), hidden: new Set() });
      [this.plot, this.legend] = [".plot", "fieldset"].map((part) => form.querySelector(part));
      const { chart } = this.controls;
      chart.replaceChildren(...options(charts.map(({ name }, index) => [index, name])));
      chart.parentElement.hidden = charts.length === 1;
      form.addEventListener("input", ({ target }) => this.change(target));
      dark.addEventListener("change", () => this.change(null));
    }
    choose() {
      const { chart, minus, smooth, other } = this.controls;
      this.chart = this.charts[chart.value];
      this.experiment = this.own.experiments[this.chart.curves];
      other.replaceChildren(other.options[0]);
      for (const place of [scale, ...others].filter(stored)) {
        const like = Object.entries(stored(place).experiments).filter(([, { unit }]) => unit === this.experiment.unit)
          .filter(([key]) => place !== scale || key !== this.chart.curves);
        const entries = like.map(([key, one]) => [`${place}|${key}`, this.title(one)]);
        other.append(make("optgroup", { label: `Scale ${place}` }, ...options(entries)));
      }
      minus.replaceChildren(...options([["", "nothing"], ...Object.keys(this.experiment.series).map((name) => [name, name])]));
      [minus.value, smooth.value] = [this.chart.minus, this.chart.smooth];
      this.hidden = new Set(this.own.comparable ? [] : ["in the paper"]);
    }
    title({ name, measure }) {
      return measure === this.experiment.measure ? name : `${name}: ${measure}`;
    }
    change(target) {
      const { chart, smooth, spread } = this.controls, legend = this.legend.contains(target);
      if (target === chart) this.choose();
      if (legend) this.hidden[target.checked ? "delete" : "add"](target.value);
      const rounds = smooth.value === "1" ? "none" : `mean over the last ${smooth.value} measured rounds`;
      this.form.querySelector("output").value = rounds;
      const live = legend || target === smooth || target === spread;
      this.done = Promise.resolve(this.done).then(() => (live ? this.update() : this.draw())); // one after the other
      return this.done;
    }
    update() {
      for (const [name, value] of Object.entries(this.live)) this.view.signal(name, value);
      return this.view.runAsync();
    }
    get live() {
      return { smooth: Number(this.controls.smooth.value), spread: this.controls.spread.value, hidden: [...this.hidden] };
    }
    get settings() {
      const minus = this.controls.minus.value, percent = this.experiment.unit === "%";
      const log_rounds = this.controls.log_rounds.checked, log_values = this.controls.log_values.checked && !minus;
      const limits = { lowest: minus ? -1e9 : 0, highest: percent && !minus ? 100 : 1e9 };
      const quantiles = Object.values(globalThis.fedrepro).map((one) => one.quantiles).sort((a, b) => b.length - a.length)[0];
      const complement = log_values && percent, digits = percent ? ".2f" : ".4~g";
      return { ...this.live, ...limits, minus, log_rounds, log_values, complement, digits, quantiles };
    }
    get curves() {
      const { over } = this.chart, [place, key] = this.controls.other.value.split("|");
      const curves = ours(this.experiment, 0, over);
      if (over === "rounds") curves.push(...theirs(this.experiment, this.own.paper, this.controls.minus.value));
      if (!key) return curves;
      const other = stored(place).experiments[key];
      return [...curves, ...ours(other, 2, over, ` (${this.title(other)}${place === scale ? "" : `, scale ${place}`})`)];
    }
    list(curves) {
      const shown = curves.filter(({ series }) => series !== this.controls.minus.value);
      const entries = [...new Map(shown.map((curve) => [curve.entry, curve])).values()];
      this.legend.replaceChildren(...entries.map(({ entry: value, colour, source }) => {
        const line = make("i", { className: ["ours", "theirs", "other"][source] });
        if (source !== 1) line.style.color = colour;
        return make("label", {}, make("input", { type: "checkbox", value, checked: !this.hidden.has(value) }), line, value);
      }));
    }
    specify(curves) {
      const specification = structuredClone(this.own.specification), [main, strip] = specification.vconcat;
      const { settings, experiment: { measure, unit } } = this, { minus } = settings;
      const { color, borderColor, fontFamily } = getComputedStyle(this.form), { axis, title } = specification.config;
      for (const parameter of specification.params) parameter.value = settings[parameter.name];
      specification.datasets = { curves };
      main.width = strip.width = this.legend.clientWidth - 90; // the axis and the menu are beside it
      const difference = minus && ` minus ${minus}'s`, units = minus && unit === "%" ? "points" : unit;
      main.title = `${settings.complement ? "100 % minus " : ""}${measure}${difference} (${units})`;
      specification.description = main.title;
      strip.encoding.x.title = this.chart.over === "epochs" ? "local epochs in all" : "round of communication";
      for (const { encoding } of [main, strip]) {
        if (settings.log_rounds) encoding.x.scale.type = "log";
        if (settings.log_values) encoding.y.scale.type = "log";
      }
      strip.view = { fill: getComputedStyle(document.body).backgroundColor };
      Object.assign(axis, { labelColor: color, titleColor: color, labelFont: fontFamily, titleFont: fontFamily });
      Object.assign(axis, { gridColor: borderColor, tickColor: borderColor });
      Object.assign(title, { color, font: fontFamily, limit: main.width });
      return specification;
    }
    async draw() {
      const { curves, controls } = this;
      controls.log_values.disabled = Boolean(controls.minus.value); // a difference may be negative
      this.list(curves);
      const formatTooltip = ({ round, ...values }, escape) => {
        const measured = Object.entries(values).filter(([, text]) => text !== undefined);
        const rows = measured.map((cells) => cells.map((cell) => `<td>${escape(cell)}</td>`).join(""));
        return `<b>${this.chart.over.slice(0, -1)} ${escape(round)}</b><table><tr>${rows.join("</tr><tr>")}</tr></table>`;
      };
      const result = await vegaEmbed(this.plot, this.specify(curves), {
        mode: "vega-lite", renderer: "svg", logLevel: vega.Error,
        actions: { export: true, source: false, compiled: false, editor: false },
        tooltip: { theme: dark.matches ? "dark" : "light", formatTooltip },
      });
      this.view = result.view;
    }
  }

  const open = async (button) => {
    const form = template.content.firstElementChild.cloneNode(true);
    button.parentElement.after(form);
    try {
      await Promise.all([...libraries, "curves.js"].map(load));
    } catch (error) {
      form.textContent = error.message;
      return;
    }
    await Promise.allSettled(others.map((name) => load(`../../${name}/${paper}/curves.js`))); // a scale may not be drawn
    const chart = new Chart(form, JSON.parse(button.dataset.charts));
    await chart.change(chart.controls.chart);
  };
  for (const button of document.querySelectorAll(".explore")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const form = button.closest(".entry").querySelector(".chart"), expanded = button.ariaExpanded === "true";
      button.ariaExpanded = String(!expanded);
      if (form) form.hidden = expanded;
      else open(button);
    });
  }
})();
