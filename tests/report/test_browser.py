"""A browser looks at the pages of four papers with 260 claims, and at committed ones: as files,
wide and narrow, light and dark, by keyboard, printed.

It takes `uv sync --group browser` and a Chromium, Debian's (`apt-get install chromium`) or
Playwright's own.
"""

import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib import image

from fedrepro.report.statistics import estimate
from support.checkout import ROOT
from support.pages import LABELS, PAPERS, REPORTED, SAVES, build, first

sync = pytest.importorskip(
    "playwright.sync_api", reason="no Playwright here: uv sync --group browser"
)
PAGES = ("index.html", "fedmmd/index.html")
REPORTS = ROOT / "reports"
COMMITTED = (REPORTS / "index.html", REPORTS / "small/fedmax/index.html")


def place(page: str | Path) -> str:
    """The name of a page that is the same in every process: each has its own copy of what git
    tracks."""
    return str(page.relative_to(ROOT) if isinstance(page, Path) else page)


SHOWN = "[data-for]:visible"
THEIRS = f"Fig. 1a: {LABELS[1]}, in the paper"
# What sticks out of the page to the right, but for what scrolls within its own frame.
OVERHANG = """() => [...document.querySelectorAll("body *")]
  .filter((one) => !one.closest(".scroll > *, figure a > *, .skip, svg *, details:not([open])"))
  .filter((one) => one.getClientRects().length)
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5)
  .map((one) => one.outerHTML.slice(0, 90))"""
# The texts, and the marks of drawings that are part of the page, whose contrast to what lies behind
# them is below WCAG's AA: 4.5; of large letters and marks 3.
PALE = """() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const painted = (colors) => {
    context.clearRect(0, 0, 1, 1);
    for (const color of colors) { context.fillStyle = color; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const contrast = (behind, color) => {
    const both = [painted(behind), painted([...behind, color])].map(light);
    const [low, high] = both.sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  // a drawing that is opened alone has the page's background
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const paper = dark && document.contentType === "image/svg+xml" ? "#14171a" : "#fff";
  const found = new Set();
  for (const one of document.querySelectorAll("body *, svg *")) {
    if (one.closest("defs, metadata, style, clipPath") || !one.checkVisibility()) continue;
    const style = getComputedStyle(one), drawn = one instanceof SVGElement;
    const size = parseFloat(style.fontSize);
    const behind = [paper];
    for (let at = one; at; at = at.parentElement)
      behind.splice(1, 0, getComputedStyle(at).backgroundColor);
    const says = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const told = says || one.placeholder;
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const mark = drawn && one.matches("path, use, line, rect, circle");
    if (!told && !mark) continue;
    const hint = one.placeholder && !says;
    const ink = hint ? getComputedStyle(one, "::placeholder").color : style.color;
    const colors = mark
      ? [style.fill, style.stroke].filter((color) => color !== "none")
      : [drawn ? style.fill : ink];
    const contrasts = colors.map((color) => contrast(behind, color));
    const best = Math.max(...(colors.length ? contrasts : [21]));
    const name = `${one.tagName}.${one.className.baseVal ?? one.className}`;
    const text = (one.textContent || one.outerHTML).trim().slice(0, 90);
    if (best < (mark || large ? 3 : 4.5)) found.add(`${name} ${best.toFixed(2)}: ${text}`);
  }
  return [...found];
}"""
# The values with an interval that have no way to their runs: on the first page by the claim's,
# beside a table by its fold.
UNLINKED = """() => [...document.querySelectorAll("main *")]
  .filter((one) => [...one.childNodes].some(
    (node) => node.nodeType === 3 && /\\d\\s±\\s\\d/.test(node.data)))
  .filter((one) => {
    const around = one.closest("tbody[data-for], .short li, .findings td")
      ?? one.closest(".entry")?.querySelector(".remake");
    return !around?.querySelector("a[href*='#runs-'], a[href*='#claim-']");
  }).map((one) => one.outerHTML.slice(0, 90))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The pages of scale paper, and the curves of a paper at scale small."""
    scale = build(tmp_path_factory.mktemp("seen"), list(PAPERS))
    other = scale.parent / "small" / "fedmmd" / "curves.js"
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text(
        (scale / "fedmmd/curves.js").read_text().replace('"paper/fedmmd"', '"small/fedmmd"')
    )
    return scale


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with sync.sync_playwright() as playwright:
        named = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
        program = next((path for path in named if path), playwright.chromium.executable_path)
        if not os.path.exists(program):
            pytest.skip(
                "no Chromium here: apt-get install chromium, or playwright install chromium"
            )
        running = playwright.chromium.launch(executable_path=program)
        yield running
        running.close()


@pytest.fixture
def visit(browser, site) -> Iterator:
    """Opens a page of the site; at the end nothing was complained of, and nothing asked for but
    files that are there."""
    complaints, contexts = [], []

    def opened(name: str | Path, width: int = 1400, scheme: str = "light", script: bool = True):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=script,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "data:")) or complaints.append(request.url)
            ),
        )
        page.goto(name.as_uri() if isinstance(name, Path) else f"{site.as_uri()}/{name}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("name", [*PAGES, *COMMITTED], ids=place)
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_sticks_out(visit, name, width):
    page = visit(name, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERHANG) == []
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERHANG) == []


@pytest.mark.parametrize("width", [1150, 1400])
def test_every_answer_is_in_sight(visit, width):
    """A long one, such as of a target that some seeds miss, does not push others off the page."""
    region = visit(REPORTS / "index.html", width).locator(".scroll").first
    assert region.evaluate("(one) => one.scrollWidth - one.clientWidth") <= 0


@pytest.mark.parametrize("name", [*PAGES, *COMMITTED], ids=place)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(visit, name, scheme):
    page = visit(name, scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == {
        "light": "rgb(255, 255, 255)"
    }.get(scheme, "rgb(20, 23, 26)")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.evaluate(PALE) == []
    for button in page.locator("#the-filter button").all():
        button.click()
    assert page.evaluate(PALE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_forest_plot_can_be_read(visit, scheme):
    page = visit(REPORTS / "findings.svg", scheme=scheme)
    assert page.locator("text").count() > 10 and page.evaluate(PALE) == []


def edges(region) -> list[bool]:
    """Whether the left and the right edge of a region are shaded, above its texts."""
    row = image.imread(io.BytesIO(region.screenshot()))[2, :, :3]
    return [bool(abs(row[place] - row[len(row) // 2]).max() > 0.1) for place in (1, -2)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_wide_tables_show_that_they_go_on(visit, scheme):
    """By a shadow on the side where there is more; the arrow keys move the table."""
    page = visit(COMMITTED[1], 390, scheme)
    goes_on = "(one) => one.scrollWidth > one.clientWidth + 1"
    wide = [one for one in page.locator(".scroll:visible").all() if one.evaluate(goes_on)]
    assert len(wide) > 2
    for region in wide:
        assert region.get_attribute("tabindex") == "0" and region.get_attribute("aria-label")
    assert edges(wide[0]) == [False, True]
    wide[0].focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 9")
    assert edges(wide[0]) == [True, True]
    wide[0].evaluate("(one) => (one.scrollLeft = one.scrollWidth)")
    assert edges(wide[0]) == [True, False]


@pytest.mark.parametrize("name", COMMITTED, ids=place)
def test_wide_figures_scroll_instead_of_shrinking(visit, name):
    """Their letters stay as tall on a telephone as in print; the arrow keys move them."""
    page = visit(name, 390)
    figures = page.locator(".broad figure a, .forest a")
    assert figures.count()
    for figure in figures.all():
        figure.scroll_into_view_if_needed()
        assert figure.locator("img").bounding_box()["width"] >= 600
        figure.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.activeElement.scrollLeft > 9")


@pytest.mark.parametrize(
    "name", [*PAGES, *COMMITTED, REPORTS / "small/arena/index.html"], ids=place
)
def test_what_is_folded_is_printed(visit, name):
    page = visit(name, 718, "dark")  # what margins leave of A4
    page.emulate_media(media="print")
    hidden = (
        "(all) => all.filter((one) => !one.checkVisibility()).map((one) => "
        "one.outerHTML.slice(0, 90))"
    )
    assert (
        page.locator("main details > *, tbody[data-for], .entry, figure").evaluate_all(hidden) == []
    )
    assert not page.locator(".filter, .skip, .contents, .explore").filter(visible=True).count()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    assert page.evaluate(PALE) == []


@pytest.mark.parametrize(
    "name", sorted(REPORTS.glob("*/*/index.html")) + [REPORTS / "index.html"], ids=place
)
def test_values_lead_to_their_runs(visit, name):
    page = visit(name)
    assert page.evaluate(UNLINKED) == []
    assert name.parent.name in ("psi_net", "fedcl") or "±" in page.content()


@pytest.mark.parametrize(("name", "total"), [("index.html", 88), ("fedmmd/index.html", 22)])
def test_claims_are_found_by_words(visit, name, total):
    page = visit(name)
    count, field = page.locator("#the-count"), page.get_by_label("Find a claim")
    assert count.inner_text() == f"{total} claims"
    before = page.locator(SHOWN).count()
    field.fill("conv SAVES 64")
    assert count.inner_text() == f"{total // 22} of {total} claims"
    assert (
        page.locator(SHOWN).first.bounding_box()["y"]
        < (360 if name == "index.html" else 9999) + field.bounding_box()["y"]
    )
    assert [
        SAVES in text.replace("\xa0", " ") for text in page.locator(SHOWN).all_inner_texts()
    ] == [True] * (total // 22)
    field.fill("no such words")
    assert page.locator(SHOWN).count() == 0 and page.get_by_text("No matching claim.").is_visible()
    field.fill("")
    assert page.locator(SHOWN).count() == before and count.inner_text() == f"{total} claims"


@pytest.mark.parametrize("name", PAGES)
def test_claims_are_found_by_verdict(visit, name):
    """All buttons: what each shows are the claims with its verdict, as many as it says; two show
    the claims of both."""
    page = visit(name)
    buttons = page.locator("#the-filter button[data-verdict]")
    told = []
    for button in buttons.all():
        button.click()
        number, verdict = button.inner_text().split(" ", 1)
        shown = page.locator(SHOWN).evaluate_all("(all) => all.map((row) => row.dataset.verdict)")
        assert shown == [verdict] * int(number)
        told.append(int(number))
        button.click()
    buttons.nth(0).click()
    buttons.nth(1).click()
    assert page.locator(SHOWN).count() == sum(told[:2]) and len(told) == 2


def test_the_keyboard_reaches_the_filter(visit):
    page = visit("fedmmd/index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "the-words":
            break
    page.keyboard.type("saves 64")
    assert page.locator(SHOWN).count() == 1
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    pressed = page.locator("#the-filter button[aria-pressed=true]")
    assert pressed.count() == 1 and page.locator(SHOWN).count() == int(
        pressed.inner_text().split()[0]
    )
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_address_holds_the_filter(visit):
    page = visit("fedmmd/index.html")
    page.get_by_label("Find a claim").fill("claim 1")
    counted = page.locator("#the-filter button b").all_inner_texts()
    assert (
        sum(map(int, counted[:-2]))
        == sum(map(int, counted[-2:]))
        == page.locator(SHOWN).count()
        < 22
    )
    page.get_by_role("button", name="open").click()
    page.get_by_role("button", name="by the paper").click()
    shown = page.locator(SHOWN).evaluate_all("(all) => all.map((row) => row.id)")
    assert shown and "q=claim+1&verdict=open&by=the+paper#the-filter" in page.url
    again = visit(page.url.rsplit("/paper/", 1)[1])
    assert again.locator(SHOWN).evaluate_all("(all) => all.map((row) => row.id)") == shown
    page.get_by_role("button", name="by the paper").click()
    page.get_by_role("button", name="open").click()
    page.get_by_label("Find a claim").fill("")
    assert page.url.endswith("fedmmd/index.html")


def explore(page):
    page.locator("#fig1a .explore").click()
    page.locator("#fig1a .plot svg.marks").wait_for()
    return page.locator("#fig1a .chart")


def values(page, place: float) -> tuple[int, dict[str, str]]:
    """Point at the chart, at a share of its width: the round, and the text of each line there."""
    page.mouse.move(0, 0)
    area = page.locator("#fig1a .plot svg.marks .concat_0_group .background").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    page.mouse.move(box["x"] + place * box["width"], box["y"] + box["height"] / 2)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    rows = [row.locator("td").all_inner_texts() for row in tip.locator("tr").all()]
    assert "undefined" not in dict(rows).values()
    return int(tip.locator("b").inner_text().split()[1]), dict(rows)


def expected(label: str, round: int, smooth: int = 1, minus: str | None = None) -> str:
    """The mean of both seeds with its interval, in percent."""
    results = first()
    seeds = {seed: dict(curve) for seed, curve in results.curves(label, "test_accuracy").items()}
    base = (
        {seed: dict(curve) for seed, curve in results.curves(minus, "test_accuracy").items()}
        if minus
        else {}
    )
    rounds = range(round - smooth + 1, round + 1)
    numbers = [
        sum(100 * (curve[r] - (base[seed][r] if minus else 0)) for r in rounds) / smooth
        for seed, curve in seeds.items()
    ]
    found = estimate(numbers)
    return f"{found.mean:.2f} ± {found.half_width:.2f}".replace("-", "\N{MINUS SIGN}")


def test_the_chart_tells_the_values_of_a_round(visit):
    page = visit("fedmmd/index.html")
    assert page.evaluate("typeof vega") == "undefined"  # until it is asked for
    chart = explore(page)
    round, shown = values(page, 0.62)
    assert shown == {label: expected(label, round) for label in LABELS} | {
        THEIRS: f"{100 * REPORTED[1][round]:.2f}"
    }
    chart.get_by_label("logarithmic values").check()
    chart.locator(".plot").get_by_text("100 % minus test accuracy (%)").wait_for()
    round, shown = values(page, 0.62)
    assert shown[THEIRS] == f"{100 - 100 * REPORTED[1][round]:.2f}"
    chart.get_by_label("Difference from").select_option(LABELS[1])
    chart.locator(".plot").get_by_text(f"minus {LABELS[1]}'s").wait_for()
    chart.get_by_label("Smoothing").fill("4")
    round, shown = values(page, 0.3)
    assert shown == {
        label: expected(label, round, 4, LABELS[1]) for label in LABELS if label != LABELS[1]
    }


def test_series_the_papers_curve_and_seeds_are_shown_and_hidden(visit):
    page = visit("fedmmd/index.html")
    chart = explore(page)
    lines = chart.locator(".plot svg.marks .concat_0_group .mark-line path")
    assert lines.count() == 4
    chart.get_by_role("checkbox", name="in the paper").uncheck()
    chart.get_by_role("checkbox", name=LABELS[0]).uncheck()
    assert set(values(page, 0.5)[1]) == set(LABELS[1:]) and lines.count() == 2
    chart.get_by_role("checkbox", name=LABELS[0]).check()
    chart.get_by_label("Spread").select_option("seeds")
    assert set(values(page, 0.5)[1]) == set(LABELS)
    assert lines.count() == 3 + 6 and chart.locator(".plot svg.marks .mark-area path").count() == 0
    page.locator("#fig1a .explore").click()
    assert not chart.is_visible()


def test_a_figure_is_compared_with_others(visit):
    """And with itself at another scale; where a curve has no value, such as the paper's after its
    end, nothing is told."""
    page = visit("fedmmd/index.html")
    chart = explore(page)
    offered = chart.locator("[name=other] optgroup").evaluate_all(
        "(all) => all.map((one) => [one.label, ...[...one.children].map((option) => option.value)])"
    )
    assert offered == [["Scale paper"], ["Scale small", "small|first"]]
    chart.get_by_label("Compare with").select_option("small|first")
    chart.locator("fieldset").get_by_text("scale small").first.wait_for()
    for spread in ("interval", "seeds", ""):
        chart.get_by_label("Spread").select_option(spread)
        round, shown = values(page, 0.99)
        assert round == 20 and THEIRS not in shown and len(shown) == 2 * len(LABELS)
        assert all(text[0].isdigit() for text in shown.values())


def test_without_scripts_all_is_there_but_the_charts(visit):
    page = visit("fedmmd/index.html", script=False)
    assert not page.locator(".explore, .chart, #the-filter").filter(visible=True).count()
    assert page.locator("[data-for]").count() == 22 and page.locator("#fig1a img").is_visible()
    assert (
        page.locator("#claim-c3").is_visible() and page.locator("#the-coverage .gaps").is_visible()
    )
