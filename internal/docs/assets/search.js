// The search of the documentation. A section is found if it has every word; words in headings and
// titles count more than those in the text. The index is loaded when the field gets the focus.
"use strict";

const form = document.getElementById("search");
const field = form.querySelector("input");
const list = document.getElementById("found");
const most = 20;
let rows; // of the index: a promise

form.hidden = false;

async function load() {
  const answer = await fetch("search.json");
  const found = await answer.json();
  return found.map(([page, title, anchor, heading, text]) => ({
    page, title, anchor, heading, text, head: (title + " " + heading).toLowerCase(), body: text.toLowerCase(),
  }));
}

// score returns how well a section fits the words; 0 if a word is missing.
function score(row, words) {
  let sum = 0;
  for (const word of words) {
    const inHead = row.head.includes(word), inBody = row.body.includes(word);
    if (!inHead && !inBody) return 0;
    sum += (inHead ? 10 : 0) + (row.heading.toLowerCase() === word ? 20 : 0) + (inBody ? 1 : 0);
  }
  return sum;
}

// excerpt adds the text around the first word to a node, with the word marked.
function excerpt(node, row, words) {
  const at = words.map((word) => [row.body.indexOf(word), word.length]).filter(([i]) => i >= 0).sort((a, b) => a[0] - b[0])[0];
  if (!at) {
    node.append(row.text.slice(0, 120));
    return;
  }
  const [begin, length] = at, from = Math.max(0, begin - 50);
  const mark = document.createElement("mark");
  mark.textContent = row.text.slice(begin, begin + length);
  node.append((from > 0 ? "…" : "") + row.text.slice(from, begin), mark, row.text.slice(begin + length, begin + length + 90));
}

async function search() {
  const text = field.value, words = text.toLowerCase().split(/\s+/).filter(Boolean);
  rows ??= load();
  let all;
  try {
    all = await rows;
  } catch {
    rows = undefined;
    say("The index cannot be loaded. Does trl docs still run?");
    return;
  }
  if (text !== field.value) return; // a later search is under way
  const found = words.length === 0 ? [] : all.map((row) => [score(row, words), row]).filter(([n]) => n > 0)
    .sort((a, b) => b[0] - a[0]).slice(0, most);
  list.replaceChildren(...found.map(([, row]) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const head = document.createElement("b"), rest = document.createElement("small");
    link.href = row.page + ".html" + (row.anchor ? "#" + row.anchor : "");
    head.textContent = row.heading ? row.title + " › " + row.heading : row.title;
    excerpt(rest, row, words);
    link.append(head, rest);
    item.append(link);
    return item;
  }));
  list.hidden = words.length === 0;
  if (words.length > 0 && found.length === 0) say("No page has all of these words.");
}

// say shows a sentence in place of results.
function say(text) {
  const line = document.createElement("p");
  line.textContent = text;
  list.replaceChildren(line);
  list.hidden = false;
}

field.addEventListener("focus", () => { rows ??= load(); rows.catch(() => {}); }); // search reports a failure
field.addEventListener("input", search);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
list.addEventListener("click", () => { list.hidden = true; }); // the link may be on this page

// move moves the focus through the field and the links.
function move(step) {
  const stops = [field, ...list.querySelectorAll("a")];
  stops[stops.indexOf(document.activeElement) + step]?.focus();
}

document.addEventListener("keydown", (event) => {
  const inside = form.contains(event.target);
  if (event.key === "/" && !inside && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.select();
    field.focus();
  } else if (inside && event.key === "Escape") {
    list.hidden = true;
    field.focus();
  } else if (inside && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  }
});
document.addEventListener("click", (event) => { if (!form.contains(event.target)) list.hidden = true; });
