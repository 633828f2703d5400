"use strict";
// Nuclei to look through: rows are filtered and sorted here; a picture is drawn when it is seen.
(() => {
  const { teams, overview, classes, cases, columns, kinds, outlines, rule, runs, score, start, why } = JSON.parse(document.getElementById("page_browser").textContent);
  const root = document.querySelector(".browser");
  const find = (selector) => root.querySelector(selector);
  const STATES = ["matched", "wrong class", "missed", "spurious", "ignored"];
  const WORDS = ["matched", "wrong class", "false negative", "false positive", "ignored"];
  const [FOUND, MISNAMED, MISSED, , IGNORED] = [0, 1, 2, 3, 4];
  const ORDER = [2, 3, 1, 0, 4]; // of states that lost as much
  const KINDS = ["split", "merged", "poor outline", "duplicate"]; // of false negatives and false positives
  const PAGE = 8;
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).match(/#\w+/)[0];
  const COLOURS = STATES.map((state) => colour(`picture-${state.replace(" ", "-")}`));
  const SERIES = [1, 2, 3, 4, 5, 6, 7, 8].map(colour);
  const SIDES = ["reference", "prediction"];
  const element = (tag, text = "", name = "") => Object.assign(document.createElement(tag), { textContent: text, className: name });
  const number = (value) => value.toLocaleString("en");

  // --- rows ---

  columns.team = runs.flatMap(([team, , count]) => Array(count).fill(team));
  columns.case = runs.flatMap(([, place, count]) => Array(count).fill(place));
  const count = columns.team.length;
  const rowsOf = new Map(); // of a team and case
  const keyOf = (row) => `${columns.case[row]} ${columns.reference_id[row]} ${columns.reference_area[row]}`;
  const isExtra = (row) => columns.reference_class[row] < 0; // no reference nucleus
  const ofReference = new Map(); // rows of a reference nucleus, by team
  for (let row = 0; row < count; row++) {
    const of = `${columns.team[row]} ${columns.case[row]}`;
    if (!rowsOf.has(of)) rowsOf.set(of, []);
    rowsOf.get(of).push(row);
    if (teams.length && !isExtra(row)) {
      if (!ofReference.has(keyOf(row))) ofReference.set(keyOf(row), []);
      ofReference.get(keyOf(row))[columns.team[row]] = row;
    }
  }
  const isFound = (row) => row !== undefined && columns.state[row] < MISSED;
  const isError = (row) => ![FOUND, IGNORED].includes(columns.state[row]);
  const reasons = new Map(why.row.map((row, at) => [row, at]));
  const isDrawn = (row) => Boolean(columns.reference[row] || columns.prediction[row]);
  const areaOf = (row) => columns.reference_area[row] ?? columns.prediction_area[row];

  // --- outlines: see outline_texts in pictures.py ---

  const traced = new Map(); // path and box of an outline
  const outlineOf = (side, row) => {
    const at = columns[side][row];
    if (!at) return null;
    if (!traced.has(at)) traced.set(at, trace(outlines[at]));
    return traced.get(at);
  };
  const trace = (text) => {
    const path = new Path2D();
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (const ring of text.split(";")) {
      let [x, y, ...sides] = ring.split(" ").map(Number);
      const see = () => {
        [box[0], box[1]] = [Math.min(box[0], x), Math.min(box[1], y)];
        [box[2], box[3]] = [Math.max(box[2], x), Math.max(box[3], y)];
      };
      see();
      path.moveTo(sides.length ? x : x + 6, y); // without it a line joins the rings of a nucleus
      if (!sides.length) path.arc(x, y, 6, 0, 7);
      sides.forEach((length, at) => {
        if (at % 2) y += length;
        else x += length;
        path.lineTo(x, y);
        see();
      });
      if (sides.length) path.closePath();
    }
    return { path, box };
  };

  // --- pictures ---

  const images = new Map(); // an image that is decoded, or a promise
  const imageOf = (webp) => {
    if (!images.has(webp)) {
      const image = new Image();
      image.src = `data:image/webp;base64,${webp}`;
      images.set(webp, image.decode().then(() => images.set(webp, image), () => images.set(webp, null)));
    }
    return images.get(webp);
  };
  const around = (row, least, factor = 1.8) => {
    const boxes = SIDES.map((side) => outlineOf(side, row)).filter(Boolean).map((one) => one.box);
    const [x0, y0] = [0, 1].map((at) => Math.min(...boxes.map((box) => box[at])));
    const [x1, y1] = [2, 3].map((at) => Math.max(...boxes.map((box) => box[at])));
    return { x: (x0 + x1) / 2, y: (y0 + y1) / 2, side: Math.max(factor * Math.max(x1 - x0, y1 - y0), least) };
  };
  /** Where `side` px around a point fill a canvas. */
  const placed = (canvas, { x, y, side }) => {
    const scale = Math.min(canvas.width, canvas.height) / side;
    return { scale, x: x - canvas.width / scale / 2, y: y - canvas.height / scale / 2 };
  };
  const ALL = { tissue: true, reference: true, classes: false, hidden: new Set() };
  const colourOf = (side, row, shown, layers) => {
    if (layers.classes) return SERIES[Math.max(columns[`${side}_class`][row], 0) % 8];
    if (shown.length < 2 || columns.state[row] === IGNORED) return COLOURS[columns.state[row]];
    if (side === "prediction") return SERIES[columns.team[row] % 8];
    const found = shown.filter((team) => isFound(ofReference.get(keyOf(row))[team])).length;
    return found === shown.length ? COLOURS[FOUND] : found ? colour("picture-contested") : COLOURS[MISSED];
  };
  /** Draw a part of a case, {x, y, scale}, with the nuclei of some teams; `subject` has thick lines. */
  const paint = (canvas, shown, place, view, subject, layers = ALL) => {
    canvas.dataset.turn = `${shown} ${place} ${view.x} ${view.y} ${view.scale}`;
    const { turn } = canvas.dataset;
    const { x, y, scale } = view;
    const [right, bottom] = [x + canvas.width / scale, y + canvas.height / scale];
    const isSeen = ([x0, y0, x1, y1]) => x0 < right + 7 && x1 > x - 7 && y0 < bottom + 7 && y1 > y - 7;
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height); // where there is no tissue, the page has its colour
    context.setTransform(scale, 0, 0, scale, -x * scale, -y * scale);
    const waited = [];
    for (const [x0, y0, x1, y1, webp] of layers.tissue ? cases[place].windows.filter(isSeen) : []) {
      const image = imageOf(webp);
      if (image instanceof Promise) waited.push(image);
      else if (image) context.drawImage(image, x0, y0, x1 - x0, y1 - y0);
    }
    const lines = new Map(); // of one colour and width
    shown.forEach((team, index) => {
      for (const row of rowsOf.get(`${team} ${place}`) || []) {
        for (const side of SIDES) {
          if (side === "reference" && (index || !layers.reference)) continue; // of the first team: all have the same
          const outline = outlineOf(side, row);
          if (!outline || !isSeen(outline.box) || layers.hidden.has(columns[`${side}_class`][row])) continue;
          const isSubject = row === subject || (side === "reference" && subject !== undefined && !isExtra(subject) && keyOf(row) === keyOf(subject));
          const key = `${side} ${isSubject} ${colourOf(side, row, shown, layers)}`;
          if (!lines.has(key)) lines.set(key, new Path2D());
          lines.get(key).addPath(outline.path);
        }
      }
    });
    const px = (layers.ratio || 1) / scale;
    for (const isCasing of [true, false])
      for (const [key, path] of lines) {
        const [side, isSubject, stroke] = key.split(" ");
        const thick = isSubject === "true" ? 2.5 : 1.5;
        context.setLineDash(side === "prediction" && !isCasing ? [5 * px, 4 * px] : []);
        context.lineWidth = (isCasing ? thick + (subject === undefined ? 1 : 2) : thick) * px;
        context.strokeStyle = isCasing ? "#ffffffb0" : stroke;
        context.stroke(path);
      }
    if (!waited.length) canvas.dataset.painted = "true";
    else Promise.all(waited).then(() => canvas.dataset.turn === turn && paint(canvas, shown, place, view, subject, layers));
  };
  /** Find the smallest nucleus of some teams at a point. */
  const nucleusAt = (canvas, shown, place, x, y, reach) => {
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    let best;
    let least = Infinity;
    for (const team of shown)
      for (const row of rowsOf.get(`${team} ${place}`) || [])
        for (const side of SIDES) {
          const outline = outlineOf(side, row);
          if (!outline) continue;
          const [x0, y0, x1, y1] = outline.box;
          if (x < x0 - reach || x > x1 + reach || y < y0 - reach || y > y1 + reach) continue;
          const size = (x1 - x0) * (y1 - y0) * (context.isPointInPath(outline.path, x, y) ? 1 : 1e6) + 1e3 * !chosen.includes(row);
          if (size < least) [best, least] = [row, size];
        }
    return best;
  };
  const paintCard = (canvas) => {
    painter.unobserve(canvas);
    const row = Number(canvas.dataset.row);
    paint(canvas, [columns.team[row]], columns.case[row], placed(canvas, around(row, 36)), row);
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
    const kind = kinds[columns.kind[row]];
    const more = KINDS.includes(kind) ? ` (${kind})` : "";
    return `${WORDS[state][0].toUpperCase()}${WORDS[state].slice(1)}${more}`;
  };
  const classWords = (row) => {
    const [reference, prediction] = [columns.reference_class[row], columns.prediction_class[row]];
    if (isExtra(row)) return className(prediction);
    return columns.state[row] === MISNAMED ? `${className(reference)}, not ${className(prediction)}` : className(reference);
  };
  const factsOf = (row) => [
    [overview ? "image" : "case", cases[columns.case[row]].name],
    ...(teams.length ? [[overview ? "model" : "team", teams[columns.team[row]]]] : []),
    ...["reference", "prediction"]
      .filter((side) => columns[`${side}_id`][row] !== "")
      .map((side) => [side, [columns[`${side}_id`][row], className(columns[`${side}_class`][row]), columns[`${side}_area`][row] === null ? "" : `${number(columns[`${side}_area`][row])} px`].filter(Boolean).join(" · ")]),
    ...(columns.iou[row] === null ? [] : [["IoU", columns.iou[row].toFixed(3)]]),
    ...(columns.loss[row] === null ? [] : [["lost", `${number(columns.loss[row])} px`]]),
  ];
  /** Why a nucleus is not matched, in words. */
  const whyOf = (row) => {
    const state = columns.state[row];
    if (state === FOUND) return columns.iou[row] === null ? "" : `IoU ${columns.iou[row].toFixed(3)}.`;
    if (state === MISNAMED) return `${classWords(row)}.`;
    if (state === IGNORED) return "In an ignore region: not scored.";
    const [own, other] = state === MISSED ? ["reference nucleus", "predicted nucleus"] : ["predicted nucleus", "reference nucleus"];
    const at = reasons.get(row);
    if (at === undefined) return why.row.length ? `There is no ${other} here.` : "";
    const [iou, apart, taken] = [why.nearest_iou[at], why.nearest_distance_px[at], why.taken_by[at]];
    const match = `matched to ${taken ? `${own} ${taken}` : "nothing"}`;
    if (iou === 0) return `No ${other} overlaps it. The nearest one is ${why.nearest_id[at]}${apart === null ? "" : `, ${apart.toFixed(1)} px away`}, ${match}. ${rule.words}.`;
    const lacking = rule.threshold !== null && iou !== null && iou <= rule.threshold ? `: ${(rule.threshold - iou).toFixed(3)} of IoU lacking` : "";
    const measures = [iou === null ? "" : `IoU ${iou.toFixed(3)}`, apart === null ? "" : `centroids ${apart.toFixed(1)} px apart`].filter(Boolean);
    return `Best candidate: ${other} ${why.nearest_id[at]}, ${measures.join(", ")}; ${match}. ${rule.words}${lacking}.`;
  };

  // --- the gallery ---

  const form = find("form");
  for (const kind of [...KINDS, "ignored"])
    if (kinds.includes(kind)) form.elements.state.append(new Option(kind, kind));
  const gallery = find(".gallery");
  let chosen = [];
  let first = 0;
  let shown = 0; // place in `chosen` of what the viewer shows

  const filtered = () => {
    const value = (name) => (form.elements[name] ? form.elements[name].value : "");
    const [state, ofClass, place, team, by, not] = ["state", "class", "case", "team", "by", "not"].map((name) => (value(name) === "" ? null : value(name)));
    const id = value("id").trim().toLowerCase();
    const low = value("low") === "" ? -Infinity : Number(value("low"));
    const high = value("high") === "" ? Infinity : Number(value("high"));
    const found = [];
    for (let row = 0; row < count; row++) {
      if (id) {
        if (!SIDES.some((side) => columns[`${side}_id`][row].toLowerCase() === id)) continue;
      } else if (by !== null || not !== null) {
        if (columns.state[row] !== MISSED || columns.team[row] !== Number(not ?? columns.team[row])) continue;
        const others = ofReference.get(keyOf(row));
        if (!(by === null ? others.some(isFound) : isFound(others[by]))) continue;
      } else if (state !== null && (state === "errors" ? !isError(row) : /\d/.test(state) ? columns.state[row] !== Number(state) : kinds[columns.kind[row]] !== state)) continue;
      if (ofClass !== null && columns.reference_class[row] !== Number(ofClass) && columns.prediction_class[row] !== Number(ofClass)) continue;
      if (place !== null && columns.case[row] !== Number(place)) continue;
      if (team !== null && columns.team[row] !== Number(team)) continue;
      const area = areaOf(row);
      if (area === null ? low > -Infinity || high < Infinity : area < low || area > high) continue;
      found.push(row);
    }
    const keys = {
      loss: (row) => -(columns.loss[row] ?? -1),
      iou: (row) => columns.iou[row] ?? (columns.state[row] === FOUND ? 2 : -1),
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
    find(".found").textContent = chosen.length ? `${number(chosen.length)} of ${number(count)} ${count === 1 ? "nucleus" : "nuclei"}.` : "No nuclei match these filters.";
    turn(0);
    showCase();
    if (viewer.open && chosen.length) open(0);
  };

  // --- cases as a whole, for each team ---

  const showCase = () => {
    const view = find(".case-view");
    const isAll = form.elements.case.value === "" && cases.length > 1;
    const places = isAll ? cases.map((_, at) => at).slice(0, overview) : [Number(form.elements.case.value)];
    const drawn = places.filter((place) => cases[place].size);
    view.hidden = !drawn.length;
    const isAlone = !form.elements.team || form.elements.team.value !== "";
    view.classList.toggle("alone", isAlone);
    view.classList.toggle("all", isAll);
    view.replaceChildren(...drawn.map((place) => imageRow(place, isAll, isAlone)));
  };
  const imageRow = (place, isAll, isAlone) => {
    const [height, width] = cases[place].size;
    const made = element("div", "", "image");
    const one = !isAlone ? teams.map((_, at) => at) : [Number(form.elements.team ? form.elements.team.value : 0)];
    made.style.setProperty("--models", one.length);
    if (one.length > 1) made.append(element("p", `${overview ? "" : "Case "}${cases[place].name}`, "name"));
    for (const team of one) {
      const scale = Math.min((teams.length > 1 ? 520 : 900) / width, (isAll ? 420 : 900) / height, 6);
      const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(width * scale), height: Math.round(height * scale) });
      const name = [one.length > 1 ? "" : cases[place].name, teams[team]].filter(Boolean).join(", ");
      const value = cases[place].scores[team] ?? null;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${cases[place].name}, ${name}: all nuclei on the tissue. The viewer has them one by one.`);
      canvas.addEventListener("click", (event) => {
        const [x, y] = [(event.offsetX * width) / canvas.offsetWidth, (event.offsetY * height) / canvas.offsetHeight];
        const row = nucleusAt(canvas, [team], place, x, y, 3);
        look(place, new Set([team]));
        if (row !== undefined) choose(row);
      });
      const figure = document.createElement("figure");
      figure.append(canvas, element("figcaption", `${name}${value === null ? "" : `, ${score} ${value.toFixed(3)}`}`));
      made.append(figure);
      paint(canvas, [team], place, { x: 0, y: 0, scale: canvas.width / width });
    }
    return made;
  };

  // --- the viewer ---

  const viewer = find("dialog");
  const stage = viewer.querySelector("canvas");
  const boxes = viewer.querySelectorAll("[name=model]");
  const layers = { ...ALL, hidden: new Set() };
  let models = new Set([0]);
  let place = 0;
  let subject;
  let view = { x: 0, y: 0, scale: 1 };
  const draw = () => {
    const seen = [...models].sort((a, b) => a - b);
    paint(stage, seen.length ? seen : [], place, view, subject, layers);
    const entries = layers.classes
      ? []
      : seen.length > 1
        ? [[COLOURS[FOUND], "found by all shown"], [colour("picture-contested"), "found by some"], [COLOURS[MISSED], "found by none"]]
        : WORDS.map((word, state) => [COLOURS[state], word]).filter((_, state) => (state !== MISNAMED || classes.length > 1) && (state !== IGNORED || kinds.includes("ignored")));
    const legend = entries.map(([swatch, word]) => {
      const item = element("li", word);
      item.prepend(element("span", "", "swatch"));
      item.firstChild.style.setProperty("--swatch", swatch);
      return item;
    });
    viewer.querySelector(".legend").replaceChildren(...legend, element("li", "solid line: reference, dashed line: prediction"));
    boxes.forEach((box, team) => {
      box.checked = models.has(team);
      const swatch = box.parentElement.querySelector(".swatch");
      swatch.hidden = seen.length < 2 || layers.classes;
      swatch.style.setProperty("--swatch", SERIES[team % 8]);
    });
  };
  const fit = () => {
    layers.ratio = Math.min(devicePixelRatio || 1, 2);
    const { clientWidth, clientHeight } = stage.parentElement;
    const [width, height] = [clientWidth, clientHeight].map((size) => Math.max(Math.round(size * layers.ratio), 1));
    if (stage.width === width && stage.height === height) return false;
    Object.assign(stage, { width, height });
    return true;
  };
  const zoom = (factor, x = stage.width / 2, y = stage.height / 2) => {
    const scale = Math.min(Math.max(view.scale * factor, 0.01), 60);
    view = { scale, x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale };
    draw();
  };
  const move = (x, y) => {
    view = { ...view, x: view.x - x / view.scale, y: view.y - y / view.scale };
    draw();
  };
  const extent = () => {
    if (cases[place].size) return [0, 0, ...[...cases[place].size].reverse()];
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (const [x0, y0, x1, y1] of [...cases[place].windows, ...rowsAt(place).flatMap((row) => SIDES.map((side) => outlineOf(side, row)).filter(Boolean).map((one) => one.box))]) {
      [box[0], box[1], box[2], box[3]] = [Math.min(box[0], x0), Math.min(box[1], y0), Math.max(box[2], x1), Math.max(box[3], y1)];
    }
    return box[0] < Infinity ? box : [0, 0, 1, 1];
  };
  const rowsAt = (at) => (teams.length ? teams : [0]).flatMap((_, team) => rowsOf.get(`${team} ${at}`) || []);
  const whole = () => {
    const [x0, y0, x1, y1] = extent();
    const scale = Math.min(stage.width / (x1 - x0), stage.height / (y1 - y0));
    view = { scale, x: (x0 + x1 - stage.width / scale) / 2, y: (y0 + y1 - stage.height / scale) / 2 };
    draw();
  };
  const link = (hash) => {
    viewer.querySelector(".link").href = hash;
    try {
      history.replaceState(null, "", hash);
    } catch {} // a page inside another has no address of its own
  };
  const hashOf = (row) => {
    const given = new URLSearchParams({ case: cases[place].name });
    if (row !== undefined) {
      const side = isExtra(row) ? "prediction" : "reference";
      given.set("nucleus", columns[`${side}_id`][row]);
      if (side === "prediction") given.set("side", side);
      if (teams.length) given.set("model", teams[columns.team[row]]);
    }
    return `#${given}`;
  };
  const facts = (list) => {
    const pairs = list.map(([name, text]) => {
      const pair = document.createElement("div");
      pair.append(element("dt", name), element("dd", text));
      return pair;
    });
    viewer.querySelector(".side > dl").replaceChildren(...pairs);
  };
  const caseWords = (team) => {
    const value = cases[place].scores[team] ?? null;
    const errors = (rowsOf.get(`${team} ${place}`) || []).filter(isError).length;
    return `${value === null ? "" : `${score} ${value.toFixed(3)}, `}${number(errors)} ${errors === 1 ? "error" : "errors"}`;
  };
  /** Show a case as a whole. */
  const look = (at, of = models) => {
    [place, models, subject] = [at, of, undefined];
    if (!viewer.open) {
      find(".filter").append(form);
      viewer.showModal();
      stage.focus();
    }
    viewer.querySelector("[name=place]").value = place;
    facts((teams.length ? teams : ["nuclei"]).map((name, team) => [name, caseWords(team)]));
    viewer.querySelector(".why").textContent = cases[place].name;
    stage.setAttribute("aria-label", `${cases[place].name}: all nuclei on the tissue`);
    nameTurn();
    link(hashOf());
    fit();
    whole();
  };
  const nameTurn = () => {
    const at = subject === undefined ? -1 : shown;
    viewer.querySelector(".where").textContent = at < 0 ? `– of ${number(chosen.length)}` : `${number(at + 1)} of ${number(chosen.length)}`;
    viewer.querySelector("[name=back]").disabled = at <= 0;
    viewer.querySelector("[name=next]").disabled = at >= chosen.length - 1;
  };
  /** Show the nucleus that stands at a place of `chosen`. */
  const open = (at) => {
    shown = Math.max(0, Math.min(at, chosen.length - 1));
    const row = chosen[shown];
    if (row === undefined) return;
    const team = columns.team[row];
    const finder = form.elements.by && (form.elements.by.value || form.elements.not.value) ? form.elements.by.value || ofReference.get(keyOf(row)).findIndex(isFound) : null;
    if (!viewer.open || place !== columns.case[row]) look(columns.case[row], models.has(team) ? models : new Set([team]));
    if (!models.has(team)) models = new Set([team]);
    if (finder !== null) models = new Set([Number(finder), team]);
    subject = row;
    facts(factsOf(row));
    viewer.querySelector(".why").textContent = `${wordsOf(row)}. ${whyOf(row)}`;
    stage.setAttribute("aria-label", `${wordsOf(row)}, ${classWords(row)}, on the tissue of ${cases[place].name}`);
    nameTurn();
    link(hashOf(row));
    if (isDrawn(row)) view = placed(stage, around(row, 90, 4));
    draw();
  };
  const choose = (row) => {
    if (!chosen.includes(row)) chosen = [row, ...chosen];
    open(chosen.indexOf(row));
  };
  const step = (by) => open(subject === undefined ? (by > 0 ? Math.max(chosen.findIndex((row) => columns.case[row] === place), 0) : -1) : shown + by);
  const turnCase = (by) => look((place + by + cases.length) % cases.length);
  const toggle = (name, team) => {
    if (name === "model") models.has(team) ? models.delete(team) : models.add(team);
    else layers[name] = !layers[name];
    const box = name === "model" ? null : viewer.querySelector(`[name=${name}]`);
    if (box) box.checked = layers[name];
    draw();
  };
  const on = (selector, act) => find(selector).addEventListener("click", act);
  on(".gallery + .turn [name=back]", () => turn(first - PAGE));
  on(".gallery + .turn [name=next]", () => turn(first + PAGE));
  on("[name=view]", () => (viewer.open ? whole() : look(Number(form.elements.case.value))));
  on("dialog [name=back]", () => step(-1));
  on("dialog [name=next]", () => step(1));
  on("dialog [name=close]", () => viewer.close());
  on("dialog [name=whole]", () => look(place));
  on("dialog [name=larger]", () => zoom(1.5));
  on("dialog [name=smaller]", () => zoom(1 / 1.5));
  find("[name=place]").addEventListener("change", ({ target }) => {
    look(Number(target.value));
    stage.focus();
  });
  for (const name of ["tissue", "reference", "classes"]) find(`.layers [name=${name}]`)?.addEventListener("change", () => toggle(name));
  boxes.forEach((box, team) => box.addEventListener("change", () => toggle("model", team)));
  find("dialog").querySelectorAll("[name=class][type=checkbox]").forEach((box, at) => {
    box.parentElement.style.setProperty("--swatch", SERIES[at % 8]);
    box.addEventListener("change", () => {
      layers.hidden[box.checked ? "delete" : "add"](at);
      draw();
    });
  });
  const KEYS = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), "]": () => turnCase(1), "[": () => turnCase(-1),
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => look(place),
    t: () => toggle("tissue"), r: () => toggle("reference"), c: () => classes.length > 1 && toggle("classes"),
  };
  const MOVES = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] };
  viewer.addEventListener("keydown", (event) => {
    const isTyped = event.target.matches("select, input:not([type=checkbox])");
    if (isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
    const team = Number(event.key) - 1;
    if (event.shiftKey && MOVES[event.key]) move(...MOVES[event.key].map((px) => px * layers.ratio));
    else if (team >= 0 && team < boxes.length) toggle("model", team);
    else if (KEYS[event.key] || KEYS[event.key.toLowerCase()]) (KEYS[event.key] || KEYS[event.key.toLowerCase()])();
    else return;
    event.preventDefault();
  });
  viewer.addEventListener("close", () => {
    find(".form-place").append(form);
    try {
      history.replaceState(null, "", location.pathname + location.search);
    } catch {}
    const card = gallery.children[shown - first];
    if (card && subject !== undefined) card.firstChild.focus();
  });

  // --- mouse and fingers ---

  const fingers = new Map();
  let isDrag = false;
  const at = (event) => [event.offsetX * layers.ratio, event.offsetY * layers.ratio];
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), ...at(event));
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => {
    stage.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    isDrag = fingers.size > 1;
  });
  stage.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const other = [...fingers].find(([id]) => id !== event.pointerId);
    if (!isDrag && Math.hypot(now[0] - before[0], now[1] - before[1]) < 4) return;
    isDrag = true;
    fingers.set(event.pointerId, now);
    move((now[0] - before[0]) / fingers.size, (now[1] - before[1]) / fingers.size);
    if (other) {
      const [, [x, y]] = other;
      zoom(Math.hypot(now[0] - x, now[1] - y) / Math.max(Math.hypot(before[0] - x, before[1] - y), 1), (now[0] + x) / 2, (now[1] + y) / 2);
    }
  });
  stage.addEventListener("pointerup", (event) => {
    if (!isDrag && fingers.has(event.pointerId)) {
      const [x, y] = at(event);
      const row = nucleusAt(stage, [...models], place, view.x + x / view.scale, view.y + y / view.scale, 4 / view.scale);
      if (row !== undefined) choose(row);
    }
    fingers.delete(event.pointerId);
  });
  stage.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
  new ResizeObserver(() => viewer.open && fit() && draw()).observe(stage.parentElement);

  // --- links ---

  const openHash = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    const wanted = given.get("case") ?? start;
    const at = wanted === "*" ? 0 : cases.findIndex((one) => one.name === wanted);
    if (at < 0) return;
    const team = Math.max(teams.indexOf(given.get("model")), 0);
    look(at, new Set([team]));
    const id = given.get("nucleus");
    if (id === null) return;
    const rows = rowsOf.get(`${team} ${at}`) || [];
    const row = (given.get("side") === "prediction" ? ["prediction"] : SIDES).map((side) => rows.find((one) => columns[`${side}_id`][one] === id)).find((one) => one !== undefined);
    if (row === undefined) find(".why").textContent = `No nucleus ${id} in ${cases[at].name}.`;
    else choose(row);
  };
  addEventListener("hashchange", openHash);
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(update));
  for (const link of document.querySelectorAll('a[href="#browser"]:not(.link)'))
    link.addEventListener("click", () => {
      form.elements.case.value = String(cases.findIndex((one) => one.name === link.textContent));
      form.elements.state.value = "";
      update();
    });
  update();
  openHash();
  performance.mark("nuclei");
  root.dataset.ready = "true";
})();
