// API reference: the vendored Swagger UI, in the theme of the page.

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => root.classList.toggle("dark-mode", root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

dark.addEventListener("change", paint);
new MutationObserver(paint).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
paint();

SwaggerUIBundle({ url: "/docs/openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null, docExpansion: "list", defaultModelsExpandDepth: 0 });
