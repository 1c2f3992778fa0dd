# SPDX-License-Identifier: Apache-2.0
"""Lines and steps over x and y, as SVG text, in the colours of src/analysis/svg.h."""
from html import escape

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 2", "10 4", ""]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 400, 64, 44, 24, 52


def ticks(low, high):
    """About six round numbers from low to high."""
    step = 1.0
    while (high - low) / step > 8:
        step *= 2 if f"{step:e}"[0] in "15" else 2.5
    while (high - low) / step < 4:
        step /= 2 if f"{step:e}"[0] in "12" else 2.5
    first = int(low / step)
    return [n * step for n in range(first, int(high / step) + 1) if n * step >= low]


def lines(title, x_label, y_label, series, y_max=None):
    """series: (name, [(x, y), ...]) each. Returns the document."""
    xs = [x for _, points in series for x, _ in points]
    low, high = min(xs), max(xs)
    top = y_max or 1.05 * max(y for _, points in series for _, y in points)

    def at(x, y):
        return (LEFT + (x - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="14">{escape(title)}</text>']
    for y in ticks(0, top):
        out.append(f'<path d="M{LEFT} {at(low, y)[1]:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{at(low, y)[1] + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in ticks(low, high):
        out.append(f'<text x="{at(x, 0)[0]:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="black"/>'
               f'<text x="{WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">{escape(x_label)}</text>'
               f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    for i, (name, points) in enumerate(series):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        path = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        if len(points) <= 20:
            out.extend('<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>'.format(*at(x, y), colour) for x, y in points)
        y = TOP + 6 + 16 * i
        out.append(f'<path d="M{WIDTH - RIGHT - 190} {y}h24" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
                   f'<text x="{WIDTH - RIGHT - 160}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def bars(title, y_label, groups, series, y_max=None):
    """groups: names below the axis; series: (name, [value of each group]) each. Returns the document."""
    top = y_max or 1.05 * max(y for _, values in series for y in values)
    width = (WIDTH - LEFT - RIGHT) / len(groups)
    each = 0.8 * width / len(series)

    def height(y):
        return y / top * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="14">{escape(title)}</text>']
    for y in ticks(0, top):
        at = HEIGHT - BOTTOM - height(y)
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y:g}</text>')
    for g, group in enumerate(groups):
        x = LEFT + width * g
        out.append(f'<text x="{x + width / 2:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(str(group))}</text>')
        for i, (_, values) in enumerate(series):
            out.append(f'<rect x="{x + 0.1 * width + i * each:.1f}" y="{HEIGHT - BOTTOM - height(values[g]):.1f}" '
                       f'width="{0.94 * each:.1f}" height="{height(values[g]):.1f}" fill="{COLOURS[i % len(COLOURS)]}"/>')
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="black"/>'
               f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    for i, (name, _) in enumerate(series):
        x = LEFT + (WIDTH - LEFT - RIGHT) * i / len(series)
        out.append(f'<rect x="{x:.0f}" y="{TOP - 17}" width="12" height="12" fill="{COLOURS[i % len(COLOURS)]}"/>'
                   f'<text x="{x + 17:.0f}" y="{TOP - 7}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])
