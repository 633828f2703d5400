"use strict";
// Plots: traces and layouts of the page's data, drawn by plotly in the colours of the style sheet.
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // --- colours: names such as "@missed" and "@1/0.3" become what the style sheet has for light or dark ---

  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;
  const colour = (name) => {
    const [, variable, opacity] = /^@(\w+)(?:\/([\d.]+))?$/.exec(name) || [];
    if (!variable) return name;
    probe.style.color = `var(--${variable.replace("_", "-")})`;
    const given = getComputedStyle(probe).color;
    return opacity ? given.replace("rgb(", "rgba(").replace(")", `, ${opacity})`) : given;
  };
  // Only where a colour belongs: a team may be called "@1".
  const coloured = (value, isColour) => {
    if (typeof value === "string") return isColour ? colour(value) : value;
    if (Array.isArray(value)) return value.map((inner) => coloured(inner, isColour));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, coloured(inner, /colou?rs?(cale|way)?$/.test(key))]),
    );
  };

  // --- plots ---

  const figures = JSON.parse(byId("page_figures").textContent);
  const hasMouse = matchMedia("(hover: hover) and (pointer: fine)").matches;
  const paperWidth = 640;
  const isPrinting = () => root.classList.contains("printing");

  const merged = (base, over) => {
    if (over === undefined) return base;
    if (base === null || over === null || typeof base !== "object" || typeof over !== "object") return over;
    if (Array.isArray(base) || Array.isArray(over)) return over;
    return Object.fromEntries(
      [...new Set([...Object.keys(base), ...Object.keys(over)])].map((key) => [key, merged(base[key], over[key])]),
    );
  };
  const axis = {
    automargin: true,
    gridcolor: "@grid",
    zeroline: false,
    zerolinecolor: "@muted",
    linecolor: "@line",
    tickcolor: "@line",
    title: { standoff: 10, font: { size: 13, color: "@soft" } },
  };
  const layoutOf = (figure, width) => {
    const base = {
      height: figure.height,
      ...(isPrinting() ? { width: paperWidth } : { autosize: true }),
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: "@ink" },
      colorway: [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `@${number}`),
      paper_bgcolor: "@surface",
      plot_bgcolor: "@surface",
      margin: { l: 48, r: 12, t: 12, b: 40 },
      hovermode: "closest",
      dragmode: hasMouse ? "zoom" : false,
      hoverlabel: { bgcolor: "@surface", bordercolor: "@line", align: "left", font: { color: "@ink", size: 13 } },
      legend: { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", itemsizing: "constant" },
    };
    for (const name of new Set(["xaxis", "yaxis", ...Object.keys(figure.layout).filter((key) => /^[xy]axis/.test(key))]))
      base[name] = axis;
    const layout = merged(base, figure.layout);
    if (width < 480) {
      layout.font.size = 11;
      if (layout.yaxis.ticktext) layout.yaxis.ticktext = layout.yaxis.ticktext.map(shortened);
    }
    return layout;
  };
  const shortened = (text) => {
    const letters = text.match(/&\w+;|./gsu) || [];
    return letters.length > 14 ? [...letters.slice(0, 8), "…", ...letters.slice(-5)].join("") : text;
  };
  const tracesOf = (figure, width) =>
    figure.traces.map((trace) => {
      if (trace.type !== "heatmap") return trace;
      const base = { textfont: { color: "@ink" }, colorbar: { title: { font: { size: 12.5 } }, tickcolor: "@line" } };
      return { ...merged(base, trace), showscale: trace.showscale !== false && width >= 480 };
    });
  // One team: its marks stand out, others are pale; its row in a heat map has a frame.
  const highlighted = (traces, layout) => {
    const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
    const team = escaped(root.dataset.team || "");
    if (!team) return [traces, layout];
    const shapes = ["x", "y"].flatMap((along) => {
      const names = (layout[`${along}axis`] || {}).categoryarray || [];
      const at = names.indexOf(team);
      if (at < 0) return [];
      const [across, low, high] = [along === "x" ? "y" : "x", at - 0.5, at + 0.5];
      return [{ type: "rect", [`${along}ref`]: along, [`${across}ref`]: "paper", [`${along}0`]: low, [`${along}1`]: high, [`${across}0`]: 0, [`${across}1`]: 1, line: { color: "@ink", width: 2 }, fillcolor: "@accent/0.12" }];
    });
    const hasOwn = traces.some((trace) => trace.name === team);
    const pale = traces.map((trace) => {
      if (hasOwn && trace.type !== "heatmap" && trace.name !== team) return { ...trace, opacity: 0.2 };
      if (trace.mode !== "text" || !trace.text.some((text) => text.endsWith(`  ${team}`))) return trace;
      return { ...trace, text: trace.text.map((text) => (text.endsWith(`  ${team}`) ? `<b>${text}</b>` : text)) };
    });
    return [pale, shapes.length ? { ...layout, shapes: [...(layout.shapes || []), ...shapes] } : layout];
  };
  const plotOf = (figure) => document.querySelector(`[data-figure="${figure.anchor}"]`);
  const isSeen = (plot) => plot.offsetWidth > 0;

  const draw = (figure) => {
    const plot = plotOf(figure);
    if (!isSeen(plot)) return;
    waiting.delete(figure.anchor);
    const first = !plot.classList.contains("js-plotly-plot");
    const width = isPrinting() ? paperWidth : plot.offsetWidth;
    const [traces, layout] = highlighted(tracesOf(figure, width), layoutOf(figure, width));
    Plotly.react(plot, coloured(traces), coloured(layout), {
      displayModeBar: false,
      responsive: true,
      doubleClick: "reset",
    });
    if (first) listen(plot, figure);
  };

  const plainText = (text) => {
    const lines = String(text ?? "").replaceAll("<br>", "; ");
    return new DOMParser().parseFromString(lines, "text/html").documentElement.textContent;
  };
  const asCsv = (figure) => {
    const cell = (value) => (typeof value === "number" ? value : `"${plainText(value).replace(/^(?=[=+@-])/, "'").replaceAll('"', '""')}"`);
    const rows = [["series", "x", "y", "value", "note"]];
    for (const trace of figure.traces) {
      if (trace.type === "heatmap") trace.z.forEach((line, y) => line.forEach((value, x) => rows.push(["", trace.x[x], trace.y[y], value, ""])));
      else if (trace.mode !== "text") trace.x.forEach((x, at) => rows.push([trace.name, x, trace.y[at], "", (trace.hovertext || [])[at]]));
    }
    return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
  };

  const listen = (plot, figure) => {
    const target = (event) => {
      const point = event.points[0];
      const linked = point.data.meta && point.data.meta.links && point.customdata;
      return linked ? byId(String(point.customdata).slice(1)) : null;
    };
    plot.on("plotly_hover", (event) => plot.classList.toggle("leads", target(event) !== null));
    plot.on("plotly_unhover", () => plot.classList.remove("leads"));
    plot.on("plotly_click", (event) => {
      const found = target(event);
      if (!found) return;
      location.hash = found.id;
      dispatchEvent(new Event("hashchange")); // also if the address led there before
    });
    const save = (format) => () =>
      Plotly.downloadImage(plot, { format, filename: figure.anchor, width: 900, height: figure.height, scale: format === "png" ? 2 : 1 });
    const actions = document.createElement("div");
    actions.className = "actions";
    for (const format of ["svg", "png"]) {
      const made = Object.assign(document.createElement("button"), { type: "button", textContent: `Save ${format.toUpperCase()}` });
      made.addEventListener("click", save(format));
      made.setAttribute("aria-describedby", `${figure.anchor}_caption`);
      actions.append(made);
    }
    const csv = Object.assign(document.createElement("button"), { type: "button", textContent: "Save CSV" });
    csv.addEventListener("click", () => root.dispatchEvent(new CustomEvent("save", { detail: [asCsv(figure), "text/csv", `${figure.anchor}.csv`] })));
    csv.setAttribute("aria-describedby", `${figure.anchor}_caption`);
    actions.append(csv);
    if (hasMouse) {
      const hint = document.createElement("span");
      hint.textContent = "Drag to zoom, double-click to reset";
      actions.append(hint);
    }
    plot.after(actions);
  };

  // --- a plot is drawn when it comes near the window, or for paper ---

  const waiting = new Set(figures.map((figure) => figure.anchor));
  const first = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries)
        if (isIntersecting && waiting.has(target.dataset.figure)) {
          first.unobserve(target);
          setTimeout(() => draw(figures.find((figure) => figure.anchor === target.dataset.figure)));
        }
      setTimeout(() => root.dispatchEvent(new Event("drawn")));
    },
    { rootMargin: "300px" },
  );
  root.addEventListener("redraw", () => figures.filter((figure) => isPrinting() || !waiting.has(figure.anchor)).forEach(draw));
  for (const figure of figures) first.observe(plotOf(figure));
  for (const part of document.querySelectorAll("details.folded"))
    part.addEventListener("toggle", () => figures.filter((figure) => part.contains(plotOf(figure))).forEach(draw));
})();
