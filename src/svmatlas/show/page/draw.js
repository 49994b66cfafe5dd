// The plane on the graphics card: triangles of facets, lines of edges, pictures of pixels. Raw WebGL 2.
//
// Each facet has four numbers in a texture: the value at homogeneous costs c is (h.c) / c[axis], and the fourth says whether it is
// known. So a coefficient is exact in each pixel, not only in each facet.

import { TABLES } from "./colors.js";

export const WIDE = 2048; // of the texture of values
const SAMPLES = 4; // in a pixel of a smooth picture
const SCALE_NUMBERS = { log: 0, linear: 1, triangle: 2 };

const VERTEX = `#version 300 es
precision highp float;
layout(location = 0) in vec4 place;
layout(location = 1) in uint facet;
uniform vec4 middle;
uniform vec2 zoom;
out vec2 away;
flat out uint id;
void main() {
  away = vec2((place.x - middle.x) + (place.y - middle.y), (place.z - middle.z) + (place.w - middle.w));
  id = facet;
  gl_Position = vec4(away * zoom, 0.0, 1.0);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
precision highp sampler2D;
in vec2 away;
flat in uint id;
uniform sampler2D values;
uniform sampler2D colors;
uniform vec4 middle;
uniform vec2 range;
uniform vec4 plain;
uniform vec4 unknown;
uniform int scale;
uniform int axis;
uniform float unit;
out vec4 color;
vec3 costs(vec2 at) {
  if (scale == 0) return vec3(exp2(at * 3.3219280948873623), 1.0);
  if (scale == 1) return vec3(at, 1.0);
  return vec3(unit * at, max(1.0 - at.x - at.y, 1e-7));
}
void main() {
  if (plain.a > 0.0) { color = plain; return; }
  vec4 h = texelFetch(values, ivec2(int(id % ${WIDE}u), int(id / ${WIDE}u)), 0);
  if (h.w == 0.0) { color = unknown; return; }
  float value = h.z;
  if (h.w != 2.0) {
    vec3 c = costs(vec2(middle.x + middle.y, middle.z + middle.w) + away);
    value = dot(h.xyz, c) / c[axis];
  }
  float t = range.y > range.x ? (value - range.x) / (range.y - range.x) : 0.5;
  color = texture(colors, vec2((clamp(t, 0.0, 1.0) * 255.0 + 0.5) / 256.0, 0.5));
}`;

// A picture holds a value for each pixel of a part of the logarithmic plane, or, if it is direct, of the plane as it is shown.
const PICTURE_VERTEX = `#version 300 es
precision highp float;
layout(location = 0) in vec2 corner;
out vec2 at;
void main() { at = corner; gl_Position = vec4(2.0 * corner - 1.0, 0.0, 1.0); }`;

const PICTURE_FRAGMENT = `#version 300 es
precision highp float;
precision highp sampler2D;
in vec2 at;
uniform sampler2D picture;
uniform sampler2D colors;
uniform vec4 box;
uniform vec4 limits;
uniform vec2 range;
uniform vec4 unknown;
uniform int scale;
uniform float unit;
uniform bool direct;
out vec4 color;
void main() {
  vec2 place = mix(box.xz, box.yw, at);
  if (!direct && scale == 2) place = place.x + place.y < 1.0 ? unit * place / (1.0 - place.x - place.y) : vec2(-1.0);
  if (!direct && scale != 0) place = place.x > 0.0 && place.y > 0.0 ? log(place) / 2.302585092994046 : vec2(1e9);
  vec2 share = (place - limits.xz) / (limits.yw - limits.xz);
  if (any(lessThan(share, vec2(0.0))) || any(greaterThan(share, vec2(1.0)))) { color = unknown; return; }
  float value = texture(picture, share).r;
  if (isnan(value)) { color = unknown; return; }
  float t = range.y > range.x ? (value - range.x) / (range.y - range.x) : 0.5;
  color = texture(colors, vec2((clamp(t, 0.0, 1.0) * 255.0 + 0.5) / 256.0, 0.5));
}`;

function compile(gl, kind, source) {
  const shader = gl.createShader(kind);
  gl.shaderSource(shader, source);
  gl.compileShader(shader);
  if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
  return shader;
}

function makeProgram(gl, vertex, fragment) {
  const program = gl.createProgram();
  gl.attachShader(program, compile(gl, gl.VERTEX_SHADER, vertex));
  gl.attachShader(program, compile(gl, gl.FRAGMENT_SHADER, fragment));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  const at = {};
  for (let k = 0; k < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); k++) {
    const { name } = gl.getActiveUniform(program, k);
    at[name] = gl.getUniformLocation(program, name);
  }
  return { program, at };
}

function makeTexture(gl) {
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
  for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, side, gl.NEAREST);
  return texture;
}

// A frame with several samples a pixel, for facets that are larger than pixels.
function makeSmooth(gl) {
  const [frame, buffer] = [gl.createFramebuffer(), gl.createRenderbuffer()];
  gl.bindRenderbuffer(gl.RENDERBUFFER, buffer);
  gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
  gl.framebufferRenderbuffer(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.RENDERBUFFER, buffer);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  return { frame, buffer, width: 0, height: 0 };
}

export class Painter {
  constructor(canvas, nDrawn) {
    this.canvas = canvas;
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: false, preserveDrawingBuffer: true });
    if (!gl) throw new Error("this browser has no WebGL 2");
    this.gl = gl;
    this.facets = makeProgram(gl, VERTEX, FRAGMENT);
    this.pictures = makeProgram(gl, PICTURE_VERTEX, PICTURE_FRAGMENT);
    this.smooth = makeSmooth(gl);
    this.height = Math.max(1, Math.ceil(nDrawn / WIDE));
    this.values = makeTexture(gl);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA32F, WIDE, this.height, 0, gl.RGBA, gl.FLOAT, null);
    this.colors = makeTexture(gl);
    this.picture = makeTexture(gl);
    this.square = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.square);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([0, 0, 1, 0, 0, 1, 1, 1]), gl.STATIC_DRAW);
  }

  // Rows of the texture of values, given as four numbers a facet.
  setValues(values, firstRow = 0, lastRow = this.height) {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, this.values);
    const part = values.subarray(4 * WIDE * firstRow, 4 * WIDE * lastRow);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, firstRow, WIDE, lastRow - firstRow, gl.RGBA, gl.FLOAT, part);
  }

  setColors(table) {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, this.colors);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, TABLES[table]);
  }

  setPicture(values, width, height) {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, this.picture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32F, width, height, 0, gl.RED, gl.FLOAT, values);
  }

  // The colour at a place of the window, as shares of its width and height from the upper left.
  colorAt(x, y) {
    const { gl, canvas } = this;
    const out = new Uint8Array(4);
    gl.readPixels(Math.floor(x * canvas.width), Math.floor((1 - y) * canvas.height), 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, out);
    return Array.from(out.subarray(0, 3));
  }

  // Buffers of places and facets, as an object that can be drawn.
  load({ places, facets }) {
    const { gl } = this;
    const array = gl.createVertexArray();
    gl.bindVertexArray(array);
    const buffers = [places, facets].map((data, k) => {
      const buffer = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(k);
      if (k === 0) gl.vertexAttribPointer(0, 4, gl.FLOAT, false, 0, 0);
      else gl.vertexAttribIPointer(1, 1, gl.UNSIGNED_INT, 0, 0);
      return buffer;
    });
    gl.bindVertexArray(null);
    return { array, buffers, count: facets.length };
  }

  unload(loaded) {
    loaded.buffers.forEach((buffer) => this.gl.deleteBuffer(buffer));
    this.gl.deleteVertexArray(loaded.array);
  }

  // Begin with a picture, smooth or with one sample a pixel.
  begin(smooth, background) {
    const { gl } = this;
    const { width, height } = this.canvas;
    this.isSmooth = smooth;
    if (smooth) this.fitSmooth(width, height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, smooth ? this.smooth.frame : null);
    gl.viewport(0, 0, width, height);
    this.clear(background);
  }

  fitSmooth(width, height) {
    const { gl, smooth } = this;
    if (smooth.width === width && smooth.height === height) return;
    Object.assign(smooth, { width, height });
    gl.bindRenderbuffer(gl.RENDERBUFFER, smooth.buffer);
    gl.renderbufferStorageMultisample(gl.RENDERBUFFER, SAMPLES, gl.RGB8, width, height);
  }

  // Show what was drawn since.
  end() {
    const { gl } = this;
    if (!this.isSmooth) return;
    const { width, height } = this.canvas;
    this.isSmooth = false;
    gl.bindFramebuffer(gl.READ_FRAMEBUFFER, this.smooth.frame);
    gl.bindFramebuffer(gl.DRAW_FRAMEBUFFER, null);
    gl.blitFramebuffer(0, 0, width, height, 0, 0, width, height, gl.COLOR_BUFFER_BIT, gl.NEAREST);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }

  clear(background) {
    const { gl } = this;
    gl.clearColor(...background, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
  }

  bindTextures(first) {
    const { gl } = this;
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.colors);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, first);
  }

  // Draw stretches [first, count] of loaded triangles, or lines of one colour.
  draw(loaded, stretches, { view, size, scale, range, axis, unknown, plain = [0, 0, 0, 0], lines = false }) {
    const { gl } = this;
    const { program, at } = this.facets;
    gl.useProgram(program);
    this.bindTextures(this.values);
    const [x, y] = [Math.fround(view.x), Math.fround(view.y)];
    gl.uniform1i(at.values, 0);
    gl.uniform1i(at.colors, 1);
    gl.uniform4f(at.middle, x, view.x - x, y, view.y - y);
    gl.uniform2f(at.zoom, 2 / (size.width * view.step), 2 / (size.height * view.step));
    gl.uniform2f(at.range, ...range);
    gl.uniform4f(at.plain, ...plain);
    gl.uniform4f(at.unknown, ...unknown, 1);
    gl.uniform1i(at.scale, SCALE_NUMBERS[scale.name]);
    gl.uniform1i(at.axis, axis);
    gl.uniform1f(at.unit, scale.unit);
    gl.bindVertexArray(loaded.array);
    for (const [first, count] of stretches) gl.drawArrays(lines ? gl.LINES : gl.TRIANGLES, first, count);
    gl.bindVertexArray(null);
  }

  // A function that says whether all that was drawn until now is drawn: the card, or what stands for it, works beside the page.
  fence() {
    const { gl } = this;
    const sync = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    return () => {
      const passed = gl.clientWaitSync(sync, 0, 0) !== gl.TIMEOUT_EXPIRED;
      if (passed) gl.deleteSync(sync);
      return passed;
    };
  }

  drawSquare() {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.square);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }

  // ``limits``: the box of places of the picture, relative to the same middle as the box that is shown.
  drawPicture({ box, limits, range, unknown, scale, direct }) {
    const { gl } = this;
    const { program, at } = this.pictures;
    gl.useProgram(program);
    this.bindTextures(this.picture);
    gl.uniform1i(at.picture, 0);
    gl.uniform1i(at.colors, 1);
    gl.uniform4f(at.box, ...box);
    gl.uniform4f(at.limits, ...limits);
    gl.uniform1i(at.direct, direct ? 1 : 0);
    gl.uniform2f(at.range, ...range);
    gl.uniform4f(at.unknown, ...unknown, 1);
    gl.uniform1i(at.scale, SCALE_NUMBERS[scale.name]);
    gl.uniform1f(at.unit, scale.unit);
    this.drawSquare();
  }
}
