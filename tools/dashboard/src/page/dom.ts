// SPDX-License-Identifier: GPL-3.0-or-later
// Elements in one call. Texts from the daemon are inserted only as text.

export function element<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Record<string, string> = {},
    children: (Node | string)[] = [],
): HTMLElementTagNameMap[K] {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
}

export function setText(node: Node, text: string): void {
    if (node.textContent !== text) node.textContent = text;
}

/** A select whose choice is reported. Keyboard focus returns to the page, which has its own keys. */
export function choice(title: string, values: [string, string][], value: string, chosen: (value: string) => void): HTMLSelectElement {
    const options = values.map(([name, text]) => element("option", { value: name }, [text]));
    const made = element("select", { title, "aria-label": title }, options);
    made.value = value;
    made.onchange = () => {
        chosen(made.value);
        made.blur();
    };
    return made;
}

export function button(text: string, title: string, pressed: () => void): HTMLButtonElement {
    const made = element("button", { type: "button", title }, [text]);
    made.onclick = () => {
        pressed();
        made.blur();
    };
    return made;
}

/** Gives the canvas as many pixels as the screen shows. True: its size has changed. */
export function fitCanvas(canvas: HTMLCanvasElement, width: number, height: number): boolean {
    const [w, h] = [Math.max(1, Math.round(width * devicePixelRatio)), Math.max(1, Math.round(height * devicePixelRatio))];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    if (canvas.width === w && canvas.height === h) return false;
    canvas.width = w;
    canvas.height = h;
    return true;
}

export function colourOf(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Size of the page's letters in pixels; all drawings scale with it. */
export function letter_px(): number {
    return parseFloat(getComputedStyle(document.documentElement).fontSize);
}
