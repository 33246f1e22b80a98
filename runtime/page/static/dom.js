// Elements, made without HTML: all text is text, wherever it comes from.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element; properties whose names have a dash are attributes, and so are `role`, `for`. */
export function make(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** Return an element of a drawing; its properties are all attributes. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Put children in place of those that there are. */
export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null));
}

/** Set a text where it is another, so that nothing is told twice and no selection is lost. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const byId = (id) => document.getElementById(id);
