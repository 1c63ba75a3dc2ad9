// The researcher's board: asks the server every few seconds, and shows what it says as text.
"use strict";

(() => {
  const EVERY = 3000; // milliseconds
  const $ = (id) => document.getElementById(id);
  let shown = "";

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  async function ask(path, body) {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      credentials: "same-origin",
    }).catch(() => { throw new Error("The server cannot be reached; this is how it stood."); });
    const values = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(values.message || `The server answered ${answer.status}.`);
    return values;
  }

  function table({ title, columns, rows }) {
    const isNumber = (value) => value === null || typeof value === "number" || /^[\d\s.,%±+–−-]*$/.test(value);
    const numeric = columns.map((_, n) => rows.every((row) => isNumber(row[n])));
    const cell = (tag, value, n) => make(tag, {
      className: numeric[n] ? "number" : "",
      textContent: value === null ? "–" : typeof value === "number" ? value.toLocaleString("en") : value,
    });
    const head = make("tr", {}, ...columns.map((name, n) => Object.assign(cell("th", name, n), { scope: "col" })));
    const body = rows.map((row) => make("tr", {}, ...row.map((value, n) => cell("td", value, n))));
    return make("div", { className: "wide" }, make("table", {},
      make("caption", { textContent: title }), make("thead", {}, head), make("tbody", {}, ...body)));
  }

  // A line for each model's 95 % interval and a dot for its rating, on one scale.
  function forest(rows) {
    const ends = rows.flatMap((row) => row.slice(1)).filter((end) => end !== null);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const at = (value) => `${2 + (96 * (value - low)) / (high - low || 1)}%`;
    const draw = (tag, values) => {
      const shape = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(values)) shape.setAttribute(name, value);
      return shape;
    };
    const end = (value, open) => (value === null ? open : Math.round(value));
    const named = (value) => make("small", { className: "meta", textContent: Math.round(value) });
    const axis = make("span", { className: "axis" });
    axis.append(named(low), named(high));
    const marks = rows.flatMap(([model, rating, from, to]) => {
      const words = `${model}: ${Math.round(rating)}, ${end(from, "−∞")} to ${end(to, "∞")}`;
      const picture = draw("svg", { width: "100%", height: "20", role: "img", "aria-label": words });
      const [x1, x2] = [from === null ? "0%" : at(from), to === null ? "100%" : at(to)];
      picture.append(
        draw("line", { x1, x2, y1: 10, y2: 10 }),
        draw("circle", { cx: at(rating), cy: 10, r: 4 }));
      return [make("bdi", { textContent: model }), picture];
    });
    return [...marks, make("span"), axis];
  }

  function show(board) {
    const text = JSON.stringify(board);
    if (text === shown) return;
    shown = text;
    $("state").textContent = board.state;
    $("said").replaceChildren(...board.sentences.map((textContent) => make("p", { textContent })));
    const title = make("p", { className: "meta", textContent: "Bradley–Terry rating with its 95 % interval" });
    $("forest").replaceChildren(...(board.forest.length ? [title, ...forest(board.forest)] : []));
    $("tables").replaceChildren(...board.tables.map(table));
  }

  async function look() {
    try {
      if (!document.hidden) show(await ask("api/board", {}));
      $("trouble").hidden = true;
    } catch (error) {
      $("trouble").textContent = error.message;
      $("trouble").hidden = false;
    }
    setTimeout(look, EVERY);
  }

  async function begin() {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) {
      try {
        await ask("api/board/enter", { token });
        history.replaceState(null, "", location.pathname);
      } catch { /* `look` says what is wrong */ }
    }
    await look();
    performance.mark("arena-kit-ready");
  }

  begin();
})();
