"use strict";
// Sorting and filtering of tables. The page is whole without them.

// The number that a cell begins with, thousands separators left out; null for words and for dates.
const numberOf = text => {
  const match = text.replace(/,/g, "").match(/^-?[0-9.]+(e-?[0-9]+)?(?![0-9.]*-[0-9])/);
  return match ? Number(match[0]) : null;
};

// Cells without a value: they are last in either direction.
const missing = text => text === "" || /^[\u2013\u2014-]($|\s)/.test(text);

// Numbers by value, then words by the alphabet.
const compare = (a, b) => {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== null && y !== null) return x - y;
  if (x !== null) return -1;
  return y !== null ? 1 : a.localeCompare(b);
};

const sort = (table, column, sign) => {
  const text = row => row.cells[column].textContent.trim();
  const order = (a, b) => missing(a) - missing(b) || (missing(a) ? 0 : sign * compare(a, b));
  const rows = [...table.tBodies[0].rows].sort((a, b) => order(text(a), text(b)));
  table.tBodies[0].append(...rows);
};

for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    sort(head.closest("table"), head.cellIndex, descending ? -1 : 1);
  });
}

for (const field of document.querySelectorAll("input[type=search]")) {
  field.closest(".filter").hidden = false;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of document.getElementById(field.dataset.table).tBodies[0].rows)
      row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
  });
}

// A link to a folded part unfolds it.
const unfold = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && target.closest("details");
  if (fold) {
    fold.open = true;
    target.scrollIntoView();
  }
};
window.addEventListener("hashchange", unfold);
unfold();

// What is folded on the screen is unfolded on paper.
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
});
