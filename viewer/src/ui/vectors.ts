// A drawing as shapes: what a view draws on its canvas, written down as SVG instead.
//
// It takes the calls of a canvas that the views use, and no others. Coordinates are those of the page.

const LETTERS: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string) => text.replace(/[&<>"]/g, (letter) => LETTERS[letter]!).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");
const rounded = (value: number) => String(Math.round(value * 100) / 100);
const ANCHORS: Record<string, string> = { left: "start", start: "start", center: "middle", right: "end", end: "end" };
const BASELINES: Record<string, string> = { middle: "central", top: "hanging", hanging: "hanging", bottom: "text-after-edge", alphabetic: "alphabetic" };

/** Beyond this an editor of drawings is of no use, and files take megabytes. */
const MOST_SHAPES = 20_000;
const MOST_POINTS = 400_000;

interface Pen {
  fillStyle: string;
  strokeStyle: string;
  lineWidth: number;
  lineJoin: string;
  font: string;
  textAlign: string;
  textBaseline: string;
  globalAlpha: number;
  dash: number[];
  clipped: string;
  left: number;
  top: number;
}

const START: Pen = { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineJoin: "miter", font: "10px sans-serif", textAlign: "start", textBaseline: "alphabetic", globalAlpha: 1, dash: [], clipped: "", left: 0, top: 0 };
let drawings = 0;

export class VectorContext implements Pen {
  fillStyle = START.fillStyle;
  strokeStyle = START.strokeStyle;
  lineWidth = START.lineWidth;
  lineJoin = START.lineJoin;
  font = START.font;
  textAlign = START.textAlign;
  textBaseline = START.textBaseline;
  globalAlpha = START.globalAlpha;
  dash: number[] = [];
  clipped = "";
  left = 0;
  top = 0;
  imageSmoothingEnabled = true;
  private readonly saved: Pen[] = [];
  private readonly shapes: string[] = [];
  private readonly definitions: string[] = [];
  private readonly known = new Map<string, string>();
  private readonly ruler = document.createElement("canvas").getContext("2d")!;
  // Names are unique in a file that holds several drawings.
  private readonly prefix = `g${++drawings}-`;
  private path: string[] = [];
  private points = 0;

  constructor(readonly width: number, readonly height: number) {}

  get shapeCount(): number {
    return this.shapes.length;
  }
  get isTooMuch(): boolean {
    return this.shapes.length > MOST_SHAPES || this.points > MOST_POINTS;
  }

  save(): void {
    const { fillStyle, strokeStyle, lineWidth, lineJoin, font, textAlign, textBaseline, globalAlpha, dash, clipped, left, top } = this;
    this.saved.push({ fillStyle, strokeStyle, lineWidth, lineJoin, font, textAlign, textBaseline, globalAlpha, dash, clipped, left, top });
  }
  restore(): void {
    Object.assign(this, this.saved.pop() ?? START);
  }
  translate(x: number, y: number): void {
    this.left += x;
    this.top += y;
  }
  setLineDash(dash: number[]): void {
    this.dash = dash;
  }
  measureText(text: string): TextMetrics {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  beginPath(): void {
    this.path = [];
  }
  private point(letter: string, x: number, y: number): void {
    this.points++;
    this.path.push(`${letter}${rounded(x + this.left)} ${rounded(y + this.top)}`);
  }
  moveTo(x: number, y: number): void {
    this.point("M", x, y);
  }
  lineTo(x: number, y: number): void {
    this.point(this.path.length === 0 ? "M" : "L", x, y);
  }
  closePath(): void {
    if (this.path.length > 0) this.path.push("Z");
  }
  rect(x: number, y: number, width: number, height: number): void {
    this.point("M", x, y);
    this.path.push(`h${rounded(width)}v${rounded(height)}h${rounded(-width)}Z`);
  }
  /** Views draw whole circles only. */
  arc(x: number, y: number, radius: number): void {
    this.point("M", x - radius, y);
    const half = (way: number) => `a${rounded(radius)} ${rounded(radius)} 0 1 0 ${rounded(way * 2 * radius)} 0`;
    this.path.push(`${half(1)}${half(-1)}Z`);
  }

  clip(): void {
    const [d, around] = [this.path.join(""), this.clipped];
    this.clipped = this.defined(`clip ${around} ${d}`, (id) => `<clipPath id="${id}"${around === "" ? "" : ` clip-path="${around}"`}><path d="${d}"/></clipPath>`);
  }
  fill(): void {
    if (this.path.length > 0) this.add("path", `d="${this.path.join("")}" fill="${escaped(this.fillStyle)}"`);
  }
  stroke(): void {
    if (this.path.length > 0) this.add("path", `d="${this.path.join("")}" fill="none" ${this.outline()}`);
  }
  fillRect(x: number, y: number, width: number, height: number): void {
    this.add("rect", `${this.box(x, y, width, height)} fill="${escaped(this.fillStyle)}"`);
  }
  strokeRect(x: number, y: number, width: number, height: number): void {
    this.add("rect", `${this.box(x, y, width, height)} fill="none" ${this.outline()}`);
  }
  /** What lies below it is covered: a drawing on paper has no holes. */
  clearRect(): void {}
  fillText(text: string, x: number, y: number): void {
    this.write(text, x, y, `fill="${escaped(this.fillStyle)}"`);
  }
  strokeText(text: string, x: number, y: number): void {
    this.write(text, x, y, `fill="none" ${this.outline()}`);
  }
  drawImage(canvas: HTMLCanvasElement, x: number, y: number, width = canvas.width, height = canvas.height): void {
    // As an attribute: the page's policy lets no element have a style of its own.
    const sharp = this.imageSmoothingEnabled ? "" : ' image-rendering="pixelated"';
    this.add("image", `${this.box(x, y, width, height)} preserveAspectRatio="none"${sharp} href="${canvas.toDataURL()}"`);
  }

  /** A fill of diagonal stripes, for fillStyle. */
  stripes(color: string, over: string, step: number): string {
    const lines = [-step, 0, step].map((shift) => `<path d="M${shift} ${step}L${shift + step} 0" stroke="${escaped(over)}"/>`);
    return this.defined(
      `${color} ${over} ${step}`,
      (id) => `<pattern id="${id}" width="${step}" height="${step}" patternUnits="userSpaceOnUse"><rect width="${step}" height="${step}" fill="${escaped(color)}"/>${lines.join("")}</pattern>`,
    );
  }

  /** The drawing, to be put into a file. */
  svg(): string {
    const size = `width="${rounded(this.width)}" height="${rounded(this.height)}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${rounded(this.width)} ${rounded(this.height)}" data-shapes="${this.shapes.length}"><defs>${this.definitions.join("")}</defs>${this.shapes.join("")}</svg>`;
  }

  private defined(key: string, make: (id: string) => string): string {
    let id = this.known.get(key);
    if (id === undefined) {
      id = `${this.prefix}${this.known.size}`;
      this.known.set(key, id);
      this.definitions.push(make(id));
    }
    return `url(#${id})`;
  }

  private box(x: number, y: number, width: number, height: number): string {
    const [left, top] = [Math.min(x, x + width) + this.left, Math.min(y, y + height) + this.top];
    return `x="${rounded(left)}" y="${rounded(top)}" width="${rounded(Math.abs(width))}" height="${rounded(Math.abs(height))}"`;
  }

  private outline(): string {
    const dash = this.dash.length === 0 ? "" : ` stroke-dasharray="${this.dash.join(" ")}"`;
    return `stroke="${escaped(this.strokeStyle)}" stroke-width="${this.lineWidth}" stroke-linejoin="${this.lineJoin}"${dash}`;
  }

  private write(text: string, x: number, y: number, paint: string): void {
    if (text === "") return;
    const font = `font="${escaped(this.font)}"`.replace(/^font="((?:bold |italic )*)([\d.]+px) (.*)"$/, (_, style: string, size: string, family: string) => {
      const bold = style.includes("bold") ? ' font-weight="bold"' : "";
      return `font-size="${size}" font-family="${family}"${bold}`;
    });
    const place = `x="${rounded(x + this.left)}" y="${rounded(y + this.top)}"`;
    this.points++;
    this.shapes.push(`<text ${place} ${font} text-anchor="${ANCHORS[this.textAlign] ?? "start"}" dominant-baseline="${BASELINES[this.textBaseline] ?? "alphabetic"}" ${paint}${this.more()}>${escaped(text)}</text>`);
  }

  private add(name: string, attributes: string): void {
    this.points++;
    this.shapes.push(`<${name} ${attributes}${this.more()}/>`);
  }

  private more(): string {
    return `${this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : ""}${this.clipped === "" ? "" : ` clip-path="${this.clipped}"`}`;
  }
}

/** The same, where a canvas's context is expected: drawings call nothing that is not here. */
export const asContext = (vectors: VectorContext): CanvasRenderingContext2D => vectors as unknown as CanvasRenderingContext2D;
export const vectorsOf = (context: CanvasRenderingContext2D): VectorContext | null => (context as unknown) instanceof VectorContext ? (context as unknown as VectorContext) : null;
