"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const button = (text, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  };
  root.classList.add("js");

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

  // --- paper: everything open, light, as wide as a sheet ---

  const paper = matchMedia("print");
  let opened = [];
  const print = (starts) => {
    if (starts === root.classList.contains("printing")) return;
    root.classList.toggle("printing", starts);
    if (starts) opened = [...document.querySelectorAll("details.folded:not([open])")];
    for (const part of opened) part.open = starts;
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  paper.addEventListener("change", (event) => print(event.matches));

  // --- light and dark ---

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const toggle = button("", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameToggle();
  });
  const nameToggle = () => (toggle.textContent = isDark() ? "Light colours" : "Dark colours");
  toggle.className = "theme";
  document.querySelector(".names").after(toggle);
  dark.addEventListener("change", nameToggle);

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

  // --- long tables: search and columns to choose; every table as a file ---

  const named = (caption) => `${caption.replace(/[^\w]+/g, "_").replace(/^_+|_+$/g, "").slice(0, 60).toLowerCase()}`;
  const save = (text, type, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  // A cell that a spreadsheet would take for a formula begins with an apostrophe.
  const csvCell = (text) => `"${text.replace(/^(?=[=+@\t\r]|-(?![\d.]))/, "'").replaceAll('"', '""')}"`;
  const LATEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "−": "$-$", "↑": "$\\uparrow$", "↓": "$\\downarrow$", "≥": "$\\ge$", "✓": "", "…": "\\dots{}" };
  const latexCell = (text) => text.replace(/[\\~^−↑↓≥✓…]|[&%$#_{}]/g, (sign) => LATEX[sign] ?? `\\${sign}`);
  const textOf = (cell) => ("undefined" in cell.dataset ? "" : cell.innerText.replace(/\s+/g, " ").trim());
  const shownCells = (row) => [...row.cells].filter((cell) => !cell.hidden);
  const rowsOf = (table) => [...table.rows].filter((row) => !row.hidden).map(shownCells);
  const asCsv = (table) => {
    const value = (cell) => (cell.dataset.value !== undefined ? cell.dataset.value : csvCell(textOf(cell)));
    return `${rowsOf(table).map((cells) => cells.map(value).join(",")).join("\r\n")}\r\n`;
  };
  const asLatex = (table, caption) => {
    const [head, ...rows] = rowsOf(table).map((cells) => `${cells.map((cell) => latexCell(textOf(cell))).join(" & ")} \\\\`);
    const columns = shownCells(table.rows[0]).map((cell) => (cell.classList.contains("number") ? "r" : "l")).join("");
    return ["% \\usepackage{booktabs}", "\\begin{table}", `\\caption{${latexCell(caption)}}`, `\\begin{tabular}{${columns}}`, "\\toprule", head, "\\midrule", ...rows, "\\bottomrule", "\\end{tabular}", "\\end{table}", ""].join("\n");
  };
  for (const part of document.querySelectorAll(".table")) {
    const table = part.querySelector("table");
    const caption = part.querySelector(".caption").textContent;
    const actions = document.createElement("div");
    actions.className = "actions";
    if (table.tBodies[0].rows.length > 10) {
      const search = Object.assign(document.createElement("input"), { type: "search", placeholder: "Search" });
      search.setAttribute("aria-label", `Search in: ${caption}`);
      search.addEventListener("input", () => {
        const wanted = search.value.toLowerCase();
        for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      });
      actions.append(search);
    }
    if (table.tHead.rows[0].cells.length > 6) {
      const choice = document.createElement("details");
      choice.className = "columns";
      choice.append(Object.assign(document.createElement("summary"), { textContent: "Show columns" }));
      [...table.tHead.rows[0].cells].slice(1).forEach((head, index) => {
        const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
        box.addEventListener("change", () => [...table.rows].forEach((row) => (row.cells[index + 1].hidden = !box.checked)));
        const label = document.createElement("label");
        label.append(box, ` ${head.textContent}`);
        choice.append(label);
      });
      actions.append(choice);
    }
    actions.append(
      button("CSV", () => save(asCsv(table), "text/csv", `${named(caption)}.csv`)),
      button("LaTeX", () => save(asLatex(table, caption), "text/plain", `${named(caption)}.tex`)),
    );
    for (const made of actions.querySelectorAll("button")) made.setAttribute("aria-label", `${made.textContent}: ${caption}`);
    part.querySelector(".scroll").after(actions);
  }

  // --- figures as files, in the colours of the light ---

  for (const figure of document.querySelectorAll(".figure")) {
    const caption = figure.querySelector(".caption").textContent;
    const drawn = figure.querySelector("svg").outerHTML.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"');
    const light = (_, name) => getComputedStyle(root).getPropertyValue(name).match(/#\w+/)[0];
    const svg = drawn.replace(/var\((--[\w-]+)\)/g, light);
    const made = button("Save SVG", () => save(svg, "image/svg+xml", `${figure.id}.svg`));
    made.setAttribute("aria-label", `Save SVG: ${caption}`);
    const actions = Object.assign(document.createElement("div"), { className: "actions" });
    actions.append(made);
    figure.querySelector(".plot").after(actions);
  }

  // --- tables and plots wider than their place say so at their right end ---

  const hint = (part) => part.classList.toggle("more", part.scrollLeft + part.clientWidth < part.scrollWidth - 2);
  const widths = new ResizeObserver((entries) => entries.forEach(({ target }) => hint(target)));
  for (const part of document.querySelectorAll(".scroll, .plot")) {
    part.addEventListener("scroll", () => hint(part), { passive: true });
    widths.observe(part);
  }

  // --- one team, in all tables ---

  const highlight = document.querySelector(".highlight input");
  if (highlight)
    highlight.addEventListener("input", () => {
      const option = [...document.querySelectorAll("#team_names option")].find((one) => one.value === highlight.value);
      if (!option && highlight.value) return;
      for (const row of document.querySelectorAll(".table tbody tr")) {
        const [cell] = row.cells;
        row.classList.toggle("chosen", Boolean(option) && (cell.dataset.order || cell.textContent.trim()) === option.value);
      }
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

  nameToggle();
  revealHash();
  performance.mark("drawn");
  root.dataset.drawn = "true";
})();
