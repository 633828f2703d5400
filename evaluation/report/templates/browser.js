"use strict";
// Nuclei to look through: rows are filtered and sorted here; a picture is drawn when it is seen.
(() => {
  const { teams, overview, classes, cases, columns } = JSON.parse(document.getElementById("page_browser").textContent);
  const root = document.querySelector(".browser");
  const find = (selector) => root.querySelector(selector);
  const STATES = ["matched", "wrong class", "missed", "spurious"];
  const WORDS = ["matched", "wrong class", "false negative", "false positive"];
  const COLOURS = STATES.map((state) => getComputedStyle(root).getPropertyValue(`--picture-${state.replace(" ", "-")}`));
  const ORDER = [2, 3, 1, 0]; // of states that lost as much
  const PAGE = 8;
  const count = columns.case.length;
  const element = (tag, text = "", name = "") => Object.assign(document.createElement(tag), { textContent: text, className: name });
  const isDrawn = (row) => Boolean(columns.reference[row] || columns.prediction[row]);
  const areaOf = (row) => columns.reference_area[row] ?? columns.prediction_area[row];
  const number = (value) => value.toLocaleString("en");

  // --- outlines: see outline_texts in scenes.py ---

  const decode = (text) =>
    text.split(";").map((ring) => {
      let [across, down, ...sides] = ring.split(" ").map(Number);
      const points = [[across, down]];
      sides.forEach((length, at) => {
        if (at % 2) down += length;
        else across += length;
        points.push([across, down]);
      });
      return points;
    });
  const boxOf = (rings) => {
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (const ring of rings)
      for (const [x, y] of ring) {
        box[0] = Math.min(box[0], x);
        box[1] = Math.min(box[1], y);
        box[2] = Math.max(box[2], x);
        box[3] = Math.max(box[3], y);
      }
    return box;
  };
  const outlines = new Map();
  const outlineOf = (side, row) => {
    const text = columns[side][row];
    if (!text) return null;
    const key = side + row;
    if (!outlines.has(key)) {
      const rings = decode(text);
      outlines.set(key, { rings, box: boxOf(rings) });
    }
    return outlines.get(key);
  };
  const rowsOf = new Map(); // of a team and case
  for (let row = 0; row < count; row++) {
    const key = `${columns.team[row]} ${columns.case[row]}`;
    if (!rowsOf.has(key)) rowsOf.set(key, []);
    rowsOf.get(key).push(row);
  }

  // --- pictures ---

  const images = new Map();
  const imageOf = (webp) => {
    if (!images.has(webp)) {
      const image = new Image();
      image.src = `data:image/webp;base64,${webp}`;
      images.set(webp, image.decode().then(() => image, () => null));
    }
    return images.get(webp);
  };
  const around = (row, least) => {
    const boxes = ["reference", "prediction"].map((side) => outlineOf(side, row)).filter(Boolean).map((one) => one.box);
    const [x0, y0] = [0, 1].map((at) => Math.min(...boxes.map((box) => box[at])));
    const [x1, y1] = [2, 3].map((at) => Math.max(...boxes.map((box) => box[at])));
    const side = Math.max(1.8 * Math.max(x1 - x0, y1 - y0), least);
    return { x: (x0 + x1 - side) / 2, y: (y0 + y1 - side) / 2, side };
  };
  const trace = (context, outline) => {
    context.beginPath();
    for (const ring of outline.rings) {
      if (ring.length === 1) context.arc(ring[0][0], ring[0][1], 6, 0, 7);
      else {
        context.moveTo(ring[0][0], ring[0][1]); // without it a line joins the rings of a nucleus
        for (const [x, y] of ring) context.lineTo(x, y);
        context.closePath();
      }
    }
  };
  /** Draw a part of a case, {x, y, side}, with the nuclei of a team; that of `subject` has thick lines. */
  const paint = async (canvas, team, place, view, subject) => {
    canvas.dataset.turn = `${team} ${place} ${view.x} ${view.y}`;
    const { turn } = canvas.dataset;
    const seen = cases[place].windows.filter(([x0, y0, x1, y1]) => x0 < view.x + view.side && x1 > view.x && y0 < view.y + view.side && y1 > view.y);
    const tissues = await Promise.all(seen.map((window) => imageOf(window[4])));
    if (canvas.dataset.turn !== turn) return; // another picture was asked for meanwhile
    const context = canvas.getContext("2d");
    const scale = canvas.width / view.side;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height); // where there is no tissue, the page has its colour
    context.setTransform(scale, 0, 0, scale, -view.x * scale, -view.y * scale);
    seen.forEach(([x0, y0, x1, y1], at) => tissues[at] && context.drawImage(tissues[at], x0, y0, x1 - x0, y1 - y0));
    const px = 1 / scale;
    const height = (view.side * canvas.height) / canvas.width;
    for (const row of rowsOf.get(`${team} ${place}`) || []) {
      const thick = row === subject ? 2 : 1;
      for (const side of ["reference", "prediction"]) {
        const outline = outlineOf(side, row);
        if (!outline) continue;
        const [x0, y0, x1, y1] = outline.box;
        if (x1 < view.x - 7 || y1 < view.y - 7 || x0 > view.x + view.side + 7 || y0 > view.y + height + 7) continue;
        trace(context, outline);
        context.setLineDash([]);
        context.lineWidth = (thick + (subject === undefined ? 1.5 : 2.5)) * px;
        context.strokeStyle = "#ffffffb0";
        context.stroke();
        context.setLineDash(side === "prediction" ? [5 * px, 4 * px] : []);
        context.lineWidth = (thick + 0.5) * px;
        context.strokeStyle = COLOURS[columns.state[row]];
        context.stroke();
      }
    }
    canvas.dataset.painted = "true";
  };
  const paintCard = (canvas) => {
    painter.unobserve(canvas);
    const row = Number(canvas.dataset.row);
    paint(canvas, columns.team[row], columns.case[row], around(row, 36), row);
  };
  const painter = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) paintCard(target);
  });
  // Those that nobody has scrolled to are painted later, one at a time: paper shows them too.
  const paintRest = () => {
    const waiting = gallery.querySelector("canvas:not([data-turn])");
    if (!waiting) return;
    paintCard(waiting);
    clearTimeout(resting);
    resting = setTimeout(paintRest, 20);
  };
  let resting = 0;

  // --- words ---

  const className = (at) => (at < 0 ? "no class" : classes[at]);
  const wordsOf = (row) => {
    const state = columns.state[row];
    const kind = (columns.kind[row] || "").replace("_", " ");
    const more = ["split", "merged", "poor outline"].includes(kind) ? ` (${kind})` : "";
    return `${WORDS[state][0].toUpperCase()}${WORDS[state].slice(1)}${more}`;
  };
  const classWords = (row) => {
    const [reference, prediction] = [columns.reference_class[row], columns.prediction_class[row]];
    if (columns.state[row] === 3) return className(prediction);
    return columns.state[row] === 1 ? `${className(reference)}, not ${className(prediction)}` : className(reference);
  };
  const factsOf = (row) => [
    ["outcome", wordsOf(row)],
    ["case", cases[columns.case[row]].name],
    ...(teams.length ? [["team", teams[columns.team[row]]]] : []),
    ...["reference", "prediction"]
      .filter((side) => columns[`${side}_id`][row] !== "")
      .map((side) => [side, [columns[`${side}_id`][row], className(columns[`${side}_class`][row]), columns[`${side}_area`][row] === null ? "" : `${number(columns[`${side}_area`][row])} px`].filter(Boolean).join(" · ")]),
    ...(columns.iou[row] === null ? [] : [["IoU", columns.iou[row].toFixed(3)]]),
    ...(columns.loss[row] === null ? [] : [["lost", `${number(columns.loss[row])} px`]]),
  ];

  // --- the gallery ---

  const form = find("form");
  const gallery = find(".gallery");
  let chosen = [];
  let first = 0;
  let shown = 0; // place in `chosen` of what the dialog shows

  const filtered = () => {
    const value = (name) => (form.elements[name] ? form.elements[name].value : "");
    const [state, ofClass, place, team] = ["state", "class", "case", "team"].map((name) => (value(name) === "" ? null : value(name)));
    const low = value("low") === "" ? -Infinity : Number(value("low"));
    const high = value("high") === "" ? Infinity : Number(value("high"));
    const found = [];
    for (let row = 0; row < count; row++) {
      if (state !== null && (state === "errors" ? columns.state[row] === 0 : columns.state[row] !== Number(state))) continue;
      if (ofClass !== null && columns.reference_class[row] !== Number(ofClass) && columns.prediction_class[row] !== Number(ofClass)) continue;
      if (place !== null && columns.case[row] !== Number(place)) continue;
      if (team !== null && columns.team[row] !== Number(team)) continue;
      const area = areaOf(row);
      if (area === null ? low > -Infinity || high < Infinity : area < low || area > high) continue;
      found.push(row);
    }
    const keys = {
      loss: (row) => -(columns.loss[row] ?? -1),
      iou: (row) => columns.iou[row] ?? (columns.state[row] === 0 ? 2 : -1),
      large: (row) => -(areaOf(row) ?? -1),
      small: (row) => areaOf(row) ?? Infinity,
      file: (row) => row,
    };
    const key = found.map(keys[value("sort")]);
    const order = found.map((_, at) => at);
    order.sort((a, b) => key[a] - key[b] || ORDER.indexOf(columns.state[found[a]]) - ORDER.indexOf(columns.state[found[b]]) || a - b);
    return order.map((at) => found[at]);
  };
  const card = (row, at) => {
    const made = element("button", "", "card");
    made.type = "button";
    if (isDrawn(row)) {
      const canvas = Object.assign(document.createElement("canvas"), { width: 168, height: 168 });
      canvas.setAttribute("aria-hidden", "true");
      canvas.dataset.row = row;
      painter.observe(canvas);
      made.append(canvas);
    }
    const state = element("strong", wordsOf(row));
    state.prepend(element("span", "", `swatch ${STATES[columns.state[row]].replace(" ", "-")}`));
    const lost = columns.loss[row] === null ? "" : `${number(columns.loss[row])} px lost`;
    const team = teams.length ? teams[columns.team[row]] : "";
    const lines = [classWords(row), lost, team, cases[columns.case[row]].name].filter(Boolean);
    made.append(state, ...lines.map((line) => element("span", line)));
    made.addEventListener("click", () => open(at));
    const item = document.createElement("li");
    item.append(made);
    return item;
  };
  const turn = (place) => {
    first = Math.max(0, Math.min(place, chosen.length - 1));
    const last = Math.min(first + PAGE, chosen.length);
    gallery.replaceChildren(...chosen.slice(first, last).map((row, at) => card(row, first + at)));
    clearTimeout(resting);
    resting = setTimeout(paintRest, 1500);
    const bar = find(".gallery + .turn");
    bar.hidden = chosen.length <= PAGE;
    bar.querySelector(".where").textContent = `${number(first + 1)} to ${number(last)}`;
    bar.querySelector("[name=back]").disabled = first === 0;
    bar.querySelector("[name=next]").disabled = last === chosen.length;
  };
  const update = () => {
    chosen = filtered();
    find(".found").textContent = chosen.length ? `${number(chosen.length)} of ${number(count)} ${count === 1 ? "nucleus" : "nuclei"}.` : "No nucleus is like this. Choose another kind, class, case or area.";
    turn(0);
    showCase();
  };

  // --- a case as a whole, for each team ---

  const showCase = () => {
    const view = find(".case-view");
    const isAll = form.elements.case.value === "" && cases.length > 1;
    const places = isAll ? cases.map((_, at) => at).slice(0, overview) : [Number(form.elements.case.value)];
    const drawn = places.filter((place) => cases[place].size);
    view.hidden = !drawn.length;
    view.classList.toggle("all", isAll);
    view.classList.toggle("rows", isAll && teams.length > 2 && teams.length < 7);
    view.style.setProperty("--teams", teams.length);
    view.replaceChildren();
    drawn.forEach((place) => showOne(view, place, isAll));
  };
  const showOne = (view, place, isAll) => {
    const [height, width] = cases[place].size;
    const one = form.elements.team && form.elements.team.value !== "" ? [Number(form.elements.team.value)] : teams.length ? teams.map((_, at) => at) : [0];
    for (const team of one) {
      const scale = Math.min((teams.length > 1 ? 520 : 900) / width, (isAll ? 360 : 900) / height, 3);
      const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(width * scale), height: Math.round(height * scale) });
      const words = `${overview ? "" : "Case "}${cases[place].name}${teams.length ? `, ${teams[team]}` : ""}`;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${words}: all nuclei on the tissue. The list below has them one by one.`);
      canvas.addEventListener("click", (event) => {
        const [x, y] = [(event.offsetX * width) / canvas.offsetWidth, (event.offsetY * height) / canvas.offsetHeight];
        const isHit = (row) => ["reference", "prediction"].some((side) => {
          const outline = outlineOf(side, row);
          return outline && outline.box[0] - 6 <= x && x <= outline.box[2] + 6 && outline.box[1] - 6 <= y && y <= outline.box[3] + 6;
        });
        const hits = (rowsOf.get(`${team} ${place}`) || []).filter(isHit);
        const row = hits.find((hit) => chosen.includes(hit)) ?? hits[0];
        if (row === undefined) return;
        if (!chosen.includes(row)) chosen = [row, ...chosen];
        open(chosen.indexOf(row));
      });
      const figure = document.createElement("figure");
      figure.append(canvas, element("figcaption", words));
      view.append(figure);
      paint(canvas, team, place, { x: 0, y: 0, side: width });
    }
  };

  // --- one nucleus ---

  const dialog = find("dialog");
  const open = (at) => {
    shown = Math.max(0, Math.min(at, chosen.length - 1));
    const row = chosen[shown];
    const canvas = dialog.querySelector("canvas");
    canvas.hidden = !isDrawn(row);
    if (isDrawn(row)) paint(canvas, columns.team[row], columns.case[row], around(row, 48), row);
    const facts = factsOf(row).map(([name, text]) => {
      const pair = document.createElement("div");
      pair.append(element("dt", name), element("dd", text));
      return pair;
    });
    dialog.querySelector("dl").replaceChildren(...facts);
    dialog.querySelector(".where").textContent = `${number(shown + 1)} of ${number(chosen.length)}`;
    dialog.querySelector("[name=back]").disabled = shown === 0;
    dialog.querySelector("[name=next]").disabled = shown === chosen.length - 1;
    if (!dialog.open) dialog.showModal();
  };
  const on = (selector, act) => find(selector).addEventListener("click", act);
  on(".gallery + .turn [name=back]", () => turn(first - PAGE));
  on(".gallery + .turn [name=next]", () => turn(first + PAGE));
  on("dialog [name=back]", () => open(shown - 1));
  on("dialog [name=next]", () => open(shown + 1));
  on("dialog [name=close]", () => dialog.close());
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") open(shown + 1);
    if (event.key === "ArrowLeft") open(shown - 1);
  });
  dialog.addEventListener("close", () => {
    const card = gallery.children[shown - first];
    if (card) card.firstChild.focus();
  });
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(update));
  for (const link of document.querySelectorAll('a[href="#browser"]'))
    link.addEventListener("click", () => {
      form.elements.case.value = String(cases.findIndex((one) => one.name === link.textContent));
      form.elements.state.value = "";
      update();
    });
  update();
  performance.mark("nuclei");
  root.dataset.ready = "true";
})();
