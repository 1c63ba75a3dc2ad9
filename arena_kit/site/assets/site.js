// Sorting, the switches of a board and the battle reader. Texts of models come as HTML that was
// cleaned when the site was made (`safe` below); everything else is set as text.
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  const counted = (n) => n.toLocaleString("en");

  // The hash holds the state of a page, so that every view has an address. A reader in a frame of a
  // notebook has all data in it and no address.
  const inline = window.arenaKitInline;
  let memory = "";
  const hash = () => (inline ? memory : location.hash);
  const state = () => new URLSearchParams(hash().slice(1));
  const isState = () => hash() === "" || hash().includes("=");

  function move(to, replace = false) {
    if (inline) {
      memory = to;
      window.dispatchEvent(new Event("hashchange"));
    } else if (replace) location.replace(to); // no step of the history
    else location.hash = to;
  }

  if (inline) {
    document.addEventListener("click", (event) => {
      const link = event.target.closest('a[href^="#"]');
      if (!link) return;
      event.preventDefault();
      move(link.getAttribute("href"));
    });
  }

  // Tables

  function sortable(table) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      const button = make("button", { type: "button", textContent: header.textContent });
      header.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = header.getAttribute("aria-sort") !== "ascending";
        headers.forEach((each) => each.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => compare(a.cells[column], b.cells[column], up));
        table.tBodies[0].append(...rows);
        $("sorted").textContent = `Sorted by ${button.textContent}, ${up ? "ascending" : "descending"}`;
      });
    });
  }

  function compare(a, b, up) {
    const [x, y] = [a.dataset.sort, b.dataset.sort];
    if (x === "" || y === "") return (x === "") - (y === ""); // unknown comes last either way
    const numbers = Number(x) - Number(y);
    const order = Number.isNaN(numbers) ? x.localeCompare(y) : numbers;
    return up ? order : -order;
  }

  // Dimensions and strata of a board

  function switchable(fields) {
    const sections = [...document.querySelectorAll("[data-dimension]")];
    const show = (chosen) => {
      const name = chosen.dimension ?? sections[0].dataset.dimension;
      const own = sections.filter((each) => each.dataset.dimension === name);
      const wanted = own.find((each) => each.dataset.stratum === (chosen.stratum ?? ""));
      for (const section of sections) section.hidden = section !== (wanted || own[0]);
    };
    const chosen = () => Object.fromEntries(fields.map((field) => {
      const radio = field.querySelector("input:checked");
      return [radio.name, radio.value];
    }));
    const follow = () => {
      for (const field of fields) {
        const radios = [...field.querySelectorAll("input")];
        const wanted = state().get(radios[0].name);
        (radios.find((each) => each.value === wanted) || radios[0]).checked = true;
        field.hidden = false;
      }
      show(chosen());
    };
    for (const field of fields) {
      field.addEventListener("change", () => {
        const known = Object.entries(chosen()).filter(([, value]) => value);
        move(`#${new URLSearchParams(known)}`);
      });
    }
    window.addEventListener("hashchange", () => isState() && follow());
    follow();
  }

  // Chunks: script files that are loaded when they are needed, each with items of one series

  const chunks = new Map();
  const { nonce } = document.currentScript; // what the page's policy lets scripts by

  if (!inline) window.arenaKitChunk = (name, items) => chunks.get(name).resolve(items);

  function chunk(name) {
    if (inline) return Promise.resolve(inline[name]);
    if (!chunks.has(name)) {
      const entry = {};
      entry.items = new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
      chunks.set(name, entry);
      const script = make("script", { src: `data/${name}.js`, nonce });
      script.addEventListener("error", () => entry.reject(new Error(`data/${name}.js is missing`)));
      document.head.append(script);
    }
    return chunks.get(name).items;
  }

  async function item(series, starts, index) {
    let n = starts.length - 1;
    while (starts[n] > index) n -= 1;
    return (await chunk(`${series}-${n}`))[index - starts[n]];
  }

  // The reader

  const PAGE = 100;
  const WORDS = {
    tie: "tie", both_bad: "both bad", inconsistent: "inconsistent", incomplete: "no usable verdict",
  };

  function reader(data) {
    const form = $("filters");
    const fields = form.elements;
    const names = [...form.querySelectorAll("[name]")].map((field) => field.name);
    const places = new Map(data.id.map((id, n) => [id, n]));
    let matches = [];
    let current = -1;
    let page = 0;
    let moved = false; // whether the battle was chosen by a step or in the list
    let words = null; // every text in lower case, once one is searched
    let searched = ""; // what `hits`, the numbers of texts, hold
    let hits = new Set();

    const model = (index) => data.models[index];
    const outcome = (n) => data.outcomes[data.outcome[n]];
    const winner = (n) => ({ model_a: data.a[n], model_b: data.b[n] })[outcome(n)];
    const result = (n) => WORDS[outcome(n)] || `${model(winner(n))} won`;

    for (const [field, values] of [
      ["entrant", data.models], ["opponent", data.models], ["dimension", data.dimensions],
    ]) {
      fields[field].append(...values.map((value) => make("option", { value, textContent: value })));
    }
    fields.dimension.parentElement.hidden = data.dimensions.length < 2;
    fields.disputed.parentElement.hidden = !data.people.some((votes) => votes);

    const wantedText = () => fields.text.value.trim().toLowerCase();

    async function search() {
      const text = wantedText();
      if (!words) {
        const parts = await Promise.all(data.starts.texts.map((_, n) => chunk(`texts-${n}`)));
        words = parts.flat().map((html) => safe(html).textContent.toLowerCase());
      }
      hits = new Set(words.flatMap((each, n) => (each.includes(text) ? [n] : [])));
      searched = text;
    }

    const says = (n) => [data.prompt_text[data.prompt[n]], data.text_a[n], data.text_b[n]].some((at) => hits.has(at));

    function admitted() {
      const value = Object.fromEntries(names.map((name) => [name, fields[name].value]));
      const [entrant, opponent] = [data.models.indexOf(value.entrant), data.models.indexOf(value.opponent)];
      const dimension = data.dimensions.indexOf(value.dimension);
      const prompt = value.prompt.toLowerCase();
      const named = data.prompts.map((name) => name.toLowerCase().includes(prompt));
      const wanted = {
        "": () => true,
        won: (n) => (entrant < 0 ? winner(n) !== undefined : winner(n) === entrant),
        lost: (n) => winner(n) !== undefined && winner(n) !== entrant,
        decided: (n) => winner(n) !== undefined,
      }[value.outcome] || ((n) => outcome(n) === value.outcome);
      return (n) =>
        (entrant < 0 || data.a[n] === entrant || data.b[n] === entrant) &&
        (opponent < 0 || data.a[n] === opponent || data.b[n] === opponent) &&
        (dimension < 0 || data.dimension[n] === dimension) &&
        named[data.prompt[n]] && wanted(n) && (!searched || says(n)) &&
        (!fields.inconsistent.checked || outcome(n) === "inconsistent") &&
        (!fields.disputed.checked || data.disputed[n] === 1);
    }

    function address(battle) {
      const parts = names.map((name) => [name, filled(fields[name])]).filter(([, value]) => value);
      return `#${new URLSearchParams([...parts, ["battle", data.id[battle]]])}`;
    }

    const filled = (field) => (field.type === "checkbox" && !field.checked ? "" : field.value);

    function list() {
      const from = page * PAGE;
      const shown = matches.slice(from, from + PAGE);
      $("battles").start = from + 1;
      $("battles").replaceChildren(...shown.map((n) => {
        const pair = make("span", { className: "pair" },
          make("bdi", { textContent: model(data.a[n]) }), " – ", make("bdi", { textContent: model(data.b[n]) }));
        const about = [data.prompts[data.prompt[n]], data.dimensions[data.dimension[n]]].filter(Boolean);
        const link = make("a", { href: address(n) }, pair,
          make("span", { className: "about", textContent: about.join(" · ") }),
          make("span", { className: "about outcome", textContent: result(n) }));
        if (n === current) link.setAttribute("aria-current", "true");
        return make("li", {}, link);
      }));
      const last = from + shown.length;
      $("shown").textContent = matches.length ? `${from + 1} to ${last}` : "";
      $("earlier").disabled = page === 0;
      $("later").disabled = last >= matches.length;
      const marked = $("battles").querySelector("[aria-current]");
      if (marked) $("battles").scrollTop = marked.offsetTop - $("battles").offsetTop - 60;
    }

    function follow() {
      const wanted = state();
      for (const name of names) {
        const field = fields[name];
        if (field.type === "checkbox") field.checked = wanted.has(name);
        else field.value = wanted.get(name) || "";
        if (field.tagName === "SELECT" && field.selectedIndex < 0) field.value = "";
      }
      if (wantedText() !== searched) {
        search().then(follow, (error) => { $("count").textContent = error.message; });
        return;
      }
      const admit = admitted();
      matches = data.id.map((_, n) => n).filter(admit);
      const battle = places.get(wanted.get("battle"));
      const missing = Boolean(wanted.get("battle")) && battle === undefined;
      if (battle !== undefined && !admit(battle)) matches = [battle, ...matches];
      current = battle ?? (missing ? -1 : matches[0] ?? -1);
      page = Math.max(0, Math.floor(matches.indexOf(current) / PAGE));
      const count = `${counted(matches.length)} of ${counted(data.id.length)} battles`;
      $("count").textContent = missing ? `${count}; the one of this address is not here` : count;
      list();
      show();
    }

    function step(by) {
      const next = matches[matches.indexOf(current) + by];
      if (next === undefined) return;
      moved = true;
      move(address(next));
    }

    async function show() {
      const n = current;
      const at = matches.indexOf(n);
      $("previous").disabled = at <= 0;
      $("next").disabled = at < 0 || at >= matches.length - 1;
      if (at < 0) {
        $("place").textContent = "No battle";
        return $("text").replaceChildren();
      }
      const place = `${counted(at + 1)} of ${counted(matches.length)}`;
      $("place").textContent = `${place}: ${model(data.a[n])} – ${model(data.b[n])}, ${result(n)}`;
      try {
        const parts = await view(n);
        if (n !== current) return;
        $("text").replaceChildren(...parts);
        if (moved) reveal($("battle"));
        moved = false;
      } catch (error) {
        if (n === current) $("text").replaceChildren(make("p", { className: "why", textContent: error.message }));
      }
    }

    async function view(n) {
      const text = (index) => (index < 0 ? null : item("texts", data.starts.texts, index));
      const [prompt, first, second, verdicts] = await Promise.all([
        text(data.prompt_text[data.prompt[n]]), text(data.text_a[n]), text(data.text_b[n]),
        item("verdicts", data.starts.verdicts, n),
      ]);
      const about = [data.dimensions[data.dimension[n]], data.prompts[data.prompt[n]]].filter(Boolean);
      return [
        make("h2", {}, make("bdi", { textContent: model(data.a[n]) }), " – ",
          make("bdi", { textContent: model(data.b[n]) })),
        make("p", { className: "meta" },
          make("span", { className: "badge", textContent: result(n) }),
          ...about.map((textContent) => make("span", { textContent })),
          inline ? null : make("a", { href: address(n), textContent: "link to this battle" })),
        data.people[n] ? make("p", { className: data.disputed[n] ? "people disputed" : "people", textContent: data.people[n] }) : null,
        said("Prompt", prompt, "prompt"),
        make("div", { className: "sides" },
          said(model(data.a[n]), first, winner(n) === data.a[n] ? "won" : ""),
          said(model(data.b[n]), second, winner(n) === data.b[n] ? "won" : "")),
        verdicts.length ? make("div", { className: "sides" }, ...verdicts.map((row) => verdict(row, request(n, row)))) : null,
      ].filter((part) => part !== null);
    }

    // What the judge was sent in one order: the dimension's texts with those of the battle in them.
    function request(n, row) {
      const sent = data.sent[data.dimension[n]];
      if (!sent) return null;
      const [first, second] = model(data.a[n]) === row.first ? ["text_a", "text_b"] : ["text_b", "text_a"];
      const index = {
        question: data.prompt_text[data.prompt[n]], reference: data.reference[n],
        response_a: data[first][n], response_b: data[second][n],
      };
      const pre = make("pre", { tabIndex: 0, dir: "auto" });
      const box = make("details", { className: "request" }, make("summary", { textContent: "What the judge was sent" }),
        make("p", { className: "note", textContent: "The ellipsis in each tag stands for a secret boundary." }), pre);
      box.addEventListener("toggle", async () => {
        const [system, withReference, without] = sent;
        const user = index.reference < 0 ? without : withReference;
        const names = Object.keys(index).filter((name) => index[name] >= 0);
        const texts = await Promise.all(names.map((name) => item("raw", data.starts.raw, index[name])));
        const filled = user.replace(/\{(\w+)\}/g, (token, name) => texts[names.indexOf(name)] ?? token);
        pre.textContent = `${system}\n${filled}`;
      }, { once: true });
      return box;
    }

    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => move("#battle=", true));
    form.addEventListener("input", async () => {
      if (wantedText() !== searched) await search();
      matches = data.id.map((_, n) => n).filter(admitted());
      const none = `${address(0).split("battle=")[0]}battle=`;
      move(matches.length ? address(matches[0]) : none, true);
    });
    document.body.classList.toggle("single", data.id.length === 1);
    $("battles").addEventListener("click", () => { moved = true; });
    $("previous").addEventListener("click", () => step(-1));
    $("next").addEventListener("click", () => step(1));
    $("earlier").addEventListener("click", () => { page -= 1; list(); });
    $("later").addEventListener("click", () => { page += 1; list(); });
    document.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const busy = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
      if (by && !busy && !event.target.closest("input, select, pre")) step(by);
    });
    window.addEventListener("hashchange", () => isState() && follow());
    follow();
    performance.mark("arena-kit-ready");
  }

  function reveal(element) {
    const { top } = element.getBoundingClientRect();
    if (top < 0 || top > window.innerHeight * 0.6) element.scrollIntoView();
  }

  function said(name, html, kind) {
    if (html === null) return null;
    const title = make("h3", {}, make("bdi", { textContent: name }));
    if (kind === "won") title.append(" ", make("span", { className: "badge", textContent: "won" }));
    return make("section", { className: `said ${kind}` }, title, safe(html));
  }

  // The only place where HTML is set; it went through nh3 when the site was made.
  const safe = (html) => make("div", { className: "markdown", dir: "auto", innerHTML: html });

  function verdict(row, request) {
    const named = row.named || "no verdict";
    const title = make("h3", {}, make("bdi", { textContent: row.first }), " shown first ",
      make("span", { className: "badge" }, make("bdi", { textContent: named })));
    const aside = [row.judge, row.status === "ok" ? "" : row.status, row.detail].filter(Boolean);
    const raw = make("details", {}, make("summary", { textContent: "Raw answer" }),
      make("pre", { textContent: row.raw, tabIndex: 0, dir: "auto" }));
    return make("section", { className: "said verdict" }, title,
      make("p", { className: "note", textContent: aside.join(" · ") }),
      make("p", { className: "justification", dir: "auto", textContent: row.justification }),
      row.raw ? raw : null, request);
  }

  document.querySelectorAll("[data-sortable]").forEach(sortable);
  const fields = [$("switch"), $("strata")].filter((field) => field);
  if (fields.length) switchable(fields);
  if (window.arenaKitBattles) reader(window.arenaKitBattles);
})();
