# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts of bench-page as SVG text: times over sizes, both axes logarithmic. The same figures give the same bytes, which
a test compares; libraries for charts do not promise that."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 470, 380, 58, 12, 34, 44
LINES = [("#7a7a7a", "6 4"), ("#a15c00", "6 4"), ("#0b6e4f", ""), ("#0b6e4f", "2 3"), ("#1f4e9c", "")]


def text(x, y, words, anchor="middle", more=""):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{words}</text>'


def panel(title, series, x0, low, high):
    """series: [(name, [(size, ms)])]; low and high: powers of ten of the vertical axis."""
    sizes = sorted({size for _, points in series for size, _ in points})
    first, last = math.log2(sizes[0]), math.log2(sizes[-1])

    def x(size):
        return x0 + LEFT + (WIDTH - LEFT - RIGHT) * (0.06 + 0.88 * (math.log2(size) - first) / max(last - first, 1))

    def y(ms):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(ms) - low) / (high - low)
    right = x0 + WIDTH - RIGHT
    parts = [text(x0 + WIDTH / 2, 20, title, more=' font-weight="bold"')]
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<path d="M{x0 + LEFT} {at:.1f}H{right}" stroke="#d9d9d9"/>')
        parts.append(text(x0 + LEFT - 6, at + 4, f"{10**power:g} ms" if power < 3 else f"{10**(power - 3):g} s", "end"))
    for size in sizes:
        parts.append(text(x(size), HEIGHT - BOTTOM + 18, str(size)))
    parts.append(text((x0 + LEFT + right) / 2, HEIGHT - 8, "sensors"))
    for (_, points), (colour, dash) in zip(series, LINES):
        path = "L".join(f"{x(size):.1f} {y(ms):.1f}" for size, ms in sorted(points))
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        if points:
            parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
        parts += [f'<circle cx="{x(size):.1f}" cy="{y(ms):.1f}" r="3" fill="{colour}"/>' for size, ms in sorted(points)]
    return parts


def legend(names, top):
    parts = []
    for i, (name, (colour, dash)) in enumerate(zip(names, LINES)):
        x, y = 40 + WIDTH * (i % 2), top + 20 * (i // 2)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<path d="M{x} {y - 4}h34" stroke="{colour}" stroke-width="2"{dashed}/>')
        parts.append(text(x + 42, y, name, "start"))
    return parts


def chart(panels):
    """panels: [(title, series)], with the same names in the same order in each."""
    values = [ms for _, series in panels for _, points in series for _, ms in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    names = [name for name, _ in panels[0][1]]
    width, height = WIDTH * len(panels), HEIGHT + 14 + 20 * ((len(names) + 1) // 2)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, (title, series) in enumerate(panels):
        lines += panel(title, series, WIDTH * i, low, high)
    return "\n".join(lines + legend(names, HEIGHT + 14) + ["</svg>"]) + "\n"
