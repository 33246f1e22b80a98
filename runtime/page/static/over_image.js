// Boxes over the image in which they were found, with the texts that belong to them.

import { draw, make } from "./dom.js";

/** Return the quadrilaterals of an output: [N, 4, 2] corners, or [N, 4] left, top, right, bottom. */
export function boxesOf(output) {
  const { datatype, shape, values } = output;
  if (!/^(FP|BF|U?INT)/.test(datatype) || shape[0] === 0) return null;
  const numbers = () => Array.from(values, Number);
  if (shape.length === 3 && shape[1] === 4 && shape[2] === 2) return parted(numbers(), 8);
  if (shape.length !== 2 || shape[1] !== 4 || !/box|rect|face|region/i.test(output.name))
    return null;
  return parted(numbers(), 4).map(([l, t, r, b]) => [l, t, r, t, r, b, l, b]);
}

function parted(numbers, size) {
  const count = numbers.length / size;
  return Array.from({ length: count }, (_, row) => numbers.slice(row * size, (row + 1) * size));
}

/** Return an image with boxes on it; `point` is told the row of the box that is pointed at. */
export function imageWithBoxes(file, boxes, texts, point) {
  const url = URL.createObjectURL(file);
  const image = make("img", { alt: `the image sent, with ${boxes.length} boxes` });
  const drawing = draw("svg", { class: "boxes", "aria-hidden": "true" });
  const frame = make("div", { className: "over-image" }, image, drawing);
  const groups = [];
  image.addEventListener("load", () => {
    URL.revokeObjectURL(url);
    const width = image.naturalWidth,
      height = image.naturalHeight;
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const unit = Math.max(width, height) / 400;
    const scale = boxes.every((box) => box.every((at) => at <= 1.5)) ? [width, height] : [1, 1];
    for (const [row, box] of boxes.entries()) {
      const corners = box.map((at, index) => at * scale[index % 2]);
      const points = corners.join(" ");
      const group = draw("g", {}, draw("polygon", { points, "stroke-width": unit }));
      if (texts !== null) group.append(label(corners, texts[row], unit));
      group.addEventListener("pointerenter", () => point(row));
      group.addEventListener("pointerleave", () => point(null));
      groups[row] = group;
      drawing.append(group);
    }
  });
  image.addEventListener("error", () => frame.remove()); // a file that is no image
  image.src = url;
  return {
    frame,
    light: (row) => groups.forEach((one, at) => one.classList.toggle("lit", at === row)),
  };
}

/** A text below its box, as long as the box is wide at the most. */
function label(corners, text, unit) {
  const xs = corners.filter((_, index) => index % 2 === 0),
    ys = corners.filter((_, i) => i % 2 === 1);
  const left = Math.min(...xs),
    wide = Math.max(...xs) - left,
    bottom = Math.max(...ys);
  const size = Math.max(4.5 * unit, Math.min(9 * unit, (Math.max(...ys) - Math.min(...ys)) * 0.5));
  const element = draw(
    "text",
    {
      x: left,
      y: bottom + size * 0.95,
      "font-size": size,
      "stroke-width": size / 4,
    },
    text,
  );
  if (text.length * size * 0.5 > wide) {
    element.setAttribute("textLength", Math.max(wide, size * 2));
    element.setAttribute("lengthAdjust", "spacingAndGlyphs");
  }
  return element;
}
