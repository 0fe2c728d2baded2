// SPDX-License-Identifier: GPL-3.0-or-later
// A table whose rows can be chosen by the mouse and the keyboard.
import { element, setText } from "../dom.js";

export interface Head {
    head: string;
    title: string;
    left?: boolean;
    name?: string; // class of its cells
}

export interface TableRow {
    id: number;
    cells: string[];
    classes: string;
}

export class Table {
    readonly root: HTMLElement;
    private body = element("tbody");
    private drawn = "";
    private rows = new Map<number, HTMLElement>(); // by id

    /** `attribute` of each row has its id. */
    constructor(
        private readonly heads: readonly Head[],
        private readonly attribute: string,
        private readonly chosen: (id: number) => void,
    ) {
        const cells = heads.map((h) => element("th", { title: h.title, class: h.left ? "left" : "" }, [h.head]));
        this.root = element("table", {}, [element("thead", {}, [element("tr", {}, cells)]), this.body]);
    }

    /** `why`: the text in place of rows, if there are none. */
    draw(rows: TableRow[], why: string): void {
        const key = JSON.stringify([rows, why]);
        if (key === this.drawn) return;
        this.drawn = key;
        this.show(rows.map((row) => this.row(row)), why);
    }

    /** Rows are kept and moved only if their order has changed, because a finger or the focus may be on one. */
    private show(rows: HTMLElement[], why: string): void {
        for (const [id, row] of this.rows) if (!rows.includes(row)) this.rows.delete(id);
        if (rows.length === 0) rows = [element("tr", {}, [element("td", { class: "left", colspan: String(this.heads.length) }, [why])])];
        if (rows.length === this.body.children.length && rows.every((row, i) => this.body.children[i] === row)) return;
        const { activeElement } = document;
        this.body.replaceChildren(...rows);
        if (rows.some((row) => row === activeElement)) (activeElement as HTMLElement).focus();
    }

    private row({ id, cells, classes }: TableRow): HTMLElement {
        let row = this.rows.get(id);
        if (!row) this.rows.set(id, (row = this.makeRow(id)));
        row.className = classes;
        cells.forEach((text, i) => setText(row.children[i], text));
        return row;
    }

    private makeRow(id: number): HTMLElement {
        const cells = this.heads.map((h) => element("td", { class: `${h.left ? "left " : ""}${h.name ?? ""}`.trim() }));
        const row = element("tr", { [this.attribute]: String(id), tabindex: "0", title: "follow" }, cells);
        row.onclick = () => this.chosen(id);
        row.onkeydown = (event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            row.click();
        };
        return row;
    }
}
