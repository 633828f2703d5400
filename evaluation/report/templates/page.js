"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const json = (id) => JSON.parse(byId(id).textContent);
  const button = (text, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  };
  root.classList.add("js");

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

  const figures = typeof Plotly === "undefined" ? [] : json("page_figures");
  const hasMouse = matchMedia("(hover: hover) and (pointer: fine)").matches;
  const paper = matchMedia("print");
  const paperWidth = 640;
  let isPrinting = paper.matches;

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
      ...(isPrinting ? { width: paperWidth } : { autosize: true }),
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
  const plotOf = (figure) => document.querySelector(`[data-figure="${figure.anchor}"]`);
  const isSeen = (plot) => plot.offsetWidth > 0;

  const draw = (figure) => {
    const plot = plotOf(figure);
    if (!isSeen(plot)) return;
    const first = !plot.classList.contains("js-plotly-plot");
    const width = isPrinting ? paperWidth : plot.offsetWidth;
    Plotly.react(plot, coloured(tracesOf(figure, width)), coloured(layoutOf(figure, width)), {
      displayModeBar: false,
      responsive: true,
      doubleClick: "reset",
    });
    if (first) listen(plot, figure);
  };
  const drawAll = () => figures.forEach(draw);

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
      reveal(found.id); // also if the address led there before
    });
    const save = (format) => () =>
      Plotly.downloadImage(plot, { format, filename: figure.anchor, width: 900, height: figure.height, scale: format === "png" ? 2 : 1 });
    const actions = document.createElement("div");
    actions.className = "actions";
    for (const format of ["svg", "png"]) {
      const made = button(`Save ${format.toUpperCase()}`, save(format));
      made.setAttribute("aria-describedby", `${figure.anchor}_caption`);
      actions.append(made);
    }
    if (hasMouse) {
      const hint = document.createElement("span");
      hint.textContent = "Drag to zoom, double-click to reset";
      actions.append(hint);
    }
    plot.after(actions);
  };

  // --- folded parts ---

  const reveal = (id) => {
    const found = id && byId(id);
    if (!found) return;
    for (let part = found; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    const inner = found.querySelector(":scope > details.folded");
    if (inner) inner.open = true;
    if (!found.hasAttribute("tabindex")) found.tabIndex = -1;
    found.focus({ preventScroll: true });
    found.scrollIntoView({ block: "start" });
  };
  const revealHash = () => reveal(location.hash.slice(1));
  addEventListener("hashchange", revealHash);
  for (const part of document.querySelectorAll("details.folded"))
    part.addEventListener("toggle", () => figures.filter((figure) => part.contains(plotOf(figure))).forEach(draw));

  // --- paper: everything open, light, as wide as a sheet ---

  let opened = [];
  const print = (starts) => {
    if (starts === isPrinting) return;
    isPrinting = starts;
    root.classList.toggle("printing", starts);
    if (starts) opened = [...document.querySelectorAll("details.folded:not([open])")];
    for (const part of opened) part.open = starts;
    drawAll();
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  paper.addEventListener("change", (event) => print(event.matches));

  // --- light and dark ---

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const toggle = button("", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    changeTheme();
  });
  const nameToggle = () => (toggle.textContent = isDark() ? "Light colours" : "Dark colours");
  const changeTheme = () => {
    nameToggle();
    drawAll();
  };
  toggle.className = "theme";
  document.querySelector(".names").after(toggle);
  dark.addEventListener("change", changeTheme);

  // --- tables ---

  const collator = new Intl.Collator("en", { numeric: true });
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    if ("undefined" in cell.dataset) return null;
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.dataset.order || cell.textContent.trim();
  };
  const compare = (one, other) => {
    const areNumbers = [typeof one === "number", typeof other === "number"];
    if (areNumbers[0] !== areNumbers[1]) return areNumbers[0] ? -1 : 1;
    return areNumbers[0] ? one - other : collator.compare(one, other);
  };
  const sort = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const sign = heads[column].getAttribute("aria-sort") === "ascending" ? -1 : 1;
    heads.forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: keyOf(row, column) }));
    rows.sort((a, b) => (a.key === null || b.key === null ? (a.key === null) - (b.key === null) : sign * compare(a.key, b.key)));
    body.append(...rows.map(({ row }) => row));
  };
  for (const table of document.querySelectorAll("table[data-sortable]"))
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const made = button("", () => sort(table, column));
      made.append(...head.childNodes);
      head.append(made);
    });

  // --- contents ---

  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
  if (innerWidth < 1000) document.querySelector(".contents details").open = false;
  const inView = new Set();
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) inView[isIntersecting ? "add" : "delete"](target.id);
      const current = [...links.keys()].find((id) => inView.has(id));
      for (const [id, link] of links) {
        if (id === current) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-10% 0px -60% 0px" },
  );
  for (const section of document.querySelectorAll("main > section")) watch.observe(section);

  // --- begin: one plot a turn, so that the page answers while it draws ---

  const next = (index) => {
    if (index < figures.length) {
      draw(figures[index]);
      setTimeout(next, 0, index + 1);
      return;
    }
    root.dataset.drawn = "true";
    revealHash();
  };
  nameToggle();
  next(0);
})();
