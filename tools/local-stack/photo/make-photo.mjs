// Makes harbour.jpg, the photo that the demo sends: a small ray tracer, so that the picture is ours.
// Run it from the root: node tools/local-stack/photo/make-photo.mjs
import { Buffer } from 'node:buffer';
import sharp from 'sharp';

const [width, height, samples] = [640, 480, 3];
const sun = normalize([0.45, 0.28, 0.85]);
const spheres = [
  { centre: [-1.5, 0.75, 5.2], radius: 0.75, colour: [0.85, 0.16, 0.12], mirror: 0.12 },
  { centre: [0.25, 1.0, 6.4], radius: 1.0, colour: [0.95, 0.95, 0.97], mirror: 0.75 },
  { centre: [1.75, 0.55, 4.6], radius: 0.55, colour: [0.95, 0.72, 0.1], mirror: 0.15 },
  { centre: [0.1, 0.3, 3.9], radius: 0.3, colour: [0.1, 0.45, 0.75], mirror: 0.3 },
];

function normalize(v) {
  const length = Math.hypot(...v);
  return v.map((x) => x / length);
}
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const add = (a, b, scale = 1) => a.map((x, i) => x + b[i] * scale);
const mix = (a, b, t) => a.map((x, i) => x * (1 - t) + b[i] * t);
const reflect = (d, n) => add(d, n, -2 * dot(d, n));

function sky(d) {
  const up = Math.max(0, d[1]);
  const base = mix([1.0, 0.62, 0.36], [0.2, 0.36, 0.66], Math.min(1, up * 2.4) ** 0.6);
  const glow = Math.max(0, dot(d, sun));
  const cloud = Math.sin(d[0] * 9 + Math.sin(d[1] * 30) * 1.3) * Math.sin(d[1] * 46 + d[0] * 5);
  const lit = add(base, [1, 0.75, 0.5], 0.09 * Math.max(0, cloud) * Math.exp(-up * 3));
  return add(add(lit, [1, 0.85, 0.6], glow ** 400 * 3), [1, 0.6, 0.3], glow ** 12 * 0.35);
}

function hitSphere(origin, d, { centre, radius }) {
  const to = add(centre, origin, -1);
  const along = dot(to, d);
  const gap = radius * radius - dot(to, to) + along * along;
  if (gap < 0) return Infinity;
  const near = along - Math.sqrt(gap);
  return near > 1e-3 ? near : Infinity;
}

function nearest(origin, d) {
  let best = { distance: Infinity };
  for (const sphere of spheres) {
    const distance = hitSphere(origin, d, sphere);
    if (distance < best.distance) best = { distance, sphere };
  }
  const ground = d[1] < -1e-4 ? -origin[1] / d[1] : Infinity;
  return ground > 1e-3 && ground < best.distance ? { distance: ground } : best;
}

function trace(origin, d, depth) {
  const { distance, sphere } = nearest(origin, d);
  if (distance === Infinity) return sky(d);
  const point = add(origin, d, distance);
  let normal = [0, 1, 0];
  let colour, mirror;
  if (sphere) {
    normal = normalize(add(point, sphere.centre, -1));
    ({ colour, mirror } = sphere);
  } else if (point[2] < 8.2) {
    // The pier: planks with seams and grain.
    const plank = Math.floor(point[0] / 0.55);
    const seam = Math.abs(point[0] / 0.55 - plank - 0.5) > 0.47 ? 0.35 : 1;
    const grain = 0.88 + 0.12 * Math.sin(point[2] * 7 + Math.sin(point[0] * 40 + plank * 9) * 2);
    colour = [0.55, 0.38, 0.24].map((x) => x * seam * grain * (0.9 + 0.1 * Math.sin(plank * 12.9)));
    mirror = 0.04;
  } else {
    // The sea: ripples bend the mirror.
    const ripple = Math.sin(point[0] * 3.1 + Math.sin(point[2] * 1.7) * 2) * 0.035;
    normal = normalize([ripple, 1, Math.sin(point[2] * 5.3 + point[0]) * 0.05]);
    colour = [0.05, 0.16, 0.24];
    mirror = 0.62;
  }
  const start = add(point, normal, 1e-3);
  const isLit = nearest(start, sun).distance === Infinity;
  const light = 0.28 + (isLit ? Math.max(0, dot(normal, sun)) * 0.95 : 0);
  let result = colour.map((x, i) => x * light * [1.05, 0.95, 0.85][i]);
  if (depth > 0 && mirror > 0)
    result = mix(result, trace(start, reflect(d, normal), depth - 1), mirror);
  const haze = Math.min(1, Math.max(0, (distance - 12) / 60));
  return mix(result, sky(normalize([d[0], 0.02, d[2]])), haze);
}

const pixels = Buffer.alloc(width * height * 3);
for (let y = 0; y < height; y++) {
  for (let x = 0; x < width; x++) {
    let sum = [0, 0, 0];
    for (let s = 0; s < samples * samples; s++) {
      const px = (x + ((s % samples) + 0.5) / samples - width / 2) / height;
      const py = (height / 2 - y - (Math.floor(s / samples) + 0.5) / samples) / height;
      sum = add(sum, trace([0, 1.25, -0.6], normalize([px * 1.25, py * 1.25 - 0.06, 1.2]), 3));
    }
    for (let c = 0; c < 3; c++) {
      const value = sum[c] / (samples * samples);
      pixels[(y * width + x) * 3 + c] = Math.min(
        255,
        Math.round(255 * (1 - Math.exp(-1.6 * value)) ** 0.8),
      );
    }
  }
}
await sharp(pixels, { raw: { width, height, channels: 3 } })
  .jpeg({ quality: 88 })
  .toFile(new URL('harbour.jpg', import.meta.url).pathname);
