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
  const redraw = () => root.dispatchEvent(new Event("redraw")); // for plots.js, if there are plots
  addEventListener("hashchange", revealHash);

  // --- paper: everything open, light, as wide as a sheet ---

  const paper = matchMedia("print");
  let opened = [];
  const print = (starts) => {
    if (starts === root.classList.contains("printing")) return;
    root.classList.toggle("printing", starts);
    if (starts) opened = [...document.querySelectorAll("details.folded:not([open])")];
    for (const part of opened) part.open = starts;
    redraw();
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
    redraw();
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

  nameToggle();
  revealHash();
  const ready = () => {
    performance.mark("drawn");
    root.dataset.drawn = "true";
  };
  root.addEventListener("drawn", ready, { once: true }); // the plots that are seen
  if (!byId("page_figures")) ready();
})();
