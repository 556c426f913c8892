// Any view as a picture: an SVG file that holds what is visible, and the same as PNG.

import { el, Surface } from "../ui/dom";
import * as format from "../ui/format";

/** What a canvas shows as shapes; as an image where these are too many, or nobody is to edit them. */
function drawingOf(canvas: HTMLCanvasElement, isVector: boolean): HTMLElement {
  const box = canvas.getBoundingClientRect();
  if (box.width === 0) return document.createElement("div");
  const vectors = isVector ? Surface.vectorsOf(canvas) : null;
  if (vectors !== null && !vectors.isTooMuch) {
    const drawing = document.createElement("div");
    // The canvas's own place in the layout.
    drawing.style.cssText = `width:${box.width}px;height:${box.height}px;line-height:0`;
    drawing.append(document.importNode(new DOMParser().parseFromString(vectors.svg(), "image/svg+xml").documentElement, true));
    return drawing;
  }
  const image = document.createElement("img");
  image.src = canvas.toDataURL();
  image.width = box.width;
  image.height = box.height;
  if (vectors === null) return image;
  const said = document.createElement("div");
  said.style.position = "relative";
  const note = el("span", { class: "as-image" }, `A picture: as shapes this drawing would have ${format.count(vectors.shapeCount)}.`);
  note.style.cssText = "position:absolute;left:0;bottom:0;padding:1px 4px;font-size:11px;background:var(--surface);color:var(--text)";
  said.append(image, note);
  return said;
}

/** Elements as they are, with what canvases show as shapes or images. */
function copyOf(element: HTMLElement, isVector: boolean): HTMLElement {
  const copy = element.cloneNode(true) as HTMLElement;
  const [drawn, empty] = [element.querySelectorAll("canvas"), copy.querySelectorAll("canvas")];
  drawn.forEach((canvas, at) => empty[at]!.replaceWith(drawingOf(canvas, isVector)));
  const [given, taken] = [element.querySelectorAll("input"), copy.querySelectorAll("input")];
  given.forEach((input, at) => (input.checked ? taken[at]!.setAttribute("checked", "") : undefined));
  const lists = copy.querySelectorAll("select");
  element.querySelectorAll("select").forEach((list, at) => lists[at]!.options[list.selectedIndex]?.setAttribute("selected", ""));
  return copy;
}

/** What is visible of an element, as SVG: drawings as shapes, or as images, which are drawn faster. Written as text: the page's policy lets no other style be part of a document. */
export function svgOf(element: HTMLElement, isVector: boolean): string {
  const { width, height } = element.getBoundingClientRect();
  const isDark = document.documentElement.dataset["theme"] === "dark";
  // The theme is that of the root element, which is another one in the picture.
  const style = [...document.querySelectorAll("style")]
    .map((sheet) => sheet.textContent)
    .join("\n")
    .replace(/:root\[data-theme="?dark"?\]/g, isDark ? ":root" : ":root.never")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;");
  const copy = new XMLSerializer().serializeToString(copyOf(element, isVector));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><foreignObject width="100%" height="100%"><body xmlns="http://www.w3.org/1999/xhtml"><style>${style}</style><div id="app">${copy}</div></body></foreignObject></svg>`;
}

async function pngOf(element: HTMLElement): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(element, false))}`;
  await image.decode();
  const scale = window.devicePixelRatio || 1;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(image.width * scale);
  canvas.height = Math.round(image.height * scale);
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, image.width, image.height);
  context.drawImage(image, 0, 0);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob === null ? reject(new Error("The browser could not draw it.")) : resolve(blob)), "image/png"));
}

function save(content: Blob, name: string): void {
  const link = el("a", { download: name });
  link.href = URL.createObjectURL(content);
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A control with two buttons: what is in `shown()` as a file. */
export function pictureButtons(shown: () => HTMLElement, name: () => string): HTMLElement {
  const failed = (error: Error) => window.alert(`The picture could not be made: ${error.message}`);
  const png = () => void pngOf(shown()).then((blob) => save(blob, `${name()}.png`), failed);
  const svg = () => save(new Blob([svgOf(shown(), true)], { type: "image/svg+xml" }), `${name()}.svg`);
  return el(
    "span",
    { class: "segmented", role: "group", "aria-label": "Save this view as a picture" },
    el("button", { type: "button", title: "Save this view as PNG", "data-save": "png", onclick: png }, "PNG"),
    el("button", { type: "button", title: "Save this view as SVG", "data-save": "svg", onclick: svg }, "SVG"),
  );
}
