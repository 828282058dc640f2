"use strict";
// Sorts a table's rows inside each of its bodies by the column whose head was chosen.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = [...table.querySelectorAll("th[data-sort]")];
  const choose = (head) => {
    const down = head.getAttribute("aria-sort") !== "descending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const column = head.cellIndex;
    const value = (row) => {
      const text = row.cells[column].dataset.value;
      return text === undefined || text === "" ? null : Number(text);
    };
    for (const body of table.tBodies) {
      if (body.className === "name") continue;
      const rows = [...body.rows].sort((a, b) => {
        const [left, right] = [value(a), value(b)];
        if (left === null || right === null) return (left === null) - (right === null);
        return down ? right - left : left - right;
      });
      body.append(...rows);
    }
  };
  for (const head of heads) {
    head.tabIndex = 0;
    head.addEventListener("click", () => choose(head));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(head); }
    });
  }
}
// Opens the transcripts that a number counts, the rarer answer first: what went otherwise.
for (const button of document.querySelectorAll("button.open")) {
  button.addEventListener("click", () => {
    const box = document.getElementById(button.dataset.open);
    const figure = button.dataset.figure;
    const has = (item, key) => item.dataset[key].split(" ").includes(figure);
    const items = [...box.querySelectorAll(".transcript")];
    const [no, yes] = ["no", "yes"].map((key) => items.filter((item) => has(item, key)));
    items.forEach((item) => { item.hidden = !no.includes(item) && !yes.includes(item); });
    const fewFirst = no.length <= yes.length ? [...no, ...yes] : [...yes, ...no];
    box.append(...fewFirst);
    box.querySelector(".filter").textContent = `${figure}: ${yes.length} yes, ${no.length} no`;
    box.open = true;
    box.querySelector("summary").focus();
    box.scrollIntoView({ block: "start" });
  });
}
// Closing a box shows everything in it again.
for (const box of document.querySelectorAll(".box")) {
  box.addEventListener("toggle", () => {
    if (box.open) return;
    box.querySelectorAll(".transcript").forEach((item) => { item.hidden = false; });
    box.querySelector(".filter").textContent = "";
  });
}
