// The switch of the theme, the key "/", and the lines between the columns of the layers.
"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("inspector-theme", root.dataset.theme); } catch { /* not kept */ }
    label();
  });
  document.addEventListener("keydown", (event) => {
    const field = document.getElementById("q");
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "/" && field && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  });

  const columns = document.getElementById("columns");
  if (!columns) return;
  const cards = new Map([...columns.querySelectorAll("[data-key]")].map((c) => [c.dataset.key, c]));
  const below = new Map([...cards].map(([key, card]) =>
    [key, card.dataset.on.split(" ").filter((name) => cards.has(name))]));
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "lines-between");
  svg.setAttribute("aria-hidden", "true");
  columns.prepend(svg);

  // All pairs that lead down from a card to what it rests on, and up to what rests on it.
  const pairsOf = (key) => {
    const pairs = [];
    const down = (from) => below.get(from).forEach((to) => { pairs.push([from, to]); down(to); });
    const up = (to) => below.forEach((ends, from) => {
      if (ends.includes(to)) { pairs.push([from, to]); up(from); }
    });
    down(key);
    up(key);
    return pairs;
  };
  const draw = (card) => {
    svg.replaceChildren();
    cards.forEach((one) => one.classList.remove("linked"));
    if (!card) return;
    const area = columns.getBoundingClientRect();
    for (const [from, to] of pairsOf(card.dataset.key).slice(0, 200)) {
      const [a, b] = [cards.get(from), cards.get(to)].map((c) => c.getBoundingClientRect());
      cards.get(from).classList.add("linked");
      cards.get(to).classList.add("linked");
      if (b.left < a.right) continue; // the columns lie below each other
      const [x1, y1] = [a.right - area.left, a.top + Math.min(a.height / 2, 40) - area.top];
      const [x2, y2] = [b.left - area.left, b.top + Math.min(b.height / 2, 40) - area.top];
      const middle = (x1 + x2) / 2;
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`);
      svg.append(path);
    }
  };
  const selected = columns.querySelector('[aria-current="true"]');
  draw(selected);
  cards.forEach((card) => {
    card.addEventListener("mouseenter", () => draw(card));
    card.addEventListener("mouseleave", () => draw(selected));
    card.addEventListener("focusin", () => draw(card));
    card.addEventListener("focusout", () => draw(selected));
  });
  addEventListener("resize", () => draw(selected));
})();
