"""Draws the suites' pictures as SVG: bars for columns, lines for courses. Plain shapes and text, so that a change of
a figure is a readable change of the file.
"""

import html
import math

WIDTH = 960
FONT = "font-family='Helvetica, Arial, sans-serif' font-size"
INK, FAINT = "#222", "#ddd"
# By name, the same in all pictures (Okabe and Ito's colours, which everybody can tell apart).
COLOURS = {"none": "#000000", "noop": "#999999", "otel-sdk": "#E69F00", "otel-agent": "#D55E00", "brave": "#0072B2",
           "skywalking": "#CC79A7", "spanwise": "#009E73", "zero-code": "#56B4E9"}


def colour(name):
    return COLOURS.get(name, "#0072B2")


def text(x, y, said, size=12, anchor="start", fill=INK):
    return f"<text x='{x:.1f}' y='{y:.1f}' {FONT}='{size}' text-anchor='{anchor}' fill='{fill}'>{html.escape(said)}</text>"


def line(x1, y1, x2, y2, stroke=INK, width=1):
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{stroke}' stroke-width='{width}'/>"


def short(value):
    """A figure with three digits."""
    if value == 0:
        return "0"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def document(title, height, parts):
    return "\n".join([
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}' role='img' aria-label='{html.escape(title)}'>",
        f"<rect width='{WIDTH}' height='{height:.0f}' fill='white'/>", text(16, 28, title, 17), *parts, "</svg>"]) + "\n"


def bars(title, rows):
    """Rows of panels. A panel: (title, [(name, title, value or None, error, what is said in its place)])."""
    bar, gap, left = 18, 5, 150
    parts, y = [], 52
    for panels in rows:
        width = WIDTH / len(panels)
        tallest = 0
        for place, (name, columns) in enumerate(panels):
            x = place * width
            parts.append(text(x + 16, y, name, 13))
            most = max((value + error for _, _, value, error, _ in columns if value is not None), default=1) or 1
            room = width - left - 84
            for index, (key, label, value, error, said) in enumerate(columns):
                top = y + 10 + index * (bar + gap)
                parts.append(text(x + left - 6, top + bar - 5, label, 11, "end"))
                if value is None:
                    parts.append(text(x + left, top + bar - 5, said, 11, fill="#777"))
                    continue
                long = value / most * room
                parts.append(f"<rect x='{x + left:.1f}' y='{top}' width='{max(long, 1):.1f}' height='{bar}' fill='{colour(key)}'/>")
                if error:
                    ends = (max(value - error, 0) / most * room, (value + error) / most * room)
                    parts.append(line(x + left + ends[0], top + bar / 2, x + left + ends[1], top + bar / 2, "#555", 2))
                parts.append(text(x + left + max(long, (value + error) / most * room) + 5, top + bar - 5, said, 11))
            tallest = max(tallest, len(columns) * (bar + gap))
        y += tallest + 44
    return document(title, y, parts)


def ticks(low, high, log):
    if log:
        return [10.0 ** power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    step = 10 ** math.floor(math.log10((high - low) / 4 or 1))
    step *= next(times for times in (1, 2, 5, 10) if (high - low) / (step * times) <= 5)
    return [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def lines(title, panels, log_x=False, log_y=False, titles=None):
    """Panels side by side. A panel: (title, name of x, name of y, {series: [(x, y)]})."""
    width, height = WIDTH / len(panels), 300
    parts, names = [], []
    for place, (name, x_name, y_name, series) in enumerate(panels):
        points = [point for course in series.values() for point in course if point[1] is not None]
        if not points:
            continue
        left, right, top, bottom = place * width + 62, (place + 1) * width - 20, 70, 70 + height
        x_scale = scale([x for x, _ in points], left, right, log_x)
        y_scale = scale([y for _, y in points] + ([] if log_y else [0]), bottom, top, log_y)
        parts += [text(place * width + 16, 54, name, 13), text((left + right) / 2, bottom + 36, x_name, 12, "middle"),
                  text(left - 46, top - 4, y_name, 11)]
        for tick in ticks(*y_scale.ends, log_y):
            if y_scale.ends[0] <= tick <= y_scale.ends[1]:
                parts += [line(left, y_scale(tick), right, y_scale(tick), FAINT), text(left - 6, y_scale(tick) + 4, short(tick), 11, "end")]
        for tick in sorted({x for x, _ in points}) if len({x for x, _ in points}) <= 8 else ticks(*x_scale.ends, log_x):
            parts.append(text(x_scale(tick), bottom + 16, short(tick), 11, "middle"))
        parts += [line(left, bottom, right, bottom), line(left, top, left, bottom)]
        for key, course in series.items():
            if key not in names:
                names.append(key)
            path = [(x_scale(x), y_scale(y)) for x, y in course if y is not None]
            stroke = colour(key) if key in COLOURS else list(COLOURS.values())[names.index(key) % len(COLOURS)]
            parts.append(f"<polyline fill='none' stroke='{stroke}' stroke-width='2' points='"
                         + " ".join(f"{x:.1f},{y:.1f}" for x, y in path) + "'/>")
            parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{stroke}'/>" for x, y in path]
    x = 16
    for index, key in enumerate(names):
        said = (titles or {}).get(key, str(key))
        stroke = colour(key) if key in COLOURS else list(COLOURS.values())[index % len(COLOURS)]
        parts += [line(x, 432, x + 20, 432, stroke, 3), text(x + 26, 436, said, 12)]
        x += 44 + 7 * len(said)
    return document(title, 450, parts)


def scale(values, begin, end, log):
    """From values to places. Its `ends` are the least and the greatest value that it shows."""
    place = math.log10 if log else float
    low, high = min(values), max(values)
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
    if not log:
        high += (high - low) * 0.05

    def at(value):
        return begin + (place(value) - place(low)) / (place(high) - place(low)) * (end - begin)

    at.ends = (low, high)
    return at
