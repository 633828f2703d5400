"use strict";
// Two teams side by side: a bar for the difference in each unit, tables of units and classes.
(() => {
  const { teams, kind, columns, classes, common } = JSON.parse(document.getElementById("page_versus").textContent);
  const root = document.getElementById("versus");
  const form = root.querySelector("form");
  const SVG = "http://www.w3.org/2000/svg";
  const ROWS = 100;
  const shown = (value) => (value === null ? "–" : value.toFixed(4));
  const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(4)}`;
  const svg = (tag, attributes, text) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.append(svg("title", {}));
    if (text) made.firstChild.textContent = text;
    return made;
  };
  const table = (caption, heads, rows) => {
    const made = document.createElement("table");
    made.createCaption().textContent = caption;
    const head = made.createTHead().insertRow();
    heads.forEach((text, at) => {
      const cell = Object.assign(document.createElement("th"), { textContent: text || kind, scope: "col" });
      if (at) cell.className = "number";
      head.append(cell);
    });
    const body = made.createTBody();
    for (const cells of rows) {
      const row = body.insertRow();
      cells.forEach((text, at) => {
        const cell = Object.assign(document.createElement(at ? "td" : "th"), { textContent: text });
        if (at) cell.className = "number";
        else cell.scope = "row";
        row.append(cell);
      });
    }
    const scroll = document.createElement("div");
    scroll.className = rows.length > 25 ? "scroll long" : "scroll";
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", caption);
    scroll.append(made);
    return scroll;
  };
  const bars = (found, names) => {
    const gains = found.map((one) => one.gain);
    const [high, low] = [Math.max(...gains, 0), Math.min(...gains, 0)]; // the drawing has no empty half
    const scale = 2 / (high - low || 1);
    const zero = high * scale;
    const drawing = svg("svg", { viewBox: `0 0 ${Math.max(found.length, 16)} 2`, preserveAspectRatio: "none", role: "img" });
    drawing.setAttribute("aria-label", `Difference in each of ${found.length} ${kind}, from where ${names[0]} is best to where ${names[1]} is; the table has the numbers.`);
    found.forEach((one, at) => {
      const height = Math.abs(one.gain) * scale;
      const place = { x: at + 0.08, width: 0.84, y: one.gain > 0 ? zero - height : zero, height, class: one.gain > 0 ? "first" : "second" };
      drawing.append(svg("rect", place, `${one.name}: ${signed(one.gain)}`));
    });
    drawing.append(svg("line", { x1: 0, x2: found.length, y1: zero, y2: zero, "vector-effect": "non-scaling-stroke" }));
    return drawing;
  };
  const update = () => {
    const [a, b] = [Number(form.elements.first.value), Number(form.elements.second.value)];
    const names = [teams[a], teams[b]];
    const parts = [];
    root.querySelector(".bars").replaceChildren();
    let words = a === b ? "Choose two different teams." : "";
    if (columns.length && a !== b) {
      const column = columns[Number(form.elements.column.value)];
      const sign = column.higher ? 1 : -1;
      const known = column.names
        .map((name, unit) => ({ name, first: column.values[a][unit], second: column.values[b][unit] }))
        .filter((one) => one.first !== null && one.second !== null)
        .map((one) => ({ ...one, gain: sign * (one.first - one.second) }))
        .sort((one, other) => other.gain - one.gain);
      const [compared, higher, lower, mean] = column.pairs[Math.min(a, b)][Math.abs(a - b) - 1]; // in all units
      const better = a < b === column.higher ? [higher, lower] : [lower, higher];
      // Names from right to left would draw the numbers beside them along.
      const [one, other] = names.map((name) => (/[\u0590-\u08ff]/.test(name) ? `\u2068${name}\u2069` : name));
      words = `${column.title}: ${one} ${shown(column.overall[a])}, ${other} ${shown(column.overall[b])}. Of ${compared} ${kind} ${one} is better in ${better[0]} and ${other} in ${better[1]}; the mean difference is ${signed(a < b ? mean : -mean)}.`;
      root.querySelector(".bars").append(bars(known, names));
      const rows = [...known].sort((one, other) => Math.abs(other.gain) - Math.abs(one.gain)).slice(0, ROWS);
      const caption = `${column.title}: ${known.length > ROWS ? `the ${ROWS} largest of ${known.length} differences` : `differences in all ${kind}`}, the largest first`;
      parts.push(table(caption, ["", ...names, "difference"], rows.map((one) => [one.name, shown(one.first), shown(one.second), signed(one.first - one.second)])));
    }
    if (classes.length && a !== b) {
      const rows = classes
        .filter((row) => row.values[a] !== null && row.values[b] !== null)
        .map((row) => [`${row.class}: ${row.title} ${row.higher ? "↑" : "↓"}`, shown(row.values[a]), shown(row.values[b]), signed(row.values[a] - row.values[b])]);
      if (rows.length) parts.unshift(table("Scores of each class", ["class and score", ...names, "difference"], rows));
    }
    const pair = common.pairs.find(([one, other]) => (one === a && other === b) || (one === b && other === a));
    if (pair && a !== b)
      parts.unshift(table(`On the ${pair[2].toLocaleString("en")} nuclei that both matched`, ["score", "ahead"], common.titles.map((title, at) => [title, pair[3][at]])));
    root.querySelector(".found").textContent = words;
    root.querySelector(".tables").replaceChildren(...parts);
  };
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  update();
})();
