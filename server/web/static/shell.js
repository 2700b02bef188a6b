// Header of every page: theme, and the key of the search; and a copy button on each `pre`.

import { copyable } from "./copy.js";

const THEMES = ["auto", "light", "dark"];
const root = document.documentElement;
const button = document.getElementById("theme");
const search = document.getElementById("search");

function tell() {
  const told = `Theme: ${root.dataset.theme ?? "auto"}`;
  button.title = told;
  button.querySelector("span").textContent = told;
}

button.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "auto") + 1) % THEMES.length];
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    localStorage.setItem("theme", next);
  } catch {} // the theme lasts as long as the page
  tell();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (search === null || event.target.closest("input, textarea, select, [contenteditable]")) return;
  event.preventDefault();
  search.focus();
});

tell();
copyable(document);
