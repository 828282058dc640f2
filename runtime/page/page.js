// The page: who is here, and which parts they may use. Texts are only ever set as text.
import { startChat } from "/page/chat.js";
import { startApprovals } from "/page/approvals.js";

export const byId = (id) => document.getElementById(id);

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// What an eye would miss is written out, as the terminal does it.
export function plain(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) =>
    char === "\n" || char === "\t" ? char : `\\u{${char.codePointAt(0).toString(16)}}`);
}

export function announce(text) {
  byId("news").textContent = text;
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function api(path, { method = "GET", body, headers = {} } = {}) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  if (body !== undefined) headers = { ...headers, "Content-Type": "application/json" };
  const answer = await fetch(path, { method, headers, ...sent });
  if (answer.status === 204) return null;
  const found = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, found.error.message);
  return found;
}

function open(session) {
  byId("sign-in").hidden = true;
  byId("desk").hidden = false;
  byId("who").textContent = session.caller === "local" ? "this machine" : session.caller;
  byId("leave").hidden = session.caller === "local";
  const chats = session.scopes.includes("chat");
  byId("chat").hidden = !chats;
  byId("new").hidden = !chats;
  byId("desk").classList.toggle("only-approvals", !chats);
  startApprovals(session.scopes.some((scope) => scope.startsWith("approve")));
  if (chats) startChat();
}

async function enter() {
  try {
    open(await api("/v1/session"));
  } catch (error) {
    byId("sign-in").hidden = false;
    if (error.status === 401) byId("key").focus();
    else byId("key-error").textContent = error.message;
  }
}

byId("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const headers = { Authorization: `Bearer ${byId("key").value}` };
  try {
    const session = await api("/v1/session", { method: "POST", headers });
    byId("key").value = "";
    open(session);
  } catch (error) {
    byId("key-error").textContent = error.message;
  }
});

byId("leave").addEventListener("click", async () => {
  await api("/v1/session", { method: "DELETE" }).catch(() => null); // it may have run out
  sessionStorage.clear();
  location.reload();
});

enter();
