// What waits for a person. Every text of a card was drawn by the gateway from the stored row.
import { announce, api, byId, element } from "/page/page.js";

const EVERY_MS = 1500;
const WAIT_MS = 500; // so that a click meant for something else decides nothing
const LONG = 4000; // characters after which the end must have been shown
const KEPT_OUTCOMES = 5;
const cards = new Map();
let mayDecide = false;

function clock(seconds) {
  const rest = String(seconds % 60).padStart(2, "0");
  return `${Math.floor(seconds / 60)}:${rest} left`;
}

class Card {
  constructor(row) {
    const { display } = row;
    this.id = row.approval_id;
    this.name = display.tool;
    this.ends = performance.now() + display.seconds_left * 1000;
    this.ready = false;
    this.shown = display.characters <= LONG;
    this.box = element("article", `card ${display.risk}`);
    this.box.id = `card-${this.id}`;
    this.box.tabIndex = -1;
    const title = element("h3", "", `${display.tool} `);
    title.id = `title-${this.id}`;
    title.append(element("span", "risk", display.risk));
    this.box.setAttribute("aria-labelledby", title.id);
    this.box.append(title, element("p", "faint", `for ${display.principal}`), this.list(display));
    for (const note of display.notes) this.box.append(element("p", "careful", `careful: ${note}`));
    this.left = element("p", "left");
    this.left.setAttribute("role", "timer");
    this.problem = element("p", "careful");
    this.problem.setAttribute("role", "alert");
    this.box.append(this.left);
    this.challenge = row.challenge;
    if (mayDecide) this.buttons(row);
    this.box.append(this.problem);
    setTimeout(() => { this.ready = true; this.tick(); }, WAIT_MS);
    this.tick();
  }

  list(display) {
    const list = element("dl", "arguments");
    list.tabIndex = 0;
    list.setAttribute("aria-label", `What ${display.tool} is called with`);
    for (const { name, value } of display.arguments) {
      list.append(element("dt", "", name), element("dd", "", value));
    }
    if (!display.arguments.length) list.append(element("dd", "", "no arguments"));
    list.classList.toggle("folded", !this.shown);
    this.arguments = list;
    return list;
  }

  buttons(row) {
    if (!this.shown) {
      const all = element("button", "", `Show all ${row.display.characters} characters`);
      all.type = "button";
      all.addEventListener("click", () => {
        this.arguments.classList.remove("folded");
        all.remove();
        setTimeout(() => { this.shown = true; this.tick(); }, WAIT_MS);
      });
      this.box.append(all);
    }
    const line = element("div", "decide");
    this.approve = element("button", "approve", "Approve");
    this.deny = element("button", "deny", "Deny");
    for (const [button, approve] of [[this.approve, true], [this.deny, false]]) {
      button.type = "button";
      button.setAttribute("aria-label", `${button.textContent} ${this.name}`);
      button.addEventListener("click", () => this.decide(approve));
      line.append(button);
    }
    this.box.append(line);
  }

  get seconds() {
    return Math.max(0, Math.round((this.ends - performance.now()) / 1000));
  }

  tick() {
    const { seconds } = this;
    this.left.textContent = seconds ? clock(seconds) : "expired";
    if (!mayDecide) return;
    this.approve.disabled = !this.ready || !this.shown || !seconds;
    this.deny.disabled = !this.ready || !seconds;
  }

  async decide(approve) {
    this.ready = false;
    this.tick();
    try {
      const body = { approve, challenge: this.challenge };
      const path = `/v1/approvals/${this.id}`;
      outcome(this, (await api(path, { method: "POST", body })).status);
    } catch (error) {
      this.problem.textContent = error.message;
      this.ready = true;
      this.tick();
    }
  }

  leave() {
    const inside = this.box.contains(document.activeElement);
    this.box.remove();
    cards.delete(this.id);
    if (inside) byId("approvals").focus();
  }
}

function outcome(card, state) {
  card.leave();
  const line = `${card.name}: ${state}`;
  byId("outcomes").prepend(element("li", "", line));
  while (byId("outcomes").children.length > KEPT_OUTCOMES) byId("outcomes").lastChild.remove();
  announce(line);
  count();
}

function count() {
  byId("count").textContent = cards.size ? `(${cards.size})` : "";
  byId("nothing").hidden = cards.size > 0;
  byId("desk").classList.toggle("quiet", cards.size === 0);
  document.title = cards.size ? `(${cards.size}) breadcrumbs` : "breadcrumbs";
}

async function look() {
  const rows = (await api("/v1/approvals")).data;
  const waiting = new Set(rows.map((row) => row.approval_id));
  for (const row of rows) {
    const known = cards.get(row.approval_id);
    if (known) {
      known.challenge = row.challenge; // a restarted server may have other keys
      continue;
    }
    const card = new Card(row);
    cards.set(row.approval_id, card);
    byId("cards").append(card.box);
    announce(`Approval needed: ${card.name}, ${row.display.risk}`);
  }
  for (const [id, card] of [...cards]) {
    if (waiting.has(id)) continue;
    const row = await api(`/v1/approvals/${id}`).catch(() => ({ state: "no longer here" }));
    if (cards.has(id)) outcome(card, row.state);
  }
  count();
}

async function watch() {
  let lost = false;
  for (;;) {
    try {
      await look();
      lost = false;
    } catch (error) {
      if (error.status === 401) return location.reload();
      if (!lost) announce("The server cannot be reached.");
      lost = true;
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

async function point() {
  const [, id] = location.pathname.match(/^\/approve\/([\w-]+)$/) ?? [];
  if (id === undefined) return;
  try {
    const row = await api(`/v1/approvals/${id}`);
    if (row.state !== "pending") {
      byId("outcomes").prepend(element("li", "", `${row.display.tool}: ${row.state}`));
      return;
    }
    await look();
    cards.get(id)?.box.focus();
  } catch (error) {
    byId("outcomes").prepend(element("li", "", error.message));
  }
}

export async function startApprovals(decides) {
  mayDecide = decides;
  setInterval(() => cards.forEach((card) => card.tick()), 1000);
  await point();
  watch();
}
