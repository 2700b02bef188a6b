// A button beside each `pre` that copies its text.

const SHOWN_MS = 1500;

// Give each `pre` under a node its button, once; also before the node is shown.
export function copyable(node) {
  for (const text of node.querySelectorAll("pre")) {
    if (text.parentElement.classList.contains("snippet")) continue;
    const around = document.createElement("div");
    const button = document.createElement("button");
    around.className = "snippet";
    Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
    text.tabIndex = 0; // a wide text scrolls by keys
    text.replaceWith(around);
    around.append(text, button);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button.copy");
  if (!button) return;
  const text = button.parentElement.querySelector("pre");
  let told = "Copied";
  try {
    await navigator.clipboard.writeText(text.textContent.trim());
  } catch {
    getSelection().selectAllChildren(text); // without https, browsers have no clipboard
    told = document.execCommand("copy") ? "Copied" : "Selected";
  }
  button.textContent = told;
  setTimeout(() => { button.textContent = "Copy"; }, SHOWN_MS);
});
