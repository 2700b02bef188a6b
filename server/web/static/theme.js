// The chosen theme, before the first paint: "light", "dark", or none for the one of the system.

document.documentElement.classList.add("scripted");
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {} // a browser may forbid storage; the theme is then the one of the system
