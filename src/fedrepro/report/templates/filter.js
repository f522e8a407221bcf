// The filter of claims by words and verdicts, folds that open for what is looked for, and the place in the contents.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const named = (id) => document.getElementById(id);

  const reveal = () => {
    const target = named(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);

  const contents = document.querySelector(".contents details");
  if (contents && !matchMedia("(min-width: 64rem)").matches) contents.open = false;

  const filter = named("the-filter");
  if (filter) {
    const input = named("the-words"), buttons = all("#the-filter button"), asked = new URLSearchParams(location.search);
    const plain = (element) => element.textContent.toLowerCase().replace(/\s+/g, " ");
    const words = (element, parts) => [...element.querySelectorAll(parts)].map(plain).join(" ");
    const groups = all("[data-group]").map((element) => {
      return { element, words: `${words(element.closest("[data-part]"), "h2")} ${words(element, ".label, .name")}` };
    });
    const rows = all("[data-for]").map((row) => {
      const group = groups.find(({ element }) => element.id === row.dataset.for);
      return { row, group, words: `${group ? group.words : ""} ${plain(row)}`, verdict: row.dataset.verdict, by: row.dataset.by };
    });
    const folds = all("[data-fold]");
    let active = false;

    const update = () => {
      const sought = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const pressed = (what) => buttons.map((button) => button.ariaPressed === "true" && button.dataset[what]).filter(Boolean);
      const verdicts = pressed("verdict"), askers = pressed("by");
      const chips = verdicts.length || askers.length;
      const looks = Boolean(sought.length || chips);
      if (looks && !active) folds.forEach((fold) => (fold.before = fold.open));
      const stops = active && !looks;
      active = looks;
      const fits = (text) => sought.every((word) => text.includes(word));
      const kept = new Set();
      let count = 0;
      for (const { row, group, words: text, verdict, by } of rows) {
        const among = (chosen, own) => !chosen.length || chosen.includes(own);
        row.hidden = !(fits(text) && among(verdicts, verdict) && among(askers, by));
        if (!row.hidden) count += 1, kept.add(group);
      }
      for (const group of groups) group.element.hidden = !(kept.has(group) || (!chips && fits(group.words)));
      for (const table of all("table.claims")) table.hidden = !table.querySelector("tbody:not([hidden])");
      for (const fold of folds) {
        const found = fold.querySelector("[data-for]:not([hidden])");
        fold.hidden = active && !found && !fold.querySelector("[data-group]:not([hidden])");
        if (active) fold.open = Boolean(found);
        else if (stops) fold.open = fold.before;
      }
      for (const part of all("[data-part]")) part.hidden = active && !part.querySelector("[data-group]:not([hidden]), [data-for]:not([hidden])");
      named("the-count").value = active ? `${count} of ${rows.length} claims` : `${rows.length} claims`;
      named("the-nothing").hidden = count > 0;
    };
    const press = (button) => (button.ariaPressed = String(button.ariaPressed !== "true"));
    buttons.forEach((button) => button.addEventListener("click", () => (press(button), update())));
    buttons.filter(({ dataset }) => ["verdict", "by"].some((what) => asked.getAll(what).includes(dataset[what]))).forEach(press);
    input.value = asked.get("q") || "";
    input.addEventListener("input", update);
    filter.hidden = false;
    update();
  }

  const links = new Map(all(".contents a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(target.id).setAttribute("aria-current", "location");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  links.forEach((_, id) => seen.observe(named(id)));
  if (location.hash) reveal();
})();
