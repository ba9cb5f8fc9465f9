// Before the first paint: the theme that was chosen here, else the system's.
"use strict";
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("inspector-theme"); } catch { /* storage is switched off */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
