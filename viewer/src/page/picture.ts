// Any view as a picture: an SVG file that holds what is visible, and the same as PNG.

import { el } from "../ui/dom";

/** Elements as they are, with what canvases show as images. */
function copyOf(element: HTMLElement): HTMLElement {
  const copy = element.cloneNode(true) as HTMLElement;
  const [drawn, empty] = [element.querySelectorAll("canvas"), copy.querySelectorAll("canvas")];
  drawn.forEach((canvas, at) => {
    const image = document.createElement("img");
    const box = canvas.getBoundingClientRect();
    if (box.width > 0) image.src = canvas.toDataURL();
    image.width = box.width;
    image.height = box.height;
    empty[at]!.replaceWith(image);
  });
  const [given, taken] = [element.querySelectorAll("input"), copy.querySelectorAll("input")];
  given.forEach((input, at) => (input.checked ? taken[at]!.setAttribute("checked", "") : undefined));
  const lists = copy.querySelectorAll("select");
  element.querySelectorAll("select").forEach((list, at) => lists[at]!.options[list.selectedIndex]?.setAttribute("selected", ""));
  return copy;
}

/** What is visible of an element, as SVG. Written as text: the page's policy lets no other style be part of a document. */
export function svgOf(element: HTMLElement): string {
  const { width, height } = element.getBoundingClientRect();
  const isDark = document.documentElement.dataset["theme"] === "dark";
  // The theme is that of the root element, which is another one in the picture.
  const style = [...document.querySelectorAll("style")]
    .map((sheet) => sheet.textContent)
    .join("\n")
    .replace(/:root\[data-theme="?dark"?\]/g, isDark ? ":root" : ":root.never")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;");
  const copy = new XMLSerializer().serializeToString(copyOf(element));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><foreignObject width="100%" height="100%"><body xmlns="http://www.w3.org/1999/xhtml"><style>${style}</style><div id="app">${copy}</div></body></foreignObject></svg>`;
}

async function pngOf(element: HTMLElement): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(element))}`;
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
  const svg = () => save(new Blob([svgOf(shown())], { type: "image/svg+xml" }), `${name()}.svg`);
  return el(
    "span",
    { class: "segmented", role: "group", "aria-label": "Save this view as a picture" },
    el("button", { type: "button", title: "Save this view as PNG", "data-save": "png", onclick: png }, "PNG"),
    el("button", { type: "button", title: "Save this view as SVG", "data-save": "svg", onclick: svg }, "SVG"),
  );
}
