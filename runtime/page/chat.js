// The chat: one run for each message, its events shown as they come.
import { announce, api, byId, element, plain } from "/page/page.js";

const KEY = "breadcrumbs-runs";
const ENDINGS = {
  stalled: "The model hesitated and was not moved on.",
  max_rounds: "Stopped: too many rounds.",
  repeated_call: "Stopped: the same call again and again.",
  out_of_time: "Stopped: it took too long.",
  out_of_tokens: "Stopped: it wrote too much.",
  cancelled: "Stopped.",
};

let runs = [];
let live = null;

function remember(ids) {
  runs = ids;
  sessionStorage.setItem(KEY, JSON.stringify(ids));
}

function busy(run) {
  live = run;
  byId("send").hidden = run !== null;
  byId("stop").hidden = run === null;
}

function follow() {
  const log = byId("log");
  log.scrollTop = log.scrollHeight;
}

function ending(text, bad = false) {
  byId("log").append(element("p", bad ? "ending bad" : "ending", text));
  follow();
}

class Answer {
  constructor() {
    this.box = element("div", "answer");
    this.calls = new Map();
    this.paragraph = null;
    this.held = null;
    byId("log").append(this.box);
  }

  fold(className, summary) {
    const made = element("details", className);
    made.append(element("summary", "", summary));
    this.box.append(made);
    this.paragraph = null;
    return made;
  }

  text(event) {
    if (this.paragraph === null) {
      this.paragraph = element("p", "text", "");
      this.box.append(this.paragraph);
    }
    this.paragraph.textContent += plain(event.text);
  }

  think(event) {
    const line = event.text.split("\n", 1)[0].slice(0, 60);
    this.fold("think", `Thinking: ${plain(line)}…`).append(element("div", "", plain(event.text)));
  }

  tool_call(event) {
    const made = this.fold("tool", `${plain(event.name)} …`);
    made.append(element("pre", "", plain(event.arguments)));
    this.calls.set(event.id, [made, event]);
  }

  tool_result(event) {
    const [made, call] = this.calls.get(event.id);
    const { payload } = event;
    const about = payload.tool ? ` ${payload.tool}` : "";
    const state = payload.status ?? payload.layer ?? "answered";
    made.querySelector("summary").textContent = plain(`${call.name}${about}: ${state}`);
    made.append(element("pre", "", plain(JSON.stringify(payload, null, 2))));
    if (this.held !== null) this.held.textContent = plain(`Held for approval: ${state}`);
    this.held = null;
  }

  approval(event) {
    const line = element("p", "ending", `${plain(event.tool)} waits for approval. `);
    const link = element("a", "", "Look at it");
    link.href = `#card-${event.approval_id}`;
    line.append(link);
    this.box.append(line);
    this.held = line;
    this.paragraph = null;
  }

  nudge(event) {
    this.box.append(element("p", "faint", `nudged (${plain(event.kind)})`));
    this.paragraph = null;
  }
}

function watch(run) {
  const answer = new Answer();
  const source = new EventSource(`/v1/runs/${run}/events`);
  return new Promise((resolve) => {
    const over = () => {
      source.close();
      if (live === run) busy(null);
      resolve();
    };
    for (const kind of ["text", "think", "tool_call", "tool_result", "approval", "nudge"]) {
      source.addEventListener(kind, (message) => {
        answer[kind](JSON.parse(message.data));
        follow();
      });
    }
    source.addEventListener("done", (message) => {
      const done = JSON.parse(message.data);
      if (done.text) announce(plain(done.text));
      if (done.reason === "model_error") ending(plain(done.text), true);
      else if (ENDINGS[done.reason]) ending(ENDINGS[done.reason]);
      over();
    });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return; // it comes back by itself
      ending("The server no longer knows this run. What waits for approval is kept.", true);
      over();
    });
  });
}

async function send() {
  const input = byId("said").value.trim();
  if (!input || live !== null) return;
  busy("");
  try {
    const run = await api("/v1/runs", {
      method: "POST",
      body: { input, previous_run_id: runs.at(-1) ?? null },
    });
    byId("said").value = "";
    byId("log").append(element("p", "said", plain(input)));
    remember([...runs, run.id]);
    busy(run.id);
    watch(run.id);
  } catch (error) {
    busy(null);
    if (error.status === 404) remember([]);
    const more = error.status === 404 ? " The next message begins a new chat." : "";
    ending(`${error.message}.${more}`, true);
  }
}

async function restore() {
  for (const id of JSON.parse(sessionStorage.getItem(KEY) ?? "[]")) {
    try {
      const run = await api(`/v1/runs/${id}`);
      byId("log").append(element("p", "said", plain(run.input)));
      remember([...runs, id]);
      if (run.status === "running" || run.status === "waiting") busy(id);
      const watched = watch(id);
      if (live !== id) await watched;
    } catch (error) {
      remember([]);
      ending("The server was restarted; this chat is over. What waits for approval is kept.", true);
      return;
    }
  }
}

export function startChat() {
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  byId("said").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  });
  byId("stop").addEventListener("click", () => {
    if (live) api(`/v1/runs/${live}/cancel`, { method: "POST" });
  });
  byId("new").addEventListener("click", () => {
    remember([]);
    byId("log").replaceChildren();
    byId("said").focus();
  });
  restore();
}
