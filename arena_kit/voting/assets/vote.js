// Voting on pairs of responses, from a ballot file or live. Texts of models come as HTML that was
// cleaned when the page was made or the pair was sent (`put` below); everything else is set as text.
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const source = $("data").textContent;
  const data = JSON.parse(source);
  const rubrics = [...document.querySelectorAll(".rubric")];
  const buttons = [...document.querySelectorAll("[data-choice]")];
  const keys = {
    1: "A", ArrowLeft: "A", a: "A", 2: "B", ArrowRight: "B", b: "B",
    t: "TIE", x: "BOTH_BAD", s: "SKIP",
  };
  const words = { A: "A is better", B: "B is better", TIE: "tie", BOTH_BAD: "both bad", SKIP: "skipped" };
  const short = { A: "A", B: "B", TIE: "tie", BOTH_BAD: "both bad", SKIP: "–" };
  const counted = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

  // What is seen

  const put = (id, html) => { $(id).innerHTML = html; };
  const say = (text) => { $("said").textContent = text; };

  function stage(name) {
    for (const id of ["intro", "pair", "end"]) $(id).hidden = id !== name;
    for (const rubric of rubrics) {
      rubric.hidden = name === "end";
      rubric.open = name === "intro" && rubrics.length === 1;
    }
    $("bar-of-choices").hidden = name !== "pair";
  }

  function trouble(text) {
    $("trouble").textContent = text;
    $("trouble").hidden = !text;
  }

  function show(pair, choice = "", comment = "") {
    put("prompt", pair.prompt);
    put("left", pair.left);
    put("right", pair.right);
    if ($("beside")) {
      put("reference", pair.reference);
      $("beside").hidden = !pair.reference;
    }
    $("comment").value = comment;
    $("remark").open = comment !== "";
    mark(choice);
    stage("pair");
    window.scrollTo(0, 0);
    $("prompt-title").focus({ preventScroll: true });
    watch.begin();
  }

  // One line without control characters or halves of characters, as the store takes it.
  const remark = () => $("comment").value.replace(/[\s\x00-\x1f\x7f]+/g, " ").replace(/\p{Surrogate}/gu, "").trim();

  function progressTo(text, share) {
    $("progress").textContent = text;
    $("bar").hidden = share === null;
    $("bar").value = Math.min(1, share || 0);
  }

  // On a narrow window A stands above B.
  function jump() {
    const below = $("side-b").getBoundingClientRect().top > window.innerHeight / 2;
    $(below ? "side-b" : "side-a").scrollIntoView();
  }

  function mark(choice) {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.choice === choice));
    $("side-a").classList.toggle("chosen", choice === "A");
    $("side-b").classList.toggle("chosen", choice === "B");
  }

  function finish(sentence) {
    $("summary").textContent = sentence;
    stage("end");
    window.scrollTo(0, 0);
    $("end-title").focus({ preventScroll: true });
  }

  // Seconds that a pair was looked at: hidden tabs do not count.
  const watch = {
    seconds: 0,
    since: 0,
    begin() { this.seconds = 0; this.since = performance.now(); },
    pause() { if (this.since) this.seconds += (performance.now() - this.since) / 1000; this.since = 0; },
    read() {
      this.pause();
      this.since = performance.now();
      return Math.round(Math.min(this.seconds, 86400) * 10) / 10;
    },
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) watch.pause();
    else watch.since = performance.now();
  });

  // What is pressed

  function listen(mode) {
    for (const each of buttons) each.addEventListener("click", () => mode.choose(each.dataset.choice));
    document.addEventListener("keydown", (event) => {
      const busy = event.altKey || event.ctrlKey || event.metaKey || event.repeat;
      const typing = event.target.closest("input, textarea, pre");
      if (busy || typing || $("pair").hidden || !$("shortcuts").checked) return;
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      const done = mode.key?.(key) || (keys[key] && (mode.choose(keys[key]), true));
      if (done) event.preventDefault();
    });
    $("begin").addEventListener("click", () => mode.begin());
    $("jump").addEventListener("click", jump);
  }

  // A ballot file: votes are kept in the browser, where it can, until they are saved and sent

  function ballot() {
    const place = `arena-kit-ballot-${data.ballot}`;
    const pairs = data.pairs;
    const state = { copy: "", voter: "", at: 0, begun: false, votes: {}, comments: {} };
    let leaving = false; // whether closing the page would lose votes
    let on = 0; // which dimension of the pair is asked about
    let before = 0; // seconds that the pair was looked at earlier

    // Every vote that the ballot asks for: a pair each, or a pair and a dimension.
    const cells = pairs.map((pair) => (pair.dimensions || [""]).map((dimension) => ({ pair, dimension, key: `${pair.ticket} ${dimension}` })));
    const all = cells.flat();
    const voteOn = (cell) => state.votes[cell?.key];
    const title = (cell) => data.dimensions[cell.dimension][0];

    function recall() {
      try {
        Object.assign(state, JSON.parse(localStorage.getItem(place)) || {});
      } catch { /* no storage here: votes live as long as the page */ }
      state.copy ||= [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, "0")).join("");
    }

    function keep() {
      try {
        localStorage.setItem(place, JSON.stringify(state));
        leaving = false;
      } catch {
        leaving = true;
      }
    }

    const voted = () => all.filter(voteOn).length;

    function progress() {
      const here = Math.min(state.at + 1, pairs.length);
      progressTo(`Pair ${here} of ${pairs.length}, ${counted(voted(), "vote", "votes")} so far`, voted() / all.length);
      dots.forEach((dot, n) => {
        const choices = cells[n].map((cell) => voteOn(cell)?.choice).filter(Boolean);
        const whole = choices.length === cells[n].length;
        const kind = !choices.length ? "" : !whole ? "partly" : choices.every((choice) => choice === "SKIP") ? "skipped" : "voted";
        const told = data.dimensions ? `${choices.length} of ${cells[n].length} dimensions` : words[choices[0]];
        dot.className = `dot ${kind}`;
        dot.setAttribute("aria-label", `Pair ${n + 1}: ${choices.length ? told : "open"}`);
        if (n === state.at) dot.setAttribute("aria-current", "step");
        else dot.removeAttribute("aria-current");
      });
      $("dots").hidden = false;
      dots[here - 1].scrollIntoView({ block: "nearest", inline: "center" });
    }

    const dots = pairs.map((_, n) => {
      const dot = Object.assign(document.createElement("button"), { type: "button" });
      dot.addEventListener("click", () => go(n));
      return dot;
    });

    function note() {
      if (!$("pair").hidden) state.comments[pairs[state.at]?.ticket] = remark();
    }

    // Ask about one dimension of the pair.
    function ask(place) {
      on = place;
      const cell = cells[state.at][on];
      mark(voteOn(cell)?.choice);
      $("back").disabled = state.at === 0 && on === 0;
      if (!data.dimensions) return;
      $("asks").textContent = data.dimensions[cell.dimension][1];
      for (const rubric of rubrics) rubric.hidden = rubric.dataset.dimension !== cell.dimension;
      // The steps are made anew, and the current one is in sight.
      $("steps").replaceChildren(...cells[state.at].map((each, n) => {
        const step = Object.assign(document.createElement("button"), { type: "button", textContent: title(each) });
        const choice = voteOn(each)?.choice;
        if (choice) step.append(" ", Object.assign(document.createElement("b"), { textContent: short[choice] }));
        step.setAttribute("aria-label", `${title(each)}: ${choice ? words[choice] : "open"}`);
        if (n === on) step.setAttribute("aria-current", "step");
        step.addEventListener("click", () => ask(n));
        return step;
      }));
      $("steps").children[on].scrollIntoView({ block: "nearest", inline: "center" });
    }

    // Back to the dimension before, or to the last one of the pair before.
    function back() {
      if (on > 0) ask(on - 1);
      else go(state.at - 1, (cells[state.at - 1] || [""]).length - 1);
    }

    function guide() {
      const rubric = rubrics.find((each) => !each.hidden);
      if (!rubric) return;
      rubric.open = !rubric.open;
      if (rubric.open) rubric.scrollIntoView({ block: "center" });
    }

    function go(at, place = 0) {
      note();
      state.at = Math.max(0, Math.min(at, pairs.length));
      keep();
      progress();
      if (state.at === pairs.length) return end();
      const pair = pairs[state.at];
      before = Math.max(0, ...cells[state.at].map((cell) => voteOn(cell)?.seconds || 0));
      show(pair, "", state.comments[pair.ticket]);
      ask(place);
    }

    // The next dimension: the next that is open or, for a vote that was changed, the one after it.
    function following(fresh) {
      const here = cells[state.at];
      if (!fresh) return on + 1 < here.length ? on + 1 : -1;
      const open = here.map((_, n) => (on + 1 + n) % here.length).find((n) => !voteOn(here[n]));
      return open ?? -1;
    }

    function choose(choice) {
      const cell = cells[state.at][on];
      const fresh = !voteOn(cell);
      state.votes[cell.key] = { choice, seconds: Math.round((before + watch.read()) * 10) / 10 };
      const done = data.dimensions ? `${title(cell)}: ${words[choice]}` : words[choice];
      const next = following(fresh);
      if (next >= 0) {
        keep();
        progress();
        ask(next);
        say(`${done}. ${title(cells[state.at][next])}: ${$("asks").textContent}`);
        return;
      }
      const pair = Math.min(state.at + 2, pairs.length);
      say(`${done}. ${state.at + 1 < pairs.length ? `Pair ${pair} of ${pairs.length}.` : "That was the last pair."}`);
      go(state.at + 1);
    }

    function end() {
      note();
      keep();
      $("dots").hidden = true;
      $("progress").textContent = counted(pairs.length, "pair", "pairs");
      const skipped = all.filter((cell) => voteOn(cell)?.choice === "SKIP").length;
      const open = all.length - voted();
      const parts = [counted(voted() - skipped, "vote", "votes"), skipped && `${skipped} skipped`, open && `${open} still open`];
      $("text").value = file();
      $("sending").hidden = voted() === 0;
      finish(`${parts.filter(Boolean).join(", ")}.`);
    }

    function file() {
      const votes = cells.flatMap((each) => each.filter(voteOn).map((cell, n) => {
        const { ticket, digest } = cell.pair;
        const comment = n ? "" : state.comments[ticket] || "";
        return { ticket, digest, comment, ...voteOn(cell), ...(cell.dimension && { dimension: cell.dimension }) };
      }));
      const about = { ballot: data.ballot, content: sha256(source), copy: state.copy, voter: state.voter };
      const rows = votes.map(({ ticket, digest, choice, seconds, comment, dimension }) => [ticket, digest, choice, seconds.toFixed(1), comment, ...(dimension ? [dimension] : [])]);
      const message = [...Object.values(about), ...rows.flat()].join("\n");
      const sealed = { format: "arena_kit votes", version: 1, ...about, votes, seal: hmac($("data").dataset.seal, message) };
      return `${JSON.stringify(sealed, null, 1)}\n`;
    }

    function save() {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([file()], { type: "application/json" }));
      link.download = `votes-${data.ballot.slice(0, 8)}${slug(state.voter)}.json`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      leaving = false;
      say("The votes were saved as a file.");
    }

    const slug = (name) => {
      const kept = name.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "");
      return kept && `-${kept}`;
    };

    async function copy() {
      $("text").select();
      try {
        await navigator.clipboard.writeText($("text").value);
      } catch {
        document.execCommand("copy");
      }
      $("copy").textContent = "Copied";
      say("The votes were copied as text.");
    }

    function begin() {
      state.voter = $("voter").value.replace(/\s+/g, " ").trim();
      state.begun = true;
      go(state.at);
    }

    recall();
    $("dots").append(...dots);
    $("voter").value = data.voter || state.voter;
    $("voter").readOnly = Boolean(data.voter);
    $("progress").textContent = counted(pairs.length, "pair", "pairs");
    const done = state.at === pairs.length;
    if (state.begun) $("begin").textContent = done ? "To your votes" : `Go on at pair ${state.at + 1}`;
    $("back").addEventListener("click", back);
    $("onward")?.addEventListener("click", () => go(state.at + 1));
    $("guide")?.addEventListener("click", guide);
    $("finish").addEventListener("click", end);
    $("return").addEventListener("click", () => go(Math.min(state.at, pairs.length - 1)));
    $("save").addEventListener("click", save);
    $("copy").addEventListener("click", copy);
    window.addEventListener("beforeunload", (event) => {
      if (leaving && voted()) event.preventDefault();
    });
    const key = (name) => {
      if (name === "z") return back(), true;
      if (!data.dimensions || document.activeElement.closest("button, summary")) return false;
      if (name === "Enter") return go(state.at + 1), true;
      return name === "g" && (guide(), true);
    };
    return { begin, choose, key };
  }

  // Live: every vote is stored before the next pair comes

  function live() {
    let pair = null;
    let busy = false;

    class Refused extends Error {
      constructor(answer, status) {
        super(answer.message || `The server answered ${status}.`);
        this.code = answer.error || "";
      }
    }

    async function ask(path, body) {
      const answer = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
        credentials: "same-origin",
      }).catch(() => { throw new Error("The server cannot be reached; nothing is lost, try again."); });
      const values = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Refused(values, answer.status);
      return values;
    }

    let undoable = false;
    const controls = [...buttons, $("next"), $("begin"), $("more")];

    async function alone(work) {
      if (busy) return;
      busy = true;
      for (const each of controls) each.disabled = true;
      try {
        trouble("");
        await work();
      } catch (error) {
        await refused(error);
      } finally {
        busy = false;
        for (const each of controls) each.disabled = false;
        if ($("undo")) $("undo").disabled = !undoable;
        if (!$("after").hidden) $("next").focus({ preventScroll: true });
      }
    }

    async function refused(error) {
      if (error.code === "nothing_left") return finish(error.message);
      trouble(error.message);
      $("trouble").scrollIntoView({ block: "nearest" });
      if (["changed_content", "already_voted", "unknown_ticket", "expired_ticket", "foreign_ticket"].includes(error.code)) revealed(null);
    }

    function progress(votes) {
      const text = data.goal ? `${votes} of ${counted(data.goal, "vote", "votes")}` : `${counted(votes, "vote", "votes")} so far`;
      progressTo(data.goal && votes >= data.goal ? `${text}: all that were asked for; you may go on` : text, data.goal ? votes / data.goal : null);
    }

    async function next(path = "api/matchup") {
      pair = await ask(path, {});
      progress(pair.votes);
      $("choices").hidden = false;
      $("after").hidden = true;
      for (const id of ["name-a", "name-b", "reveal"]) $(id).textContent = "";
      for (const id of ["name-a", "name-b"]) $(id).hidden = true;
      show(pair);
      say(`Pair ${pair.votes + 1}.`);
    }

    async function undo() {
      await next("api/undo");
      undoable = false;
      say(`Your last vote was taken back. Pair ${pair.votes + 1}.`);
    }

    async function cast(choice) {
      const { ticket, digest } = pair;
      const answer = await ask("api/vote", { ticket, digest, choice, seconds: watch.read(), comment: remark() });
      undoable = true;
      mark(choice);
      progress(answer.votes);
      revealed(answer);
      if (!answer.model_a) await next();
    }

    function revealed(answer) {
      $("choices").hidden = true;
      $("after").hidden = false;
      const named = answer?.model_a;
      $("reveal").textContent = named ? `Stored. A was ${answer.model_a}, B was ${answer.model_b}.` : answer ? "Stored." : "";
      say($("reveal").textContent);
      for (const side of named ? ["a", "b"] : []) {
        $(`name-${side}`).textContent = answer[`model_${side}`];
        $(`name-${side}`).hidden = false;
      }
    }

    async function begin() {
      const token = new URLSearchParams(location.hash.slice(1)).get("token");
      await ask("api/enter", { token: token || "", voter: $("voter").value });
      if (token) history.replaceState(null, "", location.pathname);
      await next();
    }

    const further = () => alone(() => next());
    const takeBack = () => { if (undoable) alone(undo); };
    $("next").addEventListener("click", further);
    $("more").addEventListener("click", further);
    $("undo")?.addEventListener("click", takeBack);
    const choose = (choice) => { if ($("after").hidden) alone(() => cast(choice)); };
    const key = (name) => {
      if (name === "z") return takeBack(), true;
      return name === "Enter" && !$("after").hidden && (further(), true);
    };
    return { begin: () => alone(begin), choose, key };
  }

  // SHA-256 and HMAC (FIPS 180-4, RFC 2104): a browser has its own only on some addresses.

  const primes = (() => {
    const found = [];
    for (let n = 2; found.length < 64; n += 1) if (found.every((p) => n % p)) found.push(n);
    return found;
  })();
  const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0;
  const K = primes.map((p) => fraction(Math.cbrt(p)));
  const START = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));

  function digest(bytes) {
    const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6);
    padded.set(bytes);
    padded[bytes.length] = 0x80;
    const view = new DataView(padded.buffer);
    view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
    view.setUint32(padded.length - 4, bytes.length << 3);
    const turn = (x, n) => (x >>> n) | (x << (32 - n));
    const hash = Int32Array.from(START);
    const w = new Int32Array(64);
    for (let at = 0; at < padded.length; at += 64) {
      for (let i = 0; i < 16; i += 1) w[i] = view.getInt32(at + 4 * i);
      for (let i = 16; i < 64; i += 1) {
        const s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ (w[i - 15] >>> 3);
        const s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ (w[i - 2] >>> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
      }
      let [a, b, c, d, e, f, g, h] = hash;
      for (let i = 0; i < 64; i += 1) {
        const one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
        const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((value, i) => { hash[i] += value; });
    }
    const out = new DataView(new ArrayBuffer(32));
    hash.forEach((value, i) => out.setInt32(4 * i, value));
    return new Uint8Array(out.buffer);
  }

  const utf8 = (text) => new TextEncoder().encode(text);
  const hex = (bytes) => [...bytes].map((n) => n.toString(16).padStart(2, "0")).join("");
  const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
  const sha256 = (text) => hex(digest(utf8(text)));

  function hmac(key, text) {
    const block = new Uint8Array(64);
    block.set(utf8(key));
    const inner = digest(joined(block.map((n) => n ^ 0x36), utf8(text)));
    return hex(digest(joined(block.map((n) => n ^ 0x5c), inner)));
  }

  listen(data.ballot ? ballot() : live());
  performance.mark("arena-kit-ready");
})();
